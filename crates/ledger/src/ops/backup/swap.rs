//! Replaces the ledger by a backup.
//!
//! SQLite finds a write-ahead log by name and would apply the log of the old file to the new one.
//! So the old ledger is closed off first: SQLite writes its log back, removes it, and takes an
//! exclusive lock, which it does only if no other process has the file open. Then there is one file
//! and nothing beside it, and one rename replaces it. A process that opens it at that moment
//! notices and opens it again ([`crate::file::ledger`]); a process that still has the old one
//! can no longer write to it.
//!
//! If the process is killed at any point, the old or the new ledger is at the path, complete.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::BackupProgress;
use super::check::{self, Summary};
use super::copy::{self, Copy};
use super::list::{self, Backup};
use super::temporary::{self, Temporary};
use crate::base::clock;
use crate::base::sidecar::beside;
use crate::file::ledger::Ledger;
use crate::file::ledger_path::{self, FoundAtPath, in_real_folder};
use crate::file::lock::WriteLock;
use crate::file::open_files::OpenFile;
use crate::file::{read_only, schema};
use crate::wire::BackupRestored;
use crate::{Error, Result};

/// The longest wait for other processes to close the ledger.
const MAX_CLOSE_WAIT: Duration = Duration::from_secs(5);

/// The pause between two attempts to lock the ledger.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// A backup that was checked and is beside the ledger, ready to replace it. Dropping it changes
/// nothing.
#[derive(Debug)]
pub struct PreparedRestore {
    ledger: PathBuf,
    from: PathBuf,
    copy: Temporary,
    summary: Summary,
    puts_aside_anything: bool,
    is_of_another: bool,
}

/// Copies and checks a backup. With `puts_aside_anything`, the file at the ledger's path need not
/// be a ledger.
pub fn prepare_restore(
    ledger: &Path,
    from: &Path,
    puts_aside_anything: bool,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<PreparedRestore> {
    let from = std::path::absolute(from).map_err(Error::io("find", from))?;
    let id = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    if id(&from).is_some_and(|file| id(ledger) == Some(file)) {
        return Err(Error::SameFile { path: from });
    }
    let unsound = |error: Error| match is_damage(&error) {
        true => Error::Unsound { path: from.clone(), what: "SQLite cannot read it".to_owned() },
        false => error,
    };
    let source = Ledger::open_any_version(&from).map_err(unsound)?;
    inspect_path(ledger, puts_aside_anything)?;
    ledger_path::make_room(ledger)?;
    temporary::remove_left_over(ledger);
    let copy = Temporary::beside(ledger)?;
    let job =
        Copy { from: source.conn(), from_path: &from, temporary: copy.path(), target: ledger };
    copy::copy(&job, &mut |done, total| progress(BackupProgress::Copied { done, total }))
        .map_err(unsound)?;
    drop(source);
    let summary = check::check(copy.path(), &from, &mut |done, total| {
        progress(BackupProgress::Checked { done, total });
    })?;
    // A file without an id cannot be confused with another ledger.
    let is_of_another = id_of(ledger).is_some_and(|id| id != summary.ledger_id);
    let ledger = ledger.to_owned();
    Ok(PreparedRestore { ledger, from, copy, summary, puts_aside_anything, is_of_another })
}

impl PreparedRestore {
    /// Returns the number of sessions in the backup, and of sub-agents.
    pub fn session_counts(&self) -> (u64, u64) {
        (self.summary.sessions, self.summary.subagents)
    }

    /// Returns the number of records in the backup, without the journal.
    pub fn records(&self) -> u64 {
        self.summary.records
    }

    /// Returns whether the backup is a copy of another ledger than the one it would replace.
    pub fn is_of_another_ledger(&self) -> bool {
        self.is_of_another
    }

    /// Replaces the ledger, and keeps the old file beside it.
    pub fn swap(self) -> Result<BackupRestored> {
        let PreparedRestore { ledger: path, from, copy, summary, puts_aside_anything, .. } = self;
        let lock = WriteLock::beside(&path)?;
        let in_use = || Error::InUse { path: path.clone(), seconds: MAX_CLOSE_WAIT.as_secs() };
        let held = lock.acquire(MAX_CLOSE_WAIT);
        if !held.is_held() {
            return Err(in_use());
        }
        let old = match inspect_path(&path, puts_aside_anything)? {
            AtPath::Nothing => None,
            AtPath::Ledger => Some(Old::close_off(&path, in_use)?),
            AtPath::Other => Some(Old { conn: None, known: OldFacts::default() }),
        };
        let name = free_name(&path)?;
        let known = old.as_ref().map(|old| &old.known);
        let aside = old.as_ref().map(|_| name.as_path());
        let forgotten = adopt(copy.path(), &from, aside, known)?;
        copy.sync()?;

        if old.as_ref().is_none_or(|old| old.conn.is_none()) {
            // The old log was not written back, so it must not have the name of the new ledger's
            // log.
            ledger_path::set_log_aside(&path, &name)?;
        }
        if let Some(old) = &old {
            old.keep(&path, &name)?;
        }
        copy.rename(&path, old.is_some())?;
        drop(old);
        drop(held);
        Ok(BackupRestored {
            path: from.display().to_string(),
            ledger_path: path.display().to_string(),
            bytes: summary.bytes,
            records: summary.records,
            sessions: summary.sessions,
            subagents: summary.subagents,
            former_ledger_path: aside.map(|path| path.display().to_string()),
            forgotten_session_ids: forgotten,
        })
    }
}

/// The file at the ledger's path.
enum AtPath {
    Nothing,
    Ledger,
    /// A file that is not a ledger, or no longer one.
    Other,
}

fn inspect_path(path: &Path, puts_aside_anything: bool) -> Result<AtPath> {
    match ledger_path::inspect(path) {
        Ok(FoundAtPath::Nothing) => Ok(AtPath::Nothing),
        Ok(FoundAtPath::Ledger { .. }) => Ok(AtPath::Ledger),
        Err(Error::NotALedger { .. })
            if puts_aside_anything
                && fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file()) =>
        {
            Ok(AtPath::Other)
        }
        Err(error) => Err(error),
    }
}

