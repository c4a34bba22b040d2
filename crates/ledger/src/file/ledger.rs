//! The file itself, open: connections, migrations, and the one way to write to it.

mod staging;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quipu_fts5::Access;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::base::sidecar::{beside, log_length};
use crate::file::building::create;
use crate::file::ledger_path::{
    Found, aside_now, in_real_folder, inspect, make_room, set_log_aside,
};
use crate::file::lock::WriteLock;
use crate::file::open_files::{FileId, Opened};
use crate::file::{companions, free_space, read_only, schema};
use crate::{Error, Result, Trouble};
use staging::Unnamed;

/// However long somebody waited for a turn, SQLite is asked for so long.
const LEAST_WAIT: Duration = Duration::from_millis(50);

/// How long a writer waits for another one.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How long a call of the store waits for a projection that is being derived again. It derives what
/// it waits for itself, in turns with the other process; a million records take about a minute.
const LONGEST_CATCH_UP: Duration = Duration::from_secs(600);

/// How often a ledger is opened again that was replaced while it was being opened.
const TRIES: usize = 8;

/// How long a checkpoint that may as well come later waits for readers.
const SHORT_WAIT: Duration = Duration::from_millis(100);

/// A log of so many pages is written back while others go on writing.
const LONG_LOG: i64 = 1024;

/// Fewer unused pages than this are kept for what comes next.
const TRIM_ABOVE: i64 = 16;

/// An open ledger.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    conn: Connection,
    lock: Option<Arc<WriteLock>>,
    /// After the connection: it is closed first.
    opened: Opened,
    /// Once it is set, nothing more is written.
    stop: Option<Arc<AtomicBool>>,
    /// Set while somebody waits for an answer.
    hurry: Option<Hurry>,
    /// For another writer, when nobody is in a hurry.
    longest_wait: Duration,
    /// For a projection that lacks records.
    longest_catch_up: Duration,
    /// Whoever had the turn when this one last waited for it, has not given it back in time.
    has_missed_turn: bool,
    /// How the search index is read and written, where that is not detected.
    fts5: Option<Access>,
    /// Set while it is built. Last: it is closed before it is removed.
    unnamed: Option<Unnamed>,
}

/// How long collecting may keep somebody waiting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hurry {
    /// For another writer, each time.
    pub(crate) wait: Duration,
    /// No new transaction begins after this moment.
    pub(crate) until: Instant,
}

impl Ledger {
    /// Opens the ledger at `path` for reading and writing, creating it and its folder if absent.
    pub fn open(path: &Path) -> Result<Ledger> {
        assert_sqlite()?;
        // A file that is refused is left alone: not even a lock is put beside it.
        let found = inspect(path)?;
        if read_only::is_backup(path, &found) {
            return Err(Error::IsBackup { path: path.to_owned() });
        }
        make_room(path)?;
        let lock = Arc::new(WriteLock::beside(path)?);
        match found {
            Found::Nothing => {
                let _held = lock.acquire(LONGEST_WAIT);
                // Another process may have been first.
                if let Found::Nothing = inspect(path)? {
                    create(path)?;
                }
            }
            Found::Ledger { .. } => companions::make_writable(path)?,
        }
        let (conn, opened) = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // SQLite opens what it may not write to all the same.
        if conn.is_readonly("main")? {
            let source = std::io::ErrorKind::PermissionDenied.into();
            return Err(Error::Io { action: "write to", path: path.to_owned(), source });
        }
        conn.pragma_update(None, "synchronous", "NORMAL")?;
        let mut ledger = Ledger::of(path.to_owned(), conn, opened);
        ledger.lock = Some(lock);
        ledger.bring_up()?;
        ledger.opened.note_log(path);
        Ok(ledger)
    }

    /// Opens an existing ledger of this version for reading only.
    pub(crate) fn open_up_to_date(path: &Path) -> Result<Ledger> {
        let ledger = Ledger::open_as_it_is(path)?;
        let conn = &ledger.conn;
        if !schema::is_newest(conn)? || schema::has_older_shape(conn)? {
            return Err(Error::Older { path: path.to_owned() });
        }
        Ok(ledger)
    }

