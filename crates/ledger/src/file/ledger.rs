//! The open file: connections, migrations, and the one function that writes to it.
//!
//! Never prints and never retries a failed transaction. All rows of a ledger at its path are
//! written through [`Ledger::write`], except by migrations.

mod connect;
mod staging;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quipu_fts5::Access;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::base::foreign::FileId;
use crate::base::sidecar::beside;
use crate::file::building::create;
use crate::file::ledger_path::{FoundAtPath, inspect, make_room, name_for_log, set_log_aside};
use crate::file::lock::WriteLock;
use crate::file::open_files::OpenFile;
use crate::file::{companions, read_only, schema};
use crate::{Error, Result};
use connect::{
    assert_sqlite, busy, connect, connect_to_read, or_no_room, refuse_newer, user_version,
};
use staging::Staging;

pub(crate) use connect::set_up;

/// The shortest wait for SQLite's own lock, even if the wait in the queue took the whole limit.
const MIN_LOCK_WAIT: Duration = Duration::from_millis(50);

/// The time that a writer waits for another one before it fails with [`Error::Busy`].
pub(crate) const MAX_LOCK_WAIT: Duration = Duration::from_secs(10);

/// The time limit for a call that needs a complete projection. The call projects missing records
/// itself, in turns with other processes. A million records take about a minute.
const MAX_CATCH_UP_TIME: Duration = Duration::from_secs(600);

/// The time that a checkpoint waits for readers if it can also be done later.
const SHORT_LOCK_WAIT: Duration = Duration::from_millis(100);

/// The length, in pages, at which the log is written back while other processes write.
const MAX_LOG_PAGES: i64 = 1024;

/// Up to this number, unused pages stay in the file for later records. In a large file the limit is
/// a 64th of its pages.
const TRIM_ABOVE_PAGES: i64 = 16;

/// An open ledger.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    conn: Connection,
    lock: Option<Arc<WriteLock>>,
    /// Declared after the connection, so that the connection is closed first.
    opened: OpenFile,
    /// Once it is set, no further transaction begins.
    stop: Option<Arc<AtomicBool>>,
    /// Set while a reader waits for this process to finish collecting.
    hurry: Option<Hurry>,
    /// The longest wait for another writer, while no reader waits.
    longest_wait: Duration,
    /// The time limit for a call that needs a complete projection.
    longest_catch_up: Duration,
    /// True if the last wait for a turn timed out.
    has_missed_turn: bool,
    /// True if the ledger is written with a write-ahead log, unlike a backup.
    has_log: bool,
    /// True if SQLite reads the file without its log and without locks (`read_only`).
    is_immutable: bool,
    /// The forced access to the search index; `None` detects it.
    fts5: Option<Access>,
    /// Set while the ledger is in a staging file. Declared last: the file is closed before it is
    /// removed.
    staging: Option<Staging>,
}

/// Limits for collecting while a reader waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hurry {
    /// The longest wait for another writer, for each transaction.
    pub(crate) wait: Duration,
    /// No new transaction begins after this moment.
    pub(crate) until: Instant,
}

/// Ends the queries of a ledger from another thread.
pub struct Interrupter(rusqlite::InterruptHandle);

impl Interrupter {
    /// Ends the query that runs now, if there is one. Later queries are not affected.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }
}

impl std::fmt::Debug for Interrupter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Interrupter")
    }
}

impl Ledger {
    /// Opens the ledger at `path` for reading and writing, creating it and its folder if absent.
    pub fn open(path: &Path) -> Result<Ledger> {
        Ledger::open_waiting(path, MAX_LOCK_WAIT)
    }

