//! Opens another program's database so that nothing is written or left beside it. SQLite takes read
//! locks only on a large database, or one with a rollback journal, that its program may be writing
//! to.
//!
//! ```text
//! up to 64 MiB        a private copy of the database and its log: none of its files is opened for
//!                     writing or locked, so its program can exit and delete its log at any moment
//! larger, no log      immutable: SQLite takes no lock and creates no file; what was read is
//!                     discarded if the file changes during the read
//! larger, with a log  read-only, also its shared-memory index; a private copy if that index is
//!                     missing, up to 1 GiB
//! journal, no log     read-only, of any size
//! ```
//!
//! The files beside the database are inspected first, because SQLite would wait for ever on a pipe.
//! An authorizer refuses everything but the tables and columns that [`super::tables`] lists.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use super::private::PrivateCopy;
use super::refusal::{Refusal, Stop};
use super::tables;
use crate::base::foreign::{self, FileId, FileKind, Folder, Meta};
use crate::base::paths::sqlite_uri;
use crate::collect::is_over;
use crate::collect::known::fingerprint;
use crate::file::ledger_path::in_real_folder;
use crate::truth::sources::{Print, Stat};

/// The longest wait for a writer that holds a lock.
const MAX_LOCK_WAIT: Duration = Duration::from_millis(250);

/// The longest value, in bytes, that is read.
const MAX_VALUE_BYTES: i32 = 256 << 20;

/// The largest size, in bytes with its log, of a database that is always read from a copy. Each
/// sync that finds a change copies it; 64 MiB take some 30 ms.
const MAX_COPY_BYTES: u64 = 64 << 20;

/// The largest size, in bytes with its log, of a database that is read although its shared-memory
/// index is missing. It has to be copied, because SQLite would create the index. A larger one is
/// read after its program, which is not running now, has started and created the index.
const MAX_BYTES_WITHOUT_INDEX: u64 = 1 << 30;

/// The number of attempts to copy a database that its program changes during the copy.
const MAX_ATTEMPTS: usize = 3;

/// The length in bytes of a write-ahead log's header, which changes when the log restarts.
const LOG_HEADER_BYTES: u64 = 32;

/// The location of a database: the opened folder, which is below its root, and the name in it.
#[derive(Debug)]
pub(super) struct DatabaseLocation {
    folder: Folder,
    name: OsString,
    /// The path for SQLite, which opens files by path.
    path: PathBuf,
}

impl DatabaseLocation {
    /// Finds the database at `path` under `root`. Links are followed only as for other sources.
    pub(super) fn find(root: &Path, path: &Path) -> io::Result<DatabaseLocation> {
        let path = fs::canonicalize(path)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::other("it is a link out of its root"));
        };
        let (folder, name) = (foreign::open_folder(root, parent)?, name.to_owned());
        Ok(DatabaseLocation { folder, name, path })
    }

    /// Returns the name of the database's file with this suffix, for example `-wal`.
    fn beside(&self, suffix: &str) -> OsString {
        let mut name = self.name.clone();
        name.push(suffix);
        name
    }

    fn look(&self, suffix: &str) -> Option<Meta> {
        self.folder.look(&self.beside(suffix)).ok()
    }

    fn open(&self, suffix: &str) -> io::Result<fs::File> {
        self.folder.file(Path::new(&self.beside(suffix)))
    }

    /// Returns the header of the log; empty if there is no log.
    fn log_header(&self) -> io::Result<Vec<u8>> {
        let mut header = Vec::new();
        match self.open("-wal") {
            Ok(log) => log.take(LOG_HEADER_BYTES).read_to_end(&mut header).map(|_| header),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(header),
            Err(error) => Err(error),
        }
    }
}

/// The metadata of a database and of the files that SQLite keeps beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) database: Stat,
    log: Option<Stat>,
    /// The size of the rollback journal in bytes. If it is not 0, a transaction is running or was
    /// never finished.
    journal: u64,
    has_index: bool,
    /// The suffix of the first file that is a pipe, a socket, a device, a folder or a link.
    odd: Option<&'static str>,
}