/// Returns the id of the ledger at a path. The id never changes, so the log need not be read, and
/// no file is created beside it.
fn id_of(path: &Path) -> Option<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    path.exists().then_some(())?;
    let conn = Connection::open_with_flags(read_only::immutable(path), flags).ok()?;
    conn.query_row("SELECT ledger_id FROM ledger", [], |row| row.get(0)).ok()
}

/// Facts of the old ledger that the backup lacks.
#[derive(Debug, Default)]
struct OldFacts {
    backups: Vec<Backup>,
    /// The forgotten sessions: format, agent, session.
    forgotten: Vec<[String; 3]>,
}

/// The ledger that is replaced.
struct Old {
    /// The exclusive lock. `None` if SQLite cannot read the file, so that no other process can
    /// either.
    conn: Option<(Connection, OpenFile)>,
    known: OldFacts,
}

impl Old {
    /// Writes the log back, removes it, and takes the exclusive lock.
    fn close_off(path: &Path, in_use: impl Fn() -> Error) -> Result<Old> {
        let unreadable = || Ok(Old { conn: None, known: OldFacts::default() });
        crate::file::free_space::check(path)?;
        let opened = OpenFile::at(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let conn =
            match Connection::open_with_flags(in_real_folder(path), flags).map_err(Error::from) {
                Ok(conn) => conn,
                Err(error) if is_damage(&error) => return unreadable(),
                Err(error) => return Err(error),
            };
        conn.busy_timeout(Duration::ZERO)?;
        // These facts of a damaged ledger may be unreadable; it is replaced anyway.
        let known = OldFacts {
            backups: list::recorded(&conn).unwrap_or_default(),
            forgotten: forgotten(&conn).unwrap_or_default(),
        };
        let began = Instant::now();
        loop {
            match lock_exclusively(&conn, path) {
                Ok(true) => return Ok(Old { conn: Some((conn, opened)), known }),
                Ok(false) if began.elapsed() >= MAX_CLOSE_WAIT => return Err(in_use()),
                Ok(false) => std::thread::sleep(RETRY_PAUSE),
                Err(error) if is_damage(&error) => return unreadable(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Links the file to a second name. After a crash it has both.
    fn keep(&self, path: &Path, aside: &Path) -> Result<()> {
        match fs::hard_link(path, aside) {
            Ok(()) => return ledger_path::sync_folder(aside),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(Error::io("create", aside)(error));
            }
            Err(_) => {}
        }
        // A file system without links: a copy, made by SQLite if it can read the file.
        match &self.conn {
            Some((conn, _)) => {
                let copy = Temporary::beside(aside)?;
                let job =
                    Copy { from: conn, from_path: path, temporary: copy.path(), target: aside };
                copy::copy(&job, &mut |_, _| {})?;
                copy.sync()?;
                copy.rename(aside, false)
            }
            None => fs::copy(path, aside).map(|_| ()).map_err(Error::io("create", aside)),
        }
    }
}

/// Tries to take the exclusive lock. Returns false if another process has the file open.
fn lock_exclusively(conn: &Connection, path: &Path) -> Result<bool> {
    let is_busy = |error: &Error| error.trouble() == crate::Trouble::Busy;
    let alone = conn
        .pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get::<_, String>(0))
        .map_err(Error::from)
        .and_then(|mode| {
            Ok(mode == "delete" && conn.execute_batch("BEGIN EXCLUSIVE").map(|()| true)?)
        });
    match alone {
        // Another process may have begun a log between the two statements.
        Ok(true) if beside(path, "-wal").exists() => {
            conn.execute_batch("ROLLBACK")?;
            Ok(false)
        }
        Ok(alone) => Ok(alone),
        Err(error) if is_busy(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_damage(error: &Error) -> bool {
    error.trouble() == crate::Trouble::Damaged
}

/// Returns a free name beside the ledger.
fn free_name(path: &Path) -> Result<PathBuf> {
    let time: String = Connection::open_in_memory()?.query_row(
        "SELECT strftime('%Y%m%dT%H%M%SZ', 'now')",
        [],
        |row| row.get(0),
    )?;
    let name = (1..).map(|number: u32| match number {
        1 => beside(path, &format!(".before-{time}")),
        number => beside(path, &format!(".before-{time}-{number}")),
    });
    let mut free = name.filter(|name| fs::symlink_metadata(name).is_err());
    free.next().ok_or_else(|| Error::damaged("no free file name".to_owned()))
}

/// Turns a copy into the ledger: gives it a new epoch, so that old cursors are refused, and the old
/// ledger's list of backups. Returns the sessions that were forgotten since and are restored.
fn adopt(
    copy: &Path,
    from: &Path,
    aside: Option<&Path>,
    known: Option<&OldFacts>,
) -> Result<Vec<String>> {
    let mut conn = copy::open(copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // The copy is removed if the process is killed now, so nothing has to be synced.
    conn.pragma_update(None, "synchronous", "OFF")?;
    conn.pragma_update(None, "journal_mode", "MEMORY")?;
    let still_forgotten = forgotten(&conn)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !schema::is_newest(&tx)? {
        schema::migrate_truth(&tx)?;
    }
    let recorded = list::recorded(&tx)?;
    tx.execute("UPDATE ledger SET epoch = ?1", [uuid::Uuid::new_v4().to_string()])?;
    let knows = |path: &Path| recorded.iter().any(|backup| backup.path == path);
    let now = clock::now_ms();
    if !knows(from) && known.is_none_or(|known| known.backups.iter().all(|b| b.path != from)) {
        list::record(&tx, from, now, false)?;
    }
    let others = known.map_or(&[][..], |known| &known.backups);
    for backup in others.iter().filter(|backup| !knows(&backup.path)) {
        list::record(&tx, &backup.path, backup.at, backup.is_replaced_ledger)?;
    }
    if let Some(aside) = aside {
        list::record(&tx, aside, now, true)?;
    }
    tx.commit()?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.close().map_err(|(_, error)| error)?;
    let forgotten = known.map_or(&[][..], |known| &known.forgotten);
    let back = forgotten.iter().filter(|session| !still_forgotten.contains(session));
    Ok(back.map(|[_, _, session]| session.clone()).collect())
}

fn forgotten(conn: &Connection) -> Result<Vec<[String; 3]>> {
    let mut statement = conn.prepare("SELECT format, agent, session_id FROM forgotten")?;
    let rows = statement.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
