//! Puts a backup in the ledger's place.
//!
//! SQLite finds a write-ahead log by its name alone and would apply the log of the old file to the
//! new one. So the old ledger is first closed off: SQLite itself writes its log back, removes it,
//! and locks everybody out, which it does only if nobody else has the file open. Then there is one
//! file and nothing beside it, and one rename puts another in its place. Who opens it at that very
//! moment looks again ([`crate::file::ledger`]); who still has the old one cannot write to it any more.
//!
//! Killed at any point, the old or the new ledger stands at the path, whole.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::BackupProgress;
use super::check::{self, Summary};
use super::copy;
use super::list::{self, Backup};
use super::temporary::{self, Temporary};
use crate::base::clock;
use crate::base::sidecar::beside;
use crate::file::ledger::Ledger;
use crate::file::ledger_path::{self, Found, in_real_folder};
use crate::file::lock::WriteLock;
use crate::file::open_files::Opened;
use crate::file::{read_only, schema};
use crate::wire::BackupRestored;
use crate::{Error, Result};

/// How long others may keep the ledger open.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait before looking whether they are gone.
const PAUSE: Duration = Duration::from_millis(20);

/// A backup that was checked and lies beside the ledger, ready to take its place. Dropping it
/// changes nothing.
#[derive(Debug)]
pub struct Prepared {
    ledger: PathBuf,
    from: PathBuf,
    copy: Temporary,
    summary: Summary,
    puts_aside_anything: bool,
    is_of_another: bool,
}

/// Copies and checks a backup. `puts_aside_anything`: what stands at the ledger's path may be no
/// ledger (any more).
pub fn prepare_restore(
    ledger: &Path,
    from: &Path,
    puts_aside_anything: bool,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<Prepared> {
    let from = std::path::absolute(from).map_err(Error::io("find", from))?;
    let id = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    if id(&from).is_some_and(|file| id(ledger) == Some(file)) {
        return Err(Error::SameFile { path: from });
    }
    let unsound = |error: Error| match is_damage(&error) {
        true => Error::Unsound { path: from.clone(), what: "SQLite cannot read it".to_owned() },
        false => error,
    };
    let source = Ledger::open_as_it_is(&from).map_err(unsound)?;
    stands_at(ledger, puts_aside_anything)?;
    ledger_path::make_room(ledger)?;
    temporary::remove_left_over(ledger);
    let copy = Temporary::beside(ledger)?;
    copy::copy(source.conn(), copy.path(), &mut |done, total| {
        progress(BackupProgress::Copied { done, total });
    })
    .map_err(unsound)?;
    drop(source);
    let summary = check::check(copy.path(), &from, &mut |done, total| {
        progress(BackupProgress::Checked { done, total });
    })?;
    // One that cannot say who it is has nobody to be mistaken for.
    let is_of_another = id_of(ledger).is_some_and(|id| id != summary.ledger_id);
    let ledger = ledger.to_owned();
    Ok(Prepared { ledger, from, copy, summary, puts_aside_anything, is_of_another })
}

impl Prepared {
    /// Sessions in the backup, sub-agents included.
    pub fn sessions(&self) -> u64 {
        self.summary.sessions
    }

    /// Records in the backup, those of the journal not counted.
    pub fn records(&self) -> u64 {
        self.summary.records
    }

    /// Whether it is no copy of the ledger that it would replace, but of another one.
    pub fn is_of_another_ledger(&self) -> bool {
        self.is_of_another
    }

    /// Puts it in the ledger's place, and keeps what stood there beside it.
    pub fn swap(self) -> Result<BackupRestored> {
        let Prepared { ledger: path, from, copy, summary, puts_aside_anything, .. } = self;
        let lock = WriteLock::beside(&path)?;
        let in_use = || Error::InUse { path: path.clone(), seconds: PATIENCE.as_secs() };
        let held = lock.acquire(PATIENCE);
        if !held.is_held() {
            return Err(in_use());
        }
        let old = match stands_at(&path, puts_aside_anything)? {
            Standing::Nothing => None,
            Standing::Ledger => Some(Old::close_off(&path, in_use)?),
            Standing::Other => Some(Old { conn: None, known: Known::default() }),
        };
        let name = free_name(&path)?;
        let known = old.as_ref().map(|old| &old.known);
        let aside = old.as_ref().map(|_| name.as_path());
        let forgotten = adopt(copy.path(), &from, aside, known)?;
        copy.sync()?;

        if old.as_ref().is_none_or(|old| old.conn.is_none()) {
            // No connection vouches for the log: it must not be found by the new ledger's name.
            ledger_path::set_log_aside(&path, &name)?;
        }
        if let Some(old) = &old {
            old.keep(&path, &name)?;
        }
        copy.rename(&path, old.is_some())?;
        drop(old);
        drop(held);
        Ok(BackupRestored {
            file: from.display().to_string(),
            ledger: path.display().to_string(),
            bytes: summary.bytes,
            records: summary.records,
            sessions: summary.sessions,
            kept: aside.map(|path| path.display().to_string()),
            forgotten,
        })
    }
}

/// What stands at the ledger's path.
enum Standing {
    Nothing,
    Ledger,
    /// A file that is no ledger, or none any more.
    Other,
}

fn stands_at(path: &Path, puts_aside_anything: bool) -> Result<Standing> {
    match ledger_path::inspect(path) {
        Ok(Found::Nothing) => Ok(Standing::Nothing),
        Ok(Found::Ledger { .. }) => Ok(Standing::Ledger),
        Err(Error::NotALedger { .. })
            if puts_aside_anything
                && fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file()) =>
        {
            Ok(Standing::Other)
        }
        Err(error) => Err(error),
    }
}