impl Files {
    /// Inspects a database and the files beside it. Returns `None` if there is no database.
    pub(super) fn look(place: &DatabaseLocation) -> Option<Files> {
        let database = place.look("").filter(|meta| meta.kind == FileKind::File)?;
        let mut odd = None;
        let mut stat = |suffix: &'static str| {
            let meta = place.look(suffix)?;
            if meta.kind != FileKind::File {
                odd = odd.or(Some(suffix));
                return None;
            }
            Some(Stat::of(&meta))
        };
        let (log, journal, index) = (stat("-wal"), stat("-journal"), stat("-shm"));
        Some(Files {
            database: Stat::of(&database),
            log,
            journal: journal.map_or(0, |stat| stat.size),
            has_index: index.is_some(),
            odd,
        })
    }

    /// Returns a fingerprint of the log's metadata, which shows whether the log changed.
    pub(super) fn log_print(&self) -> Print {
        let Some(log) = self.log.filter(|log| log.size > 0) else { return fingerprint(b"") };
        let mut bytes = Vec::new();
        for number in [log.device, log.inode, log.size, log.mtime_ns.cast_unsigned()] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        fingerprint(&bytes)
    }

    /// Returns the time at which the database was last written to, in nanoseconds.
    pub(super) fn written_ns(&self) -> i64 {
        self.log.map_or(self.database.mtime_ns, |log| log.mtime_ns.max(self.database.mtime_ns))
    }

    /// Returns the metadata that changes with the content: all but that of the shared-memory index.
    fn content(&self) -> (Stat, Option<Stat>, u64) {
        (self.database, self.log.filter(|log| log.size > 0), self.journal)
    }

    fn has_log(&self) -> bool {
        self.log.is_some_and(|log| log.size > 0)
    }

    /// Returns why the database cannot be opened: a file beside it would make SQLite wait, or too
    /// much would have to be copied. Opens no file.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        // A copy needs no shared-memory index.
        if let Some(suffix) = self.odd.filter(|suffix| *suffix != "-shm" || !self.is_small()) {
            let why = format!("the {suffix} file beside it is not a regular file; move it away");
            return Some(Refusal::passing(why));
        }
        let size = self.size();
        let is_too_large = self.needs_copy() && size > MAX_BYTES_WITHOUT_INDEX;
        is_too_large.then(|| {
            Refusal::passing(format!(
                "the -shm file beside it is missing, and {} MiB with its log are too much to copy; \
                 start its program once",
                size >> 20
            ))
        })
    }

    /// Returns the size of the database and its log, in bytes.
    fn size(&self) -> u64 {
        self.database.size.saturating_add(self.log.map_or(0, |log| log.size))
    }

    /// Returns whether the database is read from a copy: it is small, or SQLite would create the
    /// missing index beside it.
    fn needs_copy(&self) -> bool {
        self.is_small() || (self.has_log() && !self.has_index)
    }

    /// Returns whether the database is small enough to be copied whenever it changed. A database
    /// with a rollback journal is not copied, because the journal would be needed too.
    fn is_small(&self) -> bool {
        self.journal == 0 && self.size() <= MAX_COPY_BYTES
    }
}

