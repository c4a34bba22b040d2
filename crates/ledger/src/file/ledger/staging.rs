//! A ledger that is collected into before it has its name (`building`).

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::{LONGEST_WAIT, Ledger, assert_sqlite, connect, set_up};
use crate::file::building::{Building, remove_unfinished, unlogged};
use crate::file::ledger_path::{Found, inspect, make_room};
use crate::file::lock::{Held, WriteLock};
use crate::file::open_files::Opened;
use crate::{Error, Result};

/// How long a ledger is collected into before it has its name: an import that is killed has not lost
/// more than that, and nobody who wants to open it waits for longer.
const LONGEST: Duration = Duration::from_secs(2);

/// What a ledger without a name needs to get it.
#[derive(Debug)]
pub(super) struct Unnamed {
    building: Building,
    /// What it was when it was empty.
    empty: Arc<[u8]>,
    since: Instant,
    /// Nobody else builds one meanwhile. After the building: that is gone first.
    _turn: Held,
}

impl Ledger {
    /// Opens the ledger at `path` to collect into it. A new ledger is filled in a staging file and
    /// gets its name while the first files are collected.
    pub fn open_to_collect(path: &Path) -> Result<Ledger> {
        let Found::Nothing = inspect(path)? else {
            // Nobody builds another one to any purpose; it may hold what is forgotten here.
            remove_unfinished(path);
            return Ledger::open(path);
        };
        assert_sqlite()?;
        make_room(path)?;
        let turn = WriteLock::beside(path)?.acquire(LONGEST_WAIT);
        // Another process may have been first, or be at it.
        if !turn.is_held() || !matches!(inspect(path)?, Found::Nothing) {
            drop(turn);
            return Ledger::open(path);
        }
        let building = Building::begin(path)?;
        let file = building.file().to_owned();
        let empty = fs::read(&file).map_err(Error::io("read", &file))?.into();
        let (conn, opened) = connect(&file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        unlogged(&conn)?;
        // Nobody else looks: there is no need to ask for the file again with every transaction.
        conn.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        let mut ledger = Ledger::of(file, conn, opened);
        ledger.unnamed = Some(Unnamed { building, empty, since: Instant::now(), _turn: turn });
        Ok(ledger)
    }

    /// True while it is built.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.unnamed.is_some()
    }

    /// True once it should have its name.
    pub(crate) fn is_unnamed_for_long(&self) -> bool {
        self.unnamed.as_ref().is_some_and(|unnamed| unnamed.since.elapsed() >= LONGEST)
    }

    /// Gives it its name, if it has none. An error if another process has built one meanwhile: then
    /// it is that one from now on.
    pub(crate) fn take_name(&mut self) -> Result<()> {
        let Some(Unnamed { building, _turn: turn, .. }) = self.unnamed.take() else {
            return Ok(());
        };
        let path = building.path().to_owned();
        // It is closed before anybody else may open it.
        let conn = std::mem::replace(&mut self.conn, Connection::open_in_memory()?);
        conn.close().map_err(|(_, error)| error)?;
        let is_placed = building.place()?;
        drop(turn);
        let (stop, longest_wait, fts5) = (self.stop.take(), self.longest_wait, self.fts5);
        *self = Ledger::open(&path)?;
        self.stop = stop;
        self.fts5 = fts5;
        self.set_longest_wait(longest_wait)?;
        if is_placed { Ok(()) } else { Err(Error::Replaced { path }) }
    }

    /// What readers of files see of it while it is built: an empty ledger.
    pub(crate) fn empty(&self) -> Option<Arc<[u8]>> {
        self.unnamed.as_ref().map(|unnamed| Arc::clone(&unnamed.empty))
    }

    /// Opens a ledger in memory, to read from it.
    pub(crate) fn in_memory(bytes: &[u8], path: &Path) -> Result<Ledger> {
        let mut conn = Connection::open_in_memory()?;
        conn.deserialize_read_exact("main", bytes, bytes.len(), true)?;
        set_up(&conn)?;
        Ok(Ledger::of(path.to_owned(), conn, Opened::at(path)?))
    }
}