    /// Opens the ledger like [`Ledger::open`]. Opening it, and each write through it, waits at most
    /// `longest` for another writer.
    pub fn open_waiting(path: &Path, longest: Duration) -> Result<Ledger> {
        assert_sqlite()?;
        // A refused file is left alone: not even a lock is created beside it.
        let found = inspect(path)?;
        if read_only::is_backup(path, &found, longest) {
            return Err(Error::IsBackup { path: path.to_owned() });
        }
        make_room(path)?;
        let lock = Arc::new(WriteLock::beside(path)?);
        match found {
            FoundAtPath::Nothing => {
                let _turn = lock.acquire(longest);
                // Another process may have been first.
                if let FoundAtPath::Nothing = inspect(path)? {
                    create(path)?;
                }
            }
            FoundAtPath::Ledger { .. } => companions::make_writable(path)?,
        }
        let (conn, opened) = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, longest)?;
        // SQLite opens a file without write permission for reading, without an error.
        if conn.is_readonly("main")? {
            let source = std::io::ErrorKind::PermissionDenied.into();
            return Err(Error::Io { action: "write to", path: path.to_owned(), source });
        }
        conn.pragma_update(None, "synchronous", "NORMAL")?;
        let mut ledger = Ledger::of(path.to_owned(), conn, opened);
        ledger.lock = Some(lock);
        ledger.longest_wait = longest;
        ledger.upgrade()?;
        ledger.opened.note_log(path);
        Ok(ledger)
    }

    /// Returns whether a ledger is at `path`. Something else there is an error.
    pub fn is_at(path: &Path) -> Result<bool> {
        Ok(matches!(inspect(path)?, FoundAtPath::Ledger { .. }))
    }

    /// Opens an existing ledger of this version for reading only.
    pub(crate) fn open_up_to_date(path: &Path) -> Result<Ledger> {
        let ledger = Ledger::open_any_version(path)?;
        let conn = &ledger.conn;
        if !schema::is_newest(conn)? || schema::has_older_shape(conn)? {
            return Err(Error::Older { path: path.to_owned() });
        }
        Ok(ledger)
    }

    /// Opens an existing ledger of any known version for reading only.
    pub(crate) fn open_any_version(path: &Path) -> Result<Ledger> {
        Ledger::open_any_version_waiting(path, MAX_LOCK_WAIT)
    }

    /// Opens an existing ledger of any known version for reading only, and waits at most `longest`
    /// for a process that keeps readers out.
    pub fn open_any_version_waiting(path: &Path, longest: Duration) -> Result<Ledger> {
        assert_sqlite()?;
        let FoundAtPath::Ledger { has_log } = inspect(path)? else {
            return Err(Error::Absent { path: path.to_owned() });
        };
        let (conn, opened, is_immutable) = connect_to_read(path, longest)?;
        refuse_newer(&conn, path)?;
        let mut ledger = Ledger::of(path.to_owned(), conn, opened);
        ledger.is_immutable = is_immutable;
        ledger.has_log = match has_log {
            Some(has_log) => has_log,
            None => ledger
                .conn
                .pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0))?
                .eq_ignore_ascii_case("wal"),
        };
        Ok(ledger)
    }

    /// Wraps a connection without a lock: for reading only, or for a file no other process knows.
    pub(crate) fn of(path: PathBuf, conn: Connection, opened: OpenFile) -> Ledger {
        Ledger {
            path,
            conn,
            lock: None,
            opened,
            stop: None,
            hurry: None,
            longest_wait: MAX_LOCK_WAIT,
            longest_catch_up: MAX_CATCH_UP_TIME,
            has_missed_turn: false,
            has_log: true,
            is_immutable: false,
            fts5: None,
            staging: None,
        }
    }

    /// Returns whether the ledger has no records besides those of its journal.
    pub fn is_empty(&self) -> Result<bool> {
        let collected = "SELECT EXISTS (SELECT 1 FROM generations WHERE records > 0 AND id > 1)";
        Ok(!self.conn.query_row(collected, [], |row| row.get::<_, bool>(0))?)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the ledger is written with a write-ahead log. It may return false for an
    /// immutable file: SQLite reports the journal mode only of a file that it reads with locks.
    pub(crate) fn has_log(&self) -> bool {
        self.has_log
    }

    /// Returns whether SQLite reads the file without its log and without locks.
    pub(crate) fn is_immutable(&self) -> bool {
        self.is_immutable
    }

    /// Returns whether the ledger was opened for writing.
    pub(crate) fn is_writable(&self) -> bool {
        self.lock.is_some()
    }

    /// Returns a handle that ends the queries of this ledger from another thread.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(self.conn.get_interrupt_handle())
    }

    /// Returns the connection, for reading.
    pub(crate) fn conn(&self) -> &Connection {
        &self.conn
    }

    /// Returns the connection, for changing its settings.
    pub(crate) fn conn_mut(&mut self) -> &mut Connection {
        &mut self.conn
    }

    /// Runs `write` in one transaction: either all of it is stored or nothing.
    pub(crate) fn write<T>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        self.try_write(write).map_err(|error| or_no_room(error, &self.path))
    }

    fn try_write<T>(&mut self, write: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(Error::Stopped);
        }
        let wait = self.hurry.map_or(self.longest_wait, |hurry| hurry.wait);
        let began = Instant::now();
        // After a timeout, the next wait in the queue is short: SQLite's lock orders the writers as
        // well.
        let patience = if self.has_missed_turn { MIN_LOCK_WAIT.min(wait) } else { wait };
        let turn = self.lock.as_ref().map(|lock| lock.acquire(patience));
        self.has_missed_turn = turn.as_ref().is_some_and(|turn| !turn.is_held());
        // If a reader waits and the turn did not come in time, SQLite's lock is not waited for.
        if self.hurry.is_some() && turn.as_ref().is_some_and(|turn| !turn.is_held()) {
            return Err(Error::Busy { path: self.path.clone(), waited: wait, holder: None });
        }
        // Time spent in the queue counts against the wait for SQLite's lock.
        let left = wait.saturating_sub(began.elapsed()).max(MIN_LOCK_WAIT.min(wait));
        self.conn.busy_timeout(left)?;
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| busy(error, &self.path, wait))?;
        tx.busy_timeout(wait)?;
        // The file is only swapped while its lock is held, so a swap shows here at the latest.
        if !self.opened.is_at(&self.path) {
            return Err(Error::Replaced { path: self.path.clone() });
        }
        if user_version(&tx)? != schema::truth_version() {
            return Err(Error::Upgraded);
        }
        if matches!(schema::derived(&tx)?, schema::Derived::Newer { .. }) {
            return Err(Error::Upgraded);
        }
        let value = write(&tx)?;
        tx.commit().map_err(|error| busy(error, &self.path, wait))?;
        drop(turn);
        Ok(value)
    }

    /// Begins a read transaction that lasts until [`Ledger::release_snapshot`] or until the ledger
    /// is closed. Until then the log cannot be truncated, and nothing can be written through this
    /// connection.
    pub(crate) fn hold_snapshot(&self) -> Result<()> {
        self.conn.execute_batch("BEGIN")?;
        // The snapshot is taken by the first read.
        user_version(&self.conn)?;
        Ok(())
    }

    /// Ends the read transaction of [`Ledger::hold_snapshot`], if there is one.
    pub(crate) fn release_snapshot(&self) -> Result<()> {
        if !self.conn.is_autocommit() {
            self.conn.execute_batch("COMMIT")?;
        }
        Ok(())
    }

    /// Returns the queue of writers, to see whether another process waits for its turn.
    pub(crate) fn queue(&self) -> Option<Arc<WriteLock>> {
        self.lock.clone()
    }

    /// Sets or clears the limits for collecting while a reader waits.
    pub(crate) fn set_hurry(&mut self, hurry: Option<Hurry>) -> Result<()> {
        self.conn.busy_timeout(hurry.map_or(self.longest_wait, |hurry| hurry.wait))?;
        self.hurry = hurry;
        // A timeout of an earlier, shorter wait must not shorten the next wait.
        self.has_missed_turn = false;
        Ok(())
    }

    /// Sets how long a write waits for another writer.
    pub(crate) fn set_longest_wait(&mut self, longest: Duration) -> Result<()> {
        self.conn.busy_timeout(longest)?;
        self.longest_wait = longest;
        Ok(())
    }

    /// Sets the time limit for a call that needs a complete projection.
    pub(crate) fn set_longest_catch_up(&mut self, longest: Duration) {
        self.longest_catch_up = longest;
    }

    /// Returns the time limit for a call that needs a complete projection.
    pub(crate) fn longest_catch_up(&self) -> Duration {
        self.longest_catch_up
    }

    /// Returns the moment after which no new transaction should begin, if a reader waits.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.hurry.map(|hurry| hurry.until)
    }

    /// Returns all unused pages to the file system if there are more than the limit.
    pub(crate) fn trim(&mut self) -> Result<()> {
        let number = |name: &str| -> Result<i64> {
            Ok(self.conn.pragma_query_value(None, name, |row| row.get(0))?)
        };
        let (unused, all) = (number("freelist_count")?, number("page_count")?);
        if unused > TRIM_ABOVE_PAGES.max(all / 64) {
            self.write(|tx| {
                // One step of the statement frees one page.
                let mut vacuum = tx.prepare(&format!("PRAGMA incremental_vacuum({unused})"))?;
                let mut steps = vacuum.query([])?;
                while steps.next()?.is_some() {}
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Writes the log back into the file and truncates it, if no reader prevents it.
    pub fn checkpoint(&self) -> Result<()> {
        self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    /// Writes the log back into the file when it is long, so that it restarts from its beginning:
    /// overwriting a file is faster than extending it. Writers wait only for the last part.
    pub(crate) fn write_back(&self) -> Result<()> {
        let frames: i64 =
            self.conn.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1))?;
        if frames < MAX_LOG_PAGES {
            return Ok(());
        }
        let passive = || self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        passive()?;
        // The second pass writes the frames added during the first. The lock keeps writers from
        // adding more.
        let _turn = self.lock.as_ref().map(|lock| lock.acquire(SHORT_LOCK_WAIT));
        Ok(passive()?)
    }

    /// Checkpoints, but waits for readers only briefly.
    pub(crate) fn try_checkpoint(&self) -> Result<()> {
        self.conn.busy_timeout(SHORT_LOCK_WAIT)?;
        let done = self.checkpoint();
        self.conn.busy_timeout(self.longest_wait)?;
        done
    }

    /// Returns the device and inode of the file.
    pub(crate) fn file(&self) -> FileId {
        self.opened.file()
    }

    /// Returns whether the ledger's path leads to another file now, or to none.
    pub(crate) fn is_replaced(&self) -> bool {
        !self.opened.is_at(&self.path)
    }

    /// Moves the log away if another file has the ledger's path now: SQLite would apply the log to
    /// that file, because it finds logs by name. The log is written back into its own file first;
    /// if another process prevents that, it is kept under another name.
    pub(crate) fn detach_log(&self) -> Result<()> {
        let Some(lock) = &self.lock else { return Ok(()) };
        if !self.is_replaced() || !self.opened.has_log_at(&self.path) {
            return Ok(());
        }
        let _turn = lock.acquire(self.longest_wait);
        let is_written_back = self.truncate_log(SHORT_LOCK_WAIT).unwrap_or(false);
        // Another process may have moved it since it was opened.
        if !self.opened.has_log_at(&self.path) {
            return Ok(());
        }
        let aside = name_for_log(&self.path);
        set_log_aside(&self.path, &aside)?;
        if is_written_back {
            let _ = fs::remove_file(beside(&aside, "-wal"));
        }
        Ok(())
    }

    /// Returns how the search index is read and written.
    pub(crate) fn fts5_access(&self) -> Result<Access> {
        match self.fts5 {
            Some(access) => Ok(access),
            None => Ok(Access::detect(&self.conn)?),
        }
    }

    /// Sets how the search index is read and written, instead of detecting it. Tests compare both
    /// ways.
    #[doc(hidden)]
    pub fn force_fts5_access(&mut self, access: Access) {
        self.fts5 = Some(access);
    }

    /// Counts the virtual machine steps that SQLite takes from now on. Tests count steps because
    /// times vary.
    #[doc(hidden)]
    pub fn count_steps(&mut self) -> Result<Arc<AtomicU64>> {
        const AT_ONCE: u8 = 16;
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        let count = move || {
            counted.fetch_add(AT_ONCE.into(), Ordering::Relaxed);
            false
        };
        self.conn.progress_handler(AT_ONCE.into(), Some(count))?;
        Ok(steps)
    }

    /// Ends work on this ledger with [`Error::Stopped`], between two transactions, once `stop` is
    /// set.
    pub(crate) fn stop_on(&mut self, stop: Arc<AtomicBool>) {
        self.stop = Some(stop);
    }

    /// Truncates the log, so that no old page stays in it. Returns false if another process still
    /// needs it after `longest`.
    pub(crate) fn truncate_log(&self, longest: Duration) -> Result<bool> {
        self.conn.busy_timeout(longest)?;
        let is_busy =
            self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        self.conn.busy_timeout(self.longest_wait)?;
        Ok(!is_busy?)
    }

    /// Rewrites the whole file from its rows, so that no trace of deleted rows stays.
    pub(crate) fn vacuum(&mut self) -> Result<()> {
        let _turn = self.lock.as_ref().map(|lock| lock.acquire(self.longest_wait));
        // The copy may be larger than memory.
        self.conn.pragma_update(None, "temp_store", "FILE")?;
        let written = self.conn.execute_batch("VACUUM");
        self.conn.pragma_update(None, "temp_store", "MEMORY")?;
        written.map_err(|error| busy(error, &self.path, self.longest_wait))
    }

    /// Migrates truth if it is of an older version, and turns the log on.
    fn upgrade(&mut self) -> Result<()> {
        refuse_newer(&self.conn, &self.path)?;
        if !schema::is_newest(&self.conn)? {
            self.migrate().inspect_err(|_| {
                // A file that cannot be migrated stays as it is, so its log is not written back
                // either.
                let option = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
                let _ = self.conn.set_db_config(option, true);
            })?;
        }
        self.use_log()
    }

    fn migrate(&mut self) -> Result<()> {
        let _turn = self.lock.as_ref().map(|lock| lock.acquire(self.longest_wait));
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| busy(error, &self.path, self.longest_wait))?;
        // Another process may have migrated it first, perhaps to a version newer than ours.
        refuse_newer(&tx, &self.path)?;
        schema::migrate_truth(&tx)?;
        tx.commit().map_err(|error| busy(error, &self.path, self.longest_wait))
    }

    /// Switches a file to a write-ahead log. A backup that was moved to the ledger's path has none.
    /// If another process prevents it, the ledger works without one, and the next open tries again.
    fn use_log(&self) -> Result<()> {
        let mode: String = self.conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        if mode.eq_ignore_ascii_case("wal") {
            return Ok(());
        }
        let _turn = self.lock.as_ref().map(|lock| lock.acquire(self.longest_wait));
        if self.opened.is_at(&self.path) {
            let switched = self.conn.pragma_update(None, "journal_mode", "WAL");
            switched.or_else(|error| match busy(error, &self.path, self.longest_wait) {
                Error::Busy { .. } => Ok(()),
                error => Err(error),
            })?;
        }
        Ok(())
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // A held snapshot keeps the log from being written back.
        let _ = self.release_snapshot();
        // Callers that continue with the new file call `detach_log` themselves and see its error.
        let _ = self.detach_log();
    }
}

/// A second connection that only checkpoints, while the first one writes.
pub(crate) struct Checkpointer {
    conn: Connection,
    // Declared after the connection, so that the connection is closed first.
    _opened: OpenFile,
}

impl Checkpointer {
    /// Opens an existing ledger.
    pub(crate) fn open(path: &Path) -> Result<Checkpointer> {
        let (conn, opened) = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, MAX_LOCK_WAIT)?;
        conn.pragma_update(None, "synchronous", "NORMAL")?;
        Ok(Checkpointer { conn, _opened: opened })
    }

    /// Writes as much of the log back into the file as readers allow. Never blocks readers or
    /// writers.
    pub(crate) fn write_back(&self) -> Result<()> {
        self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        Ok(())
    }
}
