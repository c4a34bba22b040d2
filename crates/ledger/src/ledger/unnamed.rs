//! A ledger that is collected into before it has its name (`building`).

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::{LONGEST_WAIT, Ledger, assert_sqlite, connect, set_up};
use crate::building::{Building, unlogged};
use crate::lock::{Held, WriteLock};
use crate::opened::Opened;
use crate::place::{Found, inspect, make_room};
use crate::{Result, schema};

/// What a ledger without a name needs to get it.
#[derive(Debug)]
pub(super) struct Unnamed {
    building: Building,
    path: PathBuf,
    /// Nobody else builds one meanwhile. After the building: that is gone first.
    _turn: Held,
}

impl Ledger {
    /// Opens the ledger at `path` to collect into it. One that is not there yet comes to stand
    /// there with the first [`collect`](crate::collect), holding what that found in its first
    /// seconds; if there is none, never.
    pub fn open_to_collect(path: &Path) -> Result<Ledger> {
        let Found::Nothing = inspect(path)? else { return Ledger::open(path) };
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
        let (conn, opened) = connect(&file, &file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        unlogged(&conn)?;
        // Nobody else looks: there is no need to ask for the file again with every transaction.
        conn.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        let mut ledger = Ledger::of(file, conn, opened);
        ledger.unnamed = Some(Unnamed { building, path: path.to_owned(), _turn: turn });
        Ok(ledger)
    }

    /// True while it is built.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.unnamed.is_some()
    }

    /// Gives it its name. False if another process has built one meanwhile: then it is that one.
    pub(crate) fn take_name(&mut self) -> Result<bool> {
        let Some(Unnamed { building, path, _turn: turn }) = self.unnamed.take() else {
            return Ok(true);
        };
        // It is closed before anybody else may open it.
        let conn = std::mem::replace(&mut self.conn, Connection::open_in_memory()?);
        conn.close().map_err(|(_, error)| error)?;
        let is_placed = building.place()?;
        drop(turn);
        let (stop, longest_wait) = (self.stop.take(), self.longest_wait);
        *self = Ledger::open(&path)?;
        self.stop = stop;
        self.set_longest_wait(longest_wait)?;
        Ok(is_placed)
    }

    /// An empty ledger in memory: what readers of files see of one that is built.
    pub(crate) fn blank(path: &Path) -> Result<Ledger> {
        let mut conn = Connection::open_in_memory()?;
        set_up(&conn)?;
        let tx = conn.transaction()?;
        schema::migrate_truth(&tx, 0)?;
        schema::create_projection(&tx)?;
        tx.commit()?;
        Ok(Ledger::of(path.to_owned(), conn, Opened::at(path)?))
    }
}
