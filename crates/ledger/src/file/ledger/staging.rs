//! A ledger that is collected into while it is still a staging file (`building`).
//!
//! Never visible to other processes before it is complete.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::connect::{assert_sqlite, connect, set_up};
use super::{Ledger, MAX_LOCK_WAIT};
use crate::file::building::{Building, remove_unfinished, turn_off_journal};
use crate::file::ledger_path::{FoundAtPath, inspect, make_room};
use crate::file::lock::{Turn, WriteLock};
use crate::file::open_files::OpenFile;
use crate::{Error, Result};

/// The longest time that a ledger stays a staging file: 2 seconds. A killed import loses no more
/// than that, and a process that wants to open the ledger waits no longer.
const MAX_STAGING_TIME: Duration = Duration::from_secs(2);

/// The state of a ledger that is still a staging file.
#[derive(Debug)]
pub(super) struct Staging {
    building: Building,
    /// The bytes of the empty ledger.
    empty: Arc<[u8]>,
    since: Instant,
    /// Keeps other processes from building a ledger. Declared last, so that the staging file is
    /// removed first.
    _turn: Turn,
}

impl Ledger {
    /// Opens the ledger at `path` to collect into it. A new ledger is filled in a staging file and
    /// gets its name while the first files are collected.
    pub fn open_to_collect(path: &Path) -> Result<Ledger> {
        let FoundAtPath::Nothing = inspect(path)? else {
            // A staging file beside an existing ledger is stale, and may hold sessions that were
            // forgotten.
            remove_unfinished(path);
            return Ledger::open(path);
        };
        assert_sqlite()?;
        make_room(path)?;
        let turn = WriteLock::beside(path)?.acquire(MAX_LOCK_WAIT);
        // Another process may have created it, or be about to.
        if !turn.is_held() || !matches!(inspect(path)?, FoundAtPath::Nothing) {
            drop(turn);
            return Ledger::open(path);
        }
        let building = Building::begin(path)?;
        let file = building.file().to_owned();
        let empty = fs::read(&file).map_err(Error::io("read", &file))?.into();
        let (conn, opened) = connect(&file, OpenFlags::SQLITE_OPEN_READ_WRITE, MAX_LOCK_WAIT)?;
        turn_off_journal(&conn)?;
        // No other process opens the file, so the lock is taken once and not for every transaction.
        conn.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        let mut ledger = Ledger::of(file, conn, opened);
        ledger.staging = Some(Staging { building, empty, since: Instant::now(), _turn: turn });
        Ok(ledger)
    }

    /// Returns whether the ledger is still a staging file.
    pub(crate) fn is_staging(&self) -> bool {
        self.staging.is_some()
    }

    /// Returns whether the ledger has been a staging file for [`MAX_STAGING_TIME`].
    pub(crate) fn is_staging_overdue(&self) -> bool {
        self.staging.as_ref().is_some_and(|staging| staging.since.elapsed() >= MAX_STAGING_TIME)
    }

    /// Renames a staging file to the ledger's path. If another process created a ledger there
    /// first, that one is opened instead and [`Error::Replaced`] is returned.
    pub(crate) fn publish(&mut self) -> Result<()> {
        let Some(Staging { building, _turn: turn, .. }) = self.staging.take() else {
            return Ok(());
        };
        let path = building.path().to_owned();
        // The connection closes before another process can open the file.
        let conn = std::mem::replace(&mut self.conn, Connection::open_in_memory()?);
        conn.close().map_err(|(_, error)| error)?;
        let is_published = building.publish()?;
        drop(turn);
        let (stop, longest_wait, fts5) = (self.stop.take(), self.longest_wait, self.fts5);
        *self = Ledger::open(&path)?;
        self.stop = stop;
        self.fts5 = fts5;
        self.set_longest_wait(longest_wait)?;
        if is_published { Ok(()) } else { Err(Error::Replaced { path }) }
    }

    /// Returns the bytes of the empty ledger that reader threads use while this one is a staging
    /// file.
    pub(crate) fn empty(&self) -> Option<Arc<[u8]>> {
        self.staging.as_ref().map(|staging| Arc::clone(&staging.empty))
    }

    /// Opens a read-only ledger in memory, from the bytes of a ledger's file.
    pub(crate) fn in_memory(bytes: &[u8], path: &Path) -> Result<Ledger> {
        let mut conn = Connection::open_in_memory()?;
        conn.deserialize_read_exact("main", bytes, bytes.len(), true)?;
        set_up(&conn)?;
        Ok(Ledger::of(path.to_owned(), conn, OpenFile::at(path)?))
    }
}
