//! Creates a ledger: complete, or not at all.
//!
//! A new ledger is built under another name and then renamed, so a file with the ledger's name is
//! either complete or not ours. No other process opens it before, and the next process removes what
//! a crash leaves of it. It therefore needs no log: the first seconds of a first import are written
//! once, into the file itself. An import that is killed in these seconds starts again.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::base::ids::{GenerationId, SourceId};
use crate::base::sidecar::beside;
use crate::file::ledger_path::{name_for_log, rename_if_free, set_log_aside, sync_folder};
use crate::file::schema;
use crate::{Error, Result};

/// The part of a staging file's name between the ledger's name and the process id.
const STAGING_INFIX: &str = ".new-";

/// The suffixes of the file itself and of all files that SQLite creates beside it.
const SIDECAR_SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// A ledger in a staging file. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct Building {
    file: PathBuf,
    path: PathBuf,
}

impl Building {
    /// Builds an empty ledger for `path`. The caller holds the lock.
    pub(crate) fn begin(path: &Path) -> Result<Building> {
        remove_unfinished(path);
        let file = beside(path, &format!("{STAGING_INFIX}{}", std::process::id()));
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&file)
            .map_err(Error::io("create", &file))?;
        let building = Building { file, path: path.to_owned() };
        fill(&mut building.connect()?)?;
        Ok(building)
    }

    /// Returns the path of the staging file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the path that the ledger will get.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the closed file and renames it to its path. Returns false, and drops it, if another
    /// ledger is at that path by now, or if a process that waited too long for this one removed the
    /// staging file.
    pub(crate) fn publish(self) -> Result<bool> {
        match self.try_publish() {
            Err(_) if fs::symlink_metadata(&self.file).is_err_and(|error| is_absent(&error)) => {
                Ok(false)
            }
            Ok(true) => {
                // An agent may delete a file once it is collected, so the ledger has to survive a
                // crash.
                sync_folder(&self.path)?;
                Ok(true)
            }
            not_published => not_published,
        }
    }

    fn try_publish(&self) -> Result<bool> {
        crate::file::free_space::check(&self.file)?;
        let conn = self.connect()?;
        let mode: String =
            conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        if !mode.eq_ignore_ascii_case("wal") {
            return Err(Error::NotALedger {
                path: self.path.clone(),
                why: "its file system does not support a write-ahead log".to_owned(),
            });
        }
        conn.close().map_err(|(_, error)| error)?;
        File::open(&self.file)
            .and_then(|file| file.sync_all())
            .map_err(Error::io("sync", &self.file))?;
        if fs::symlink_metadata(&self.path).is_ok() {
            return Ok(false);
        }
        set_log_aside(&self.path, &name_for_log(&self.path))?;
        match rename_if_free(&self.file, &self.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::io("rename", &self.file)(error)),
            Ok(()) => Ok(true),
        }
    }

    /// Opens the staging file without syncing: it is synced once, at the end.
    fn connect(&self) -> Result<Connection> {
        let conn = Connection::open_with_flags(
            &self.file,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        turn_off_journal(&conn)?;
        Ok(conn)
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        // After the rename there is no file with these names.
        for suffix in SIDECAR_SUFFIXES {
            let _ = fs::remove_file(beside(&self.file, suffix));
        }
    }
}

/// Creates an empty ledger at `path` unless another one is there. The caller holds the lock.
pub(crate) fn create(path: &Path) -> Result<()> {
    Building::begin(path)?.publish().map(drop)
}

/// Makes a connection write without a log and without syncing.
pub(crate) fn turn_off_journal(conn: &Connection) -> Result<()> {
    conn.pragma_update(None, "journal_mode", "MEMORY")?;
    conn.pragma_update(None, "synchronous", "OFF")?;
    Ok(())
}

/// Removes staging files of processes that were killed while they built a ledger.
pub(crate) fn remove_unfinished(path: &Path) {
    let Some(name) = path.file_name() else { return };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    for entry in fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten() {
        let other = entry.file_name();
        let rest = other.as_encoded_bytes().strip_prefix(name.as_encoded_bytes());
        if rest.is_some_and(is_unfinished) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns whether the rest of a file's name, after the ledger's name, is that of a staging file.
fn is_unfinished(rest: &[u8]) -> bool {
    let Some(rest) = rest.strip_prefix(STAGING_INFIX.as_bytes()) else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0
        && SIDECAR_SUFFIXES.iter().any(|suffix| rest.get(digits..) == Some(suffix.as_bytes()))
}

fn is_absent(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
}

/// Writes the empty ledger.
fn fill(conn: &mut Connection) -> Result<()> {
    conn.pragma_update(None, "page_size", 8192)?;
    conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    conn.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    schema::create_truth(&tx)?;
    schema::create_projection(&tx)?;
    tx.execute(
        "INSERT INTO ledger (id, ledger_id, epoch, created_at, projection_version, projected_to)
         VALUES (1, ?1, ?2, ?3, ?4, 0)",
        (
            uuid::Uuid::new_v4().to_string(),
            uuid::Uuid::new_v4().to_string(),
            crate::base::clock::now_ms(),
            schema::projection_version(),
        ),
    )?;
    tx.execute_batch(include_str!("schema/journal.sql"))?;
    Ok(tx.commit()?)
}

/// The journal: the ledger's own source, which exists from the beginning.
pub(crate) const JOURNAL: SourceId = SourceId(1);

/// The only generation of the journal.
pub(crate) const JOURNAL_GENERATION: GenerationId = GenerationId(1);
