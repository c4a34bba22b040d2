//! Opens another program's database so that nothing is written, locked for long, or left beside it.
//!
//! ```text
//! no write-ahead log          immutable: no locks, no files; discarded if the file changes meanwhile
//! log and its index           read-only beside the writer, the index too
//! log without its index       a private copy, since reading it there would create the index
//! ```
//!
//! An authorizer refuses everything but the tables and columns that [`super::tables`] names.

use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use super::private::PrivateCopy;
use super::refusal::Refusal;
use super::tables;
use crate::beside::beside;
use crate::collect::discover::Stat;
use crate::collect::known::{Print, print};
use crate::collect::read;
use crate::place::in_real_folder;

/// How long a writer that holds a lock is waited for.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// A longer value is not read.
const LONGEST_VALUE: i32 = 256 << 20;

/// What SQLite's files looked like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) database: Stat,
    log: Option<Stat>,
    /// Bytes of a rollback journal: a transaction is under way, or was never finished.
    journal: u64,
    has_index: bool,
}

impl Files {
    /// Looks at a database and what lies beside it. `None` if there is none.
    pub(super) fn look(path: &Path) -> Option<Files> {
        let stat = |suffix: &str| {
            fs::metadata(beside(path, suffix))
                .ok()
                .filter(fs::Metadata::is_file)
                .as_ref()
                .map(Stat::of)
        };
        Some(Files {
            database: stat("")?,
            log: stat("-wal"),
            journal: stat("-journal").map_or(0, |stat| stat.size),
            has_index: stat("-shm").is_some(),
        })
    }

    /// A fingerprint of the log, to see whether it changed.
    pub(super) fn log_print(&self) -> Print {
        let Some(log) = self.log.filter(|log| log.size > 0) else { return print(b"") };
        let mut bytes = Vec::new();
        for number in [log.device, log.inode, log.size, log.mtime_ns.cast_unsigned()] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        print(&bytes)
    }

    /// When the database was last written to.
    pub(super) fn written_ns(&self) -> i64 {
        self.log.map_or(self.database.mtime_ns, |log| log.mtime_ns.max(self.database.mtime_ns))
    }

    /// What is compared: the index says nothing about the content.
    fn content(&self) -> (Stat, Option<Stat>, u64) {
        (self.database, self.log.filter(|log| log.size > 0), self.journal)
    }
}

/// How a database is read.
#[derive(Debug)]
enum Access {
    Immutable,
    Live,
    Copy(#[expect(dead_code, reason = "removes the copy in the end")] PrivateCopy),
}

/// A database of another program, open for reading its sessions.
#[derive(Debug)]
pub(super) struct Database {
    /// Closed before a copy is removed.
    pub(super) conn: Connection,
    pub(super) files: Files,
    path: PathBuf,
    access: Access,
}

impl Database {
    /// Opens the database at `path` under `root`. `ledger`: where a private copy may lie.
    pub(super) fn open(root: &Path, path: &Path, ledger: &Path) -> Result<Database, Refusal> {
        let unreadable = |error: std::io::Error| Refusal::passing(error.to_string());
        // Within its root, no link, no secret: as for every other source.
        let mut file = read::open(root, path).map_err(unreadable)?;
        let path = fs::canonicalize(path).map_err(unreadable)?;
        let files = Files::look(&path).ok_or_else(|| Refusal::passing("it is gone"))?;
        let mut header = Vec::new();
        file.by_ref().take(100).read_to_end(&mut header).map_err(unreadable)?;
        if header.is_empty() {
            return Err(Refusal::lasting("an empty file"));
        }
        if header.len() < 100 || !header.starts_with(b"SQLite format 3\0") {
            return Err(Refusal::lasting("not an SQLite database, or an encrypted one"));
        }
        // A journal beside a database that has a log instead: opening it would create the log.
        if files.journal > 0 && header.get(18) == Some(&2) && files.log.is_none() {
            return Err(Refusal::passing("its program has not finished writing"));
        }
        let has_log = files.log.is_some_and(|log| log.size > 0);
        let (uri, access) = if has_log && !files.has_index {
            let copy = private_copy(root, &path, &files, ledger)?;
            (uri(&in_real_folder(&copy.0), "mode=ro"), Access::Copy(copy.1))
        } else if has_log || (files.log.is_some() && files.has_index) {
            // Its program has it open: an empty log is one that was just written back.
            (uri(&path, "mode=ro&readonly_shm=1"), Access::Live)
        } else if files.journal > 0 {
            (uri(&path, "mode=ro"), Access::Live)
        } else {
            (uri(&path, "mode=ro&immutable=1"), Access::Immutable)
        };
        drop(file);
        let conn = connect(&uri, files.database.size).map_err(|error| Refusal::of(&error))?;
        Ok(Database { conn, files, path, access })
    }

    /// True if what was read so far is what the database held: nobody keeps writers away from a
    /// file that is read without locks.
    pub(super) fn is_as_it_was(&self) -> bool {
        match self.access {
            Access::Live | Access::Copy(_) => true,
            Access::Immutable => {
                Files::look(&self.path).is_some_and(|files| files.content() == self.files.content())
            }
        }
    }
}

/// Copies database and log, and checks that nobody wrote to them meanwhile.
fn private_copy(
    root: &Path,
    path: &Path,
    files: &Files,
    ledger: &Path,
) -> Result<(PathBuf, PrivateCopy), Refusal> {
    let failed = |error: std::io::Error| Refusal::passing(format!("cannot be copied: {error}"));
    let copy = PrivateCopy::new(ledger).map_err(failed)?;
    let database = read::open(root, path).map_err(failed)?;
    let log = read::open(root, &beside(path, "-wal")).map_err(failed)?;
    let to = copy.add(database, "database").map_err(failed)?;
    copy.add(log, "database-wal").map_err(failed)?;
    let is_same = Files::look(path).is_some_and(|now| now.content() == files.content());
    if is_same { Ok((to, copy)) } else { Err(Refusal::passing("changed while it was copied")) }
}

fn connect(uri: &str, size: u64) -> rusqlite::Result<Connection> {
    let mut conn = Connection::open_with_flags(
        uri,
        OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW
            | OpenFlags::SQLITE_OPEN_PRIVATE_CACHE,
    )?;
    conn.busy_timeout(LONGEST_WAIT)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)?;
    conn.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "cell_size_check", true)?;
    // Pages that lead in circles must not keep us for ever: no honest file of that size needs so
    // many steps.
    let mut steps_left = 200_000 + size / 100;
    conn.progress_handler(
        1000,
        Some(move || {
            steps_left = steps_left.saturating_sub(1);
            steps_left == 0
        }),
    )?;
    conn.authorizer(Some(tables::authorize))?;
    Ok(conn)
}

/// A path as SQLite's URIs have it.
fn uri(path: &Path, parameters: &str) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("{uri}?{parameters}")
}
