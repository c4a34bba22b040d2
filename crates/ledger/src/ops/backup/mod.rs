//! Copies of the whole ledger: made while other processes write, checked before they get their
//! name, and recorded, so that `forget` can name the copies that still hold a session.
//!
//! SQLite's backup interface copies page by page inside one read transaction: the copy is the
//! ledger of one moment, and writers never make it start again. `VACUUM INTO` would give the same
//! moment and a slightly smaller file, but it reports no progress, takes longer, and accepts only
//! UTF-8 paths. A copy has no write-ahead log: it is one file that can be read anywhere.

mod check;
mod copy;
mod list;
mod swap;
mod temporary;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

pub use list::{Backup, backups};
pub use swap::{PreparedRestore, prepare_restore};

use crate::base::sidecar::beside;
use crate::file::ledger::Ledger;
use crate::project::rebuild;
use crate::wire::BackupReport;
use crate::{Error, Result, Trouble};
use copy::Copy;
use temporary::Temporary;

/// A progress report of a backup.
#[derive(Debug, Clone, Copy)]
pub enum BackupProgress {
    /// Bytes are being copied.
    Copied {
        /// The number of bytes copied.
        done: u64,
        /// The number of all bytes.
        total: u64,
    },
    /// The copy is being checked.
    Checked {
        /// The number of bytes checked.
        done: u64,
        /// The number of all bytes.
        total: u64,
    },
}

/// The target of a backup.
#[derive(Debug, Clone, Copy)]
pub struct BackupTarget<'a> {
    /// The file.
    pub path: &'a Path,
    /// True to replace an existing file, once the new one is complete and checked.
    pub replace: bool,
}

/// The longest wait for a writer that did not finish within the usual wait.
const SECOND_WAIT: Duration = Duration::from_secs(1);

/// The suffixes of a ledger's own files.
const SIDECARS: [&str; 6] = ["", "-wal", "-shm", "-journal", ".lock", ".wait"];

/// Copies the ledger to a file, checks the copy, and then renames it to its final name.
///
/// ```
/// use quipu_ledger::Ledger;
/// use quipu_ledger::backup::{BackupTarget, backup};
///
/// # let folder = tempfile::tempdir()?;
/// let mut ledger = Ledger::open(&folder.path().join("ledger.db"))?;
/// let copy = folder.path().join("copy.db");
/// backup(&mut ledger, BackupTarget { path: &copy, replace: false }, &mut |_| {})?;
/// assert!(Ledger::open_read_only(&copy)?.is_empty()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Until then it is a hidden file beside the target. A read-only ledger, one on a full disk, and
/// one that another process keeps locked cannot record the copy.
pub fn backup(
    ledger: &mut Ledger,
    target: BackupTarget<'_>,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<BackupReport> {
    let began = Instant::now();
    let path = std::path::absolute(target.path).map_err(Error::io("find", target.path))?;
    refuse(ledger.path(), &path, target.replace)?;
    temporary::remove_left_over(&path);
    // A copy cannot be projected later, so the projection catches up first, if possible.
    if ledger.is_writable() && if_possible(rebuild::catch_up_appended(ledger))?.is_none() {
        // Another writer did not finish in time, so recording the copy waits less for it.
        ledger.set_longest_wait(SECOND_WAIT)?;
    }
    let copy = Temporary::beside(&path)?;
    let job = Copy {
        from: ledger.conn(),
        from_path: ledger.path(),
        temporary: copy.path(),
        target: &path,
    };
    copy::copy(&job, &mut |done, total| progress(BackupProgress::Copied { done, total }))?;
    let summary = check::check(copy.path(), &path, &mut |done, total| {
        progress(BackupProgress::Checked { done, total });
    })?;
    copy.sync()?;
    // Recorded before it is renamed: there must be no copy that the ledger does not know of.
    let is_recorded =
        ledger.is_writable() && if_possible(list::record_copy(ledger, &path))?.is_some();
    copy.rename(&path, target.replace)?;
    Ok(BackupReport {
        path: path.display().to_string(),
        bytes: summary.bytes,
        records: summary.records,
        sessions: summary.sessions,
        subagents: summary.subagents,
        duration_ms: began.elapsed().as_millis().try_into().unwrap_or(u64::MAX),
        is_recorded,
    })
}

/// Returns `None` if a full disk or another writer prevented the write.
fn if_possible<T>(written: Result<T>) -> Result<Option<T>> {
    match written {
        Err(error) if matches!(error.trouble(), Trouble::DiskFull | Trouble::Busy) => Ok(None),
        written => written.map(Some),
    }
}

/// Refuses targets that cannot hold a backup.
fn refuse(ledger: &Path, target: &Path, replace: bool) -> Result<()> {
    let refused = |why| Err(Error::Target { path: target.to_owned(), why });
    let Some(name) = target.file_name().filter(|_| !ends_like_a_folder(target)) else {
        return refused("it is a folder; name a file in it");
    };
    // The ledger's own files are refused, even under another path of their folder.
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.and_then(|folder| fs::canonicalize(folder).ok());
    let own = ledger.parent().and_then(|folder| fs::canonicalize(folder).ok());
    if let (Some(folder), Some(own), Some(base)) = (&folder, own, ledger.file_name())
        && *folder == own
    {
        let (name, base) = (name.as_encoded_bytes(), base.as_encoded_bytes());
        if let Some(rest) = name.strip_prefix(base)
            && (SIDECARS.iter().any(|sidecar| sidecar.as_bytes() == rest)
                || rest.starts_with(b".new-"))
        {
            return refused("it is the ledger itself, or belongs to it");
        }
    }
    let meta = match fs::symlink_metadata(target) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("look at", target)(error)),
    };
    let is_ledgers = SIDECARS.iter().any(|sidecar| {
        fs::metadata(beside(ledger, sidecar))
            .is_ok_and(|own| (own.dev(), own.ino()) == (meta.dev(), meta.ino()))
    });
    let kind = meta.file_type();
    if is_ledgers {
        refused("it is the ledger itself, or belongs to it")
    } else if kind.is_dir() {
        refused("it is a folder; name a file in it")
    } else if kind.is_symlink() {
        refused("it is a symbolic link; name the file itself")
    } else if kind.is_fifo() || !kind.is_file() {
        refused("it is not a regular file")
    } else if !replace {
        Err(Error::TargetExists { path: target.to_owned() })
    } else {
        Ok(())
    }
}

fn ends_like_a_folder(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.") || bytes.ends_with(b"/..")
}