/// The way a database is read.
#[derive(Debug)]
enum Access {
    Immutable(DatabaseLocation),
    Live,
    Copy(#[expect(dead_code, reason = "removes the copy in the end")] PrivateCopy),
}

/// A database of another program, open for reading its sessions.
#[derive(Debug)]
pub(super) struct Database {
    /// Declared first, so that it is closed before a copy is removed.
    pub(super) conn: Connection,
    pub(super) files: Files,
    access: Access,
}

impl Database {
    /// Opens a database. If it has to be copied, the copy is made beside `ledger`. A file with
    /// several hard links is opened only if it is `vetted`, the file that discovery found.
    pub(super) fn open(
        place: DatabaseLocation,
        vetted: FileId,
        ledger: &Path,
        deadline: Option<Instant>,
    ) -> Result<Database, Stop> {
        let unreadable = |error: io::Error| Refusal::passing(error.to_string());
        let mut file = place.open("").map_err(unreadable)?;
        let meta = Meta::of_file(&file).map_err(unreadable)?;
        if meta.links > 1 && meta.file() != vetted {
            return Err(Refusal::passing("replaced by a hard link since it was found").into());
        }
        let files = Files::look(&place).ok_or_else(|| Refusal::passing("it is gone"))?;
        let mut header = Vec::new();
        file.by_ref().take(100).read_to_end(&mut header).map_err(unreadable)?;
        if header.is_empty() {
            return Err(Refusal::lasting("an empty file").into());
        }
        if header.len() < 100 || !header.starts_with(b"SQLite format 3\0") {
            return Err(Refusal::lasting("not an SQLite database, or an encrypted one").into());
        }
        // The database is in WAL mode, has a rollback journal and no log. Opening it would create
        // the log.
        if files.journal > 0 && header.get(18) == Some(&2) && files.log.is_none() {
            return Err(Refusal::passing("its program has not finished writing").into());
        }
        if let Some(refusal) = files.refusal() {
            return Err(refusal.into());
        }
        let (uri, access) = if files.needs_copy() {
            let (path, copy) = private_copy(&place, ledger, deadline)?;
            let parameters = if copy.has_log { "mode=ro" } else { "mode=ro&immutable=1" };
            (sqlite_uri(&in_real_folder(&path), parameters), Access::Copy(copy.folder))
        } else if files.has_log() || (files.log.is_some() && files.has_index) {
            // Its program has it open: an empty log was just checkpointed.
            (sqlite_uri(&place.path, "mode=ro&readonly_shm=1"), Access::Live)
        } else if files.journal > 0 {
            (sqlite_uri(&place.path, "mode=ro"), Access::Live)
        } else {
            (sqlite_uri(&place.path, "mode=ro&immutable=1"), Access::Immutable(place))
        };
        let conn = connect(&uri, files.database.size).map_err(|error| Refusal::of(&error))?;
        if !matches!(access, Access::Copy(_)) && !foreign::is_open_twice(meta.file()) {
            return Err(Refusal::passing("replaced while it was opened").into());
        }
        drop(file);
        Ok(Database { conn, files, access })
    }

    /// Returns whether what was read is consistent. A database that is read without locks must not
    /// have changed since it was opened.
    pub(super) fn is_as_it_was(&self) -> bool {
        match &self.access {
            Access::Live | Access::Copy(_) => true,
            Access::Immutable(place) => {
                Files::look(place).is_some_and(|files| files.content() == self.files.content())
            }
        }
    }
}

/// The result of copying a database.
struct Copied {
    folder: PrivateCopy,
    has_log: bool,
}

/// Copies a database and its log so that the two copies belong together.
///
/// The database is copied first, then the log. Pages that a checkpoint writes into the database
/// between the two are in the log too, so SQLite reads them from the copy of the log. That fails if
/// the log restarted, which its header shows: then both are copied again. Without a log, the
/// database must not have changed at all.
fn private_copy(
    place: &DatabaseLocation,
    ledger: &Path,
    deadline: Option<Instant>,
) -> Result<(PathBuf, Copied), Stop> {
    let failed = |error: io::Error| Refusal::passing(format!("cannot be copied: {error}"));
    for _ in 0..MAX_ATTEMPTS {
        let before = Files::look(place).ok_or_else(|| Refusal::passing("it is gone"))?;
        let header = place.log_header().map_err(failed)?;
        let folder = PrivateCopy::new(ledger).map_err(failed)?;
        let is_over = || is_over(deadline);
        let database = place.open("").map_err(failed)?;
        let mut room = MAX_BYTES_WITHOUT_INDEX;
        let path = folder.add(database, "database", &mut room, &is_over).map_err(failed)?;
        if !header.is_empty()
            && let Ok(log) = place.open("-wal")
        {
            folder.add(log, "database-wal", &mut room, &is_over).map_err(failed)?;
        }
        if is_over() {
            return Err(Stop::OutOfTime);
        }
        let now = Files::look(place).ok_or_else(|| Refusal::passing("it is gone"))?;
        let is_whole = match header.is_empty() {
            true => now.content() == before.content(),
            false => now.database.file() == before.database.file(),
        };
        if is_whole && place.log_header().is_ok_and(|now| now == header) {
            return Ok((path, Copied { folder, has_log: !header.is_empty() }));
        }
    }
    Err(Refusal::passing("changed while it was copied").into())
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
    conn.busy_timeout(MAX_LOCK_WAIT)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
    conn.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "cell_size_check", true)?;
    // In a damaged file, pages may form a cycle, which SQLite would follow for ever. An intact file
    // of this size never needs this many thousand steps.
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
