//! How a ledger comes to be: whole, or not at all.
//!
//! A new ledger is built under another name and then given its own, so a file of that name is either
//! complete or not ours. Until then nobody else sees it, and what a crash leaves of it is thrown
//! away. It needs no log, then: what the first seconds of a first import bring is written once, into
//! the file itself, and not twice. An import that is killed in these seconds begins anew.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::base::ids::{GenerationId, SourceId};
use crate::base::sidecar::beside;
use crate::file::ledger_path::{aside_now, rename_to_nothing, set_log_aside, sync_folder};
use crate::file::schema;
use crate::{Error, Result};

/// What the name of a ledger that is built goes on with; then comes the number of a process.
const NEW: &str = ".new-";

/// What SQLite puts beside a file, and the file itself.
const BESIDE: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// A ledger without a name. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Building {
    file: PathBuf,
    path: PathBuf,
}

impl Building {
    /// Builds an empty ledger that will stand at `path`. The lock is held.
    pub(crate) fn begin(path: &Path) -> Result<Building> {
        remove_unfinished(path);
        let file = beside(path, &format!("{NEW}{}", std::process::id()));
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

    /// The file, under the name that it has for now.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Where it will stand.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name: nobody has it open any more, and all of it is on disk. False if another
    /// ledger has that name by now, or whoever waited for us for too long has taken this one away to
    /// build one; then this one is no more.
    pub(crate) fn place(self) -> Result<bool> {
        match self.try_place() {
            Err(_) if fs::symlink_metadata(&self.file).is_err_and(|error| is_absent(&error)) => {
                Ok(false)
            }
            Ok(true) => {
                // What was collected is not collected again: its name has to last, too.
                sync_folder(&self.path)?;
                Ok(true)
            }
            not_placed => not_placed,
        }
    }

    fn try_place(&self) -> Result<bool> {
        crate::file::free_space::check(&self.file)?;
        let conn = self.connect()?;
        let mode: String =
            conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        if !mode.eq_ignore_ascii_case("wal") {
            return Err(Error::NotALedger {
                path: self.path.clone(),
                why: "its file system cannot hold a write-ahead log".to_owned(),
            });
        }
        conn.close().map_err(|(_, error)| error)?;
        File::open(&self.file)
            .and_then(|file| file.sync_all())
            .map_err(Error::io("sync", &self.file))?;
        if fs::symlink_metadata(&self.path).is_ok() {
            return Ok(false);
        }
        set_log_aside(&self.path, &aside_now(&self.path))?;
        match rename_to_nothing(&self.file, &self.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::io("rename", &self.file)(error)),
            Ok(()) => Ok(true),
        }
    }

    /// Nobody sees the file before it is whole: it is synced once, at the end.
    fn connect(&self) -> Result<Connection> {
        let conn = Connection::open_with_flags(
            &self.file,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        unlogged(&conn)?;
        Ok(conn)
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        // What has its name by now is not there under this one.
        for suffix in BESIDE {
            let _ = fs::remove_file(beside(&self.file, suffix));
        }
    }
}

/// Builds an empty ledger, and has it stand at `path` unless another one does. The lock is held.
pub(crate) fn create(path: &Path) -> Result<()> {
    Building::begin(path)?.place().map(drop)
}

/// Has a connection write past any log, and nothing to disk before it is asked to.
pub(crate) fn unlogged(conn: &Connection) -> Result<()> {
    conn.pragma_update(None, "journal_mode", "MEMORY")?;
    conn.pragma_update(None, "synchronous", "OFF")?;
    Ok(())
}

/// Removes what processes left behind that were killed while they built a ledger.
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

/// Whether only something that was being built is called so, after the ledger's name.
fn is_unfinished(rest: &[u8]) -> bool {
    let Some(rest) = rest.strip_prefix(NEW.as_bytes()) else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && BESIDE.iter().any(|suffix| rest.get(digits..) == Some(suffix.as_bytes()))
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
    create_journal(&tx)?;
    Ok(tx.commit()?)
}

/// The journal: the ledger's own source, which is there from the beginning.
pub(crate) const JOURNAL: SourceId = SourceId(1);

/// The only generation of the journal.
pub(crate) const JOURNAL_GENERATION: GenerationId = GenerationId(1);

/// The name of the journal's format.
pub(crate) const JOURNAL_FORMAT: &str = "journal";

/// Creates the journal in a new ledger.
fn create_journal(tx: &Transaction<'_>) -> Result<()> {
    tx.execute(
        "INSERT INTO sources (id, kind, format, root, path, first_path, generation)
         VALUES (?1, 'journal', ?2, x'', x'', x'', ?3)",
        (JOURNAL, JOURNAL_FORMAT, JOURNAL_GENERATION),
    )?;
    tx.execute(
        "INSERT INTO generations
            (id, source, number, began, device, inode, size, mtime_ns, ctime_ns, cursor,
             tail_length, tail_stands, head, head_length, marker, records)
         VALUES (?1, ?2, 1, 'first', 0, 0, 0, 0, 0, 0, 0, 0, x'', 0, x'', 0)",
        (JOURNAL_GENERATION, JOURNAL),
    )?;
    Ok(())
}