/// The id of the ledger that stands at a path. It never changes, so whatever is in the log does not
/// matter, and nothing is left beside the file.
fn id_of(path: &Path) -> Option<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    path.exists().then_some(())?;
    let conn = Connection::open_with_flags(read_only::immutable(path), flags).ok()?;
    conn.query_row("SELECT ledger_id FROM ledger", [], |row| row.get(0)).ok()
}

/// What the old ledger knows and the backup does not.
#[derive(Debug, Default)]
struct Known {
    backups: Vec<Backup>,
    /// Format, agent, session.
    forgotten: Vec<[String; 3]>,
}

/// The ledger that is replaced.
struct Old {
    /// Locks everybody out. `None` if SQLite cannot read the file: then nobody else can either.
    conn: Option<(Connection, Opened)>,
    known: Known,
}

impl Old {
    /// Has the log written back and removed, and locks everybody out.
    fn close_off(path: &Path, in_use: impl Fn() -> Error) -> Result<Old> {
        let unreadable = || Ok(Old { conn: None, known: Known::default() });
        crate::file::free_space::check(path)?;
        let opened = Opened::at(path)?;
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
        // A damaged ledger may not say what it knows; it is replaced all the same.
        let known = Known {
            backups: list::of(&conn).unwrap_or_default(),
            forgotten: forgotten(&conn).unwrap_or_default(),
        };
        let began = Instant::now();
        loop {
            match lock_out(&conn, path) {
                Ok(true) => return Ok(Old { conn: Some((conn, opened)), known }),
                Ok(false) if began.elapsed() >= PATIENCE => return Err(in_use()),
                Ok(false) => std::thread::sleep(PAUSE),
                Err(error) if is_damage(&error) => return unreadable(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives the file a second name. A crash from here on leaves it under both.
    fn keep(&self, path: &Path, aside: &Path) -> Result<()> {
        match fs::hard_link(path, aside) {
            Ok(()) => return ledger_path::sync_folder(aside),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(Error::io("create", aside)(error));
            }
            Err(_) => {}
        }
        // A file system without links: a copy, through SQLite where it can read the file.
        match &self.conn {
            Some((conn, _)) => {
                let copy = Temporary::beside(aside)?;
                copy::copy(conn, copy.path(), &mut |_, _| {})?;
                copy.sync()?;
                copy.rename(aside, false)
            }
            None => fs::copy(path, aside).map(|_| ()).map_err(Error::io("create", aside)),
        }
    }
}

/// Tries to be the only one. False if somebody else has the file open.
fn lock_out(conn: &Connection, path: &Path) -> Result<bool> {
    let is_busy = |error: &Error| error.trouble() == crate::Trouble::Busy;
    let alone = conn
        .pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get::<_, String>(0))
        .map_err(Error::from)
        .and_then(|mode| {
            Ok(mode == "delete" && conn.execute_batch("BEGIN EXCLUSIVE").map(|()| true)?)
        });
    match alone {
        // Somebody may have come between the two and begun a log again.
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

/// A name beside the ledger that nothing has.
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
    free.next().ok_or_else(|| Error::damaged("no name is free".to_owned()))
}

/// Makes a copy the ledger: a new epoch, so that old cursors are refused, and what the old ledger
/// knows of other copies. Returns the sessions that were forgotten since and are back.
fn adopt(
    copy: &Path,
    from: &Path,
    aside: Option<&Path>,
    known: Option<&Known>,
) -> Result<Vec<String>> {
    let mut conn = copy::open(copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // If we die now, the copy is removed.
    conn.pragma_update(None, "synchronous", "OFF")?;
    conn.pragma_update(None, "journal_mode", "MEMORY")?;
    let still_forgotten = forgotten(&conn)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !schema::is_newest(&tx)? {
        schema::migrate_truth(&tx)?;
    }
    let remembered = list::of(&tx)?;
    tx.execute("UPDATE ledger SET epoch = ?1", [uuid::Uuid::new_v4().to_string()])?;
    let knows = |path: &Path| remembered.iter().any(|backup| backup.path == path);
    let now = clock::now_ms();
    if !knows(from) && known.is_none_or(|known| known.backups.iter().all(|b| b.path != from)) {
        list::note(&tx, from, now, false)?;
    }
    let others = known.map_or(&[][..], |known| &known.backups);
    for backup in others.iter().filter(|backup| !knows(&backup.path)) {
        list::note(&tx, &backup.path, backup.at, backup.put_aside)?;
    }
    if let Some(aside) = aside {
        list::note(&tx, aside, now, true)?;
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