    /// The same, of a ledger that may have to be brought up to date first: to copy it.
    pub(crate) fn open_as_it_is(path: &Path) -> Result<Ledger> {
        Ledger::look_into(path).map(|(ledger, _)| ledger)
    }

    /// The same, and whether it is written with a log: of a file that may not be written to, SQLite
    /// does not tell.
    pub(crate) fn look_into(path: &Path) -> Result<(Ledger, bool)> {
        assert_sqlite()?;
        let Found::Ledger { has_log } = inspect(path)? else {
            return Err(Error::Absent { path: path.to_owned() });
        };
        let (conn, opened) = connect_to_read(path)?;
        refuse_newer(&conn, path)?;
        let has_log = match has_log {
            Some(has_log) => has_log,
            None => conn
                .pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0))?
                .eq_ignore_ascii_case("wal"),
        };
        Ok((Ledger::of(path.to_owned(), conn, opened), has_log))
    }

    /// Without a lock, and so for reading only, or for nobody else.
    pub(crate) fn of(path: PathBuf, conn: Connection, opened: Opened) -> Ledger {
        Ledger {
            path,
            conn,
            lock: None,
            opened,
            stop: None,
            hurry: None,
            longest_wait: LONGEST_WAIT,
            longest_catch_up: LONGEST_CATCH_UP,
            has_missed_turn: false,
            fts5: None,
            unnamed: None,
        }
    }

    /// Whether nothing was ever collected into it.
    pub fn is_empty(&self) -> Result<bool> {
        let collected = "SELECT EXISTS (SELECT 1 FROM generations WHERE records > 0 AND id > 1)";
        Ok(!self.conn.query_row(collected, [], |row| row.get::<_, bool>(0))?)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if it was opened for writing.
    pub(crate) fn is_writable(&self) -> bool {
        self.lock.is_some()
    }

    /// The connection, for reading.
    pub(crate) fn conn(&self) -> &Connection {
        &self.conn
    }

    /// The connection, to set it up for one purpose.
    pub(crate) fn conn_mut(&mut self) -> &mut Connection {
        &mut self.conn
    }

    /// Runs `write` in one transaction: all of it is stored, or nothing.
    pub(crate) fn write<T>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(Error::Stopped);
        }
        let wait = self.hurry.map_or(self.longest_wait, |hurry| hurry.wait);
        let began = Instant::now();
        // A turn that did not come in time is not waited for again and again: SQLite keeps order, too.
        let patience = if self.has_missed_turn { LEAST_WAIT.min(wait) } else { wait };
        let held = self.lock.as_ref().map(|lock| lock.acquire(patience));
        self.has_missed_turn = held.as_ref().is_some_and(|held| !held.is_held());
        // Whoever is in a hurry does not stand in a second queue.
        if self.hurry.is_some() && held.as_ref().is_some_and(|held| !held.is_held()) {
            return Err(Error::Busy { path: self.path.clone(), seconds: 0 });
        }
        // What was spent in our queue is not spent in SQLite's once more.
        let left = wait.saturating_sub(began.elapsed()).max(LEAST_WAIT.min(wait));
        self.conn.busy_timeout(left)?;
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| busy(error, &self.path))?;
        tx.busy_timeout(wait)?;
        // Nobody swaps the file while somebody writes; whoever comes after a swap sees it here.
        if !self.opened.is_at(&self.path) {
            return Err(Error::Replaced { path: self.path.clone() });
        }
        if user_version(&tx)? != schema::truth_version() {
            return Err(Error::Upgraded);
        }
        let projection: i64 = tx
            .prepare_cached("SELECT projection_version FROM ledger")?
            .query_row([], |row| row.get(0))?;
        if projection > schema::projection_version() {
            return Err(Error::Upgraded);
        }
        let value = write(&tx)?;
        tx.commit().map_err(|error| busy(error, &self.path))?;
        drop(held);
        Ok(value)
    }

    /// Reads one state of the ledger until it is closed. Meanwhile the log cannot be cut off.
    pub(crate) fn hold(&self) -> Result<()> {
        self.conn.execute_batch("BEGIN")?;
        // The first read chooses the state.
        user_version(&self.conn)?;
        Ok(())
    }

    /// The queue of writers, to see whether another process waits for its turn.
    pub(crate) fn queue(&self) -> Option<Arc<WriteLock>> {
        self.lock.clone()
    }

    /// From now on, or no longer, somebody waits for an answer.
    pub(crate) fn set_hurry(&mut self, hurry: Option<Hurry>) -> Result<()> {
        self.conn.busy_timeout(hurry.map_or(self.longest_wait, |hurry| hurry.wait))?;
        self.hurry = hurry;
        Ok(())
    }

    /// Another writer is waited for no longer than this.
    pub(crate) fn set_longest_wait(&mut self, longest: Duration) -> Result<()> {
        self.conn.busy_timeout(longest)?;
        self.longest_wait = longest;
        Ok(())
    }

    /// Sets how long a call waits for a projection that lacks records.
    pub(crate) fn set_longest_catch_up(&mut self, longest: Duration) {
        self.longest_catch_up = longest;
    }

    /// Returns how long a call waits for a projection that lacks records.
    pub(crate) fn longest_catch_up(&self) -> Duration {
        self.longest_catch_up
    }

    /// The moment after which whoever is in a hurry does not want to wait any more.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.hurry.map(|hurry| hurry.until)
    }

    /// Gives unused pages back to the file system when they have become many.
    pub(crate) fn trim(&mut self) -> Result<()> {
        let number = |name: &str| -> Result<i64> {
            Ok(self.conn.pragma_query_value(None, name, |row| row.get(0))?)
        };
        let (unused, all) = (number("freelist_count")?, number("page_count")?);
        if unused > TRIM_ABOVE.max(all / 64) {
            self.write(|tx| {
                // One step frees one page.
                let mut vacuum = tx.prepare(&format!("PRAGMA incremental_vacuum({unused})"))?;
                let mut steps = vacuum.query([])?;
                while steps.next()?.is_some() {}
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Writes the WAL back into the file and shortens it, if nobody is in the way.
    pub fn checkpoint(&self) -> Result<()> {
        self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    /// Writes the WAL back into the file when it has become long, so that it is begun anew: what is
    /// written over is on disk sooner than what is added. Those who write wait for the end of it only.
    pub(crate) fn write_back(&self) -> Result<()> {
        let frames: i64 =
            self.conn.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1))?;
        if frames < LONG_LOG {
            return Ok(());
        }
        let passive = || self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        passive()?;
        // What was written meanwhile; and nobody adds to it before it is done.
        let _held = self.lock.as_ref().map(|lock| lock.acquire(SHORT_WAIT));
        Ok(passive()?)
    }

    /// The same, without waiting for those who read.
    pub(crate) fn try_checkpoint(&self) -> Result<()> {
        self.conn.busy_timeout(SHORT_WAIT)?;
        let done = self.checkpoint();
        self.conn.busy_timeout(LONGEST_WAIT)?;
        done
    }

    /// Which file it is.
    pub(crate) fn file(&self) -> FileId {
        self.opened.file()
    }

    /// True if its path leads to another file now, or to none.
    pub(crate) fn is_replaced(&self) -> bool {
        !self.opened.is_at(&self.path)
    }

    /// If another file has its name now, takes its log away from there: SQLite leaves the log of a
    /// file that was moved where it is, and would apply it to the other one. What is in it goes
    /// back into its own file; if somebody is in the way, it is put aside.
    pub(crate) fn leave(&self) -> Result<()> {
        let Some(lock) = &self.lock else { return Ok(()) };
        if !self.is_replaced() || !self.opened.has_log_at(&self.path) {
            return Ok(());
        }
        let _held = lock.acquire(LONGEST_WAIT);
        let is_written_back = self.cut_log(SHORT_WAIT).unwrap_or(false);
        // Meanwhile another process may have done the same.
        if !self.opened.has_log_at(&self.path) {
            return Ok(());
        }
        let aside = aside_now(&self.path);
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

    /// Reads and writes the search index in this way, whatever would be detected. Tests compare both.
    #[doc(hidden)]
    pub fn force_fts5_access(&mut self, access: Access) {
        self.fts5 = Some(access);
    }

    /// Counts the steps of SQLite's machine that answers take from now on. Tests count work where
    /// time would say nothing.
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

    /// From the moment that `stop` is set, work on this ledger ends between two transactions with
    /// [`Error::Stopped`].
    pub(crate) fn stop_on(&mut self, stop: Arc<AtomicBool>) {
        self.stop = Some(stop);
    }

    /// Cuts the WAL off, so that no old page is left in it. False if another process still needs
    /// it after `longest`.
    pub(crate) fn cut_log(&self, longest: Duration) -> Result<bool> {
        self.conn.busy_timeout(longest)?;
        let is_busy =
            self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        self.conn.busy_timeout(LONGEST_WAIT)?;
        Ok(!is_busy?)
    }

    /// Writes the whole file anew from its rows, so that nothing is left of what was deleted.
    pub(crate) fn write_anew(&mut self) -> Result<()> {
        let _held = self.lock.as_ref().map(|lock| lock.acquire(LONGEST_WAIT));
        // The copy may be larger than memory.
        self.conn.pragma_update(None, "temp_store", "FILE")?;
        let written = self.conn.execute_batch("VACUUM");
        self.conn.pragma_update(None, "temp_store", "MEMORY")?;
        written.map_err(|error| busy(error, &self.path))
    }

    /// Migrates truth, and empties a projection that another version made.
    fn bring_up(&mut self) -> Result<()> {
        refuse_newer(&self.conn, &self.path)?;
        if !schema::is_newest(&self.conn)? {
            self.migrate().inspect_err(|_| {
                // A file that cannot be migrated stays as it is: its log is not written back either.
                let option = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
                let _ = self.conn.set_db_config(option, true);
            })?;
        }
        self.use_log()
    }

    fn migrate(&mut self) -> Result<()> {
        let _held = self.lock.as_ref().map(|lock| lock.acquire(LONGEST_WAIT));
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| busy(error, &self.path))?;
        // While we waited, another process may have migrated it, and further than we can.
        refuse_newer(&tx, &self.path)?;
        schema::migrate_truth(&tx)?;
        tx.commit().map_err(|error| busy(error, &self.path))
    }

    /// A backup that was put in place by hand has no write-ahead log: gives it one. If others are in
    /// the way, the ledger works without, and the next one to open it tries again.
    fn use_log(&self) -> Result<()> {
        let mode: String = self.conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        if mode.eq_ignore_ascii_case("wal") {
            return Ok(());
        }
        let _held = self.lock.as_ref().map(|lock| lock.acquire(LONGEST_WAIT));
        if self.opened.is_at(&self.path) {
            let switched = self.conn.pragma_update(None, "journal_mode", "WAL");
            switched.or_else(|error| match busy(error, &self.path) {
                Error::Busy { .. } => Ok(()),
                error => Err(error),
            })?;
        }
        Ok(())
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // Whoever goes on with another file of that name asks for it and hears of a failure.
        let _ = self.leave();
    }
}

/// Opens the file at `path`, and makes sure that nobody put another one there meanwhile: the log
/// that is read by name would belong to that one.
fn connect(path: &Path, access: OpenFlags) -> Result<(Connection, Opened)> {
    free_space::check(path)?;
    let (conn, opened) = connect_as(path, &in_real_folder(path), access)?;
    match opened.back_shared_memory(path) {
        Ok(()) => Ok((conn, opened)),
        Err(error) => {
            // Before what it has open.
            drop(conn);
            Err(error)
        }
    }
}

/// The same for reading only. A file that nothing can be put beside is read as it stands, if all of it
/// is in the file.
fn connect_to_read(path: &Path) -> Result<(Connection, Opened)> {
    let access = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let as_it_stands = || {
        let name = read_only::immutable(&in_real_folder(path));
        connect_as(path, &name, access | OpenFlags::SQLITE_OPEN_URI)
    };
    let is_closed = read_only::is_closed(path);
    if is_closed && read_only::is_left(path) {
        return as_it_stands();
    }
    let error = match connect(path, access) {
        Err(error) => error,
        connected => return connected,
    };
    // A disk that cannot be written to may have no room either.
    let is_stopped = matches!(error.trouble(), Trouble::ReadOnly | Trouble::DiskFull);
    match log_length(path) {
        0 if error.trouble() == Trouble::DiskFull => as_it_stands(),
        0 if is_stopped && is_closed => as_it_stands(),
        _ if is_stopped && is_closed => Err(Error::HiddenLog { path: path.to_owned() }),
        _ => Err(error),
    }
}

/// The same; SQLite knows it as `name`.
fn connect_as(path: &Path, name: &Path, access: OpenFlags) -> Result<(Connection, Opened)> {
    for _ in 0..TRIES {
        let opened = Opened::at(path)?;
        let conn = Connection::open_with_flags(
            name,
            access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW,
        );
        let conn = conn.map_err(Error::from).and_then(|conn| {
            set_up(&conn)?;
            // The first read opens the log.
            user_version(&conn)?;
            Ok(conn)
        });
        let conn = conn.map_err(|error| match error {
            Error::Sqlite(error) if is_about_disk(&error) && free_space::is_short(path) => {
                Error::NoRoom { path: path.to_owned() }
            }
            Error::Sqlite(error) => busy(error, path),
            error => error,
        });
        if opened.is_at(path) {
            return Ok((conn?, opened));
        }
    }
    Err(Error::Replaced { path: path.to_owned() })
}

/// A second connection that only writes the log back, beside whoever writes.
pub(crate) struct Checkpointer {
    conn: Connection,
    // After the connection: the file is open as long as that is.
    _opened: Opened,
}

impl Checkpointer {
    /// Opens a ledger that is there.
    pub(crate) fn open(path: &Path) -> Result<Checkpointer> {
        let (conn, opened) = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        conn.pragma_update(None, "synchronous", "NORMAL")?;
        Ok(Checkpointer { conn, _opened: opened })
    }

    /// Writes back what is committed and nobody else needs in the log. Keeps nobody waiting.
    pub(crate) fn write_back(&self) -> Result<()> {
        self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        Ok(())
    }
}

/// Settings of every connection.
pub(crate) fn set_up(conn: &Connection) -> Result<()> {
    conn.busy_timeout(LONGEST_WAIT)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Without it, a statement that could use a partial index is planned anew for every value.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    // Three times as much makes nothing faster, an import slower: it is memory touched for the first
    // time.
    conn.pragma_update(None, "cache_size", -8192)?;
    conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
    conn.pragma_update(None, "wal_autocheckpoint", 8192)?;
    conn.set_prepared_statement_cache_capacity(128);
    Ok(())
}

fn user_version(conn: &Connection) -> Result<i64> {
    Ok(conn.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))?)
}

/// A schema that we do not know is left alone.
fn refuse_newer(conn: &Connection, path: &Path) -> Result<()> {
    let (found, known) = (user_version(conn)?, schema::truth_version());
    if found > known {
        return Err(Error::Newer { path: path.to_owned(), found, known });
    }
    Ok(())
}

/// Whether SQLite could not read, write or create something, and does not say why.
fn is_about_disk(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, DiskFull, SystemIoFailure};
    matches!(error.sqlite_error_code(), Some(CannotOpen | DiskFull | SystemIoFailure))
}

/// A lock that could not be had in time becomes a sentence that says so.
fn busy(error: rusqlite::Error, path: &Path) -> Error {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
            Error::Busy { path: path.to_owned(), seconds: LONGEST_WAIT.as_secs() }
        }
        _ => Error::Sqlite(error),
    }
}

fn assert_sqlite() -> Result<()> {
    if rusqlite::version_number() < schema::OLDEST_SQLITE {
        return Err(Error::damaged(format!(
            "built with SQLite {}, which can corrupt files; 3.51.3 is the oldest safe one",
            rusqlite::version()
        )));
    }
    Ok(())
}
