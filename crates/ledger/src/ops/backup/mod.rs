//! Copies of the whole ledger: made while others write, checked before they get their name, and
//! remembered, so that whoever forgets something can name the copies that still hold it.
//!
//! The copy is made page by page with SQLite's backup interface inside one read transaction: it is
//! the ledger of one moment, however many write meanwhile, and nothing starts over because of them.
//! `VACUUM INTO` would give the same moment and a slightly smaller file, but it cannot say how far
//! it is, takes longer, and takes no path that is not UTF-8. A copy has no write-ahead log: it is
//! one file, which can be read from anywhere.

mod check;
mod copy;
mod list;
mod swap;
mod temporary;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Instant;

pub use list::{Backup, backups};
pub use swap::{Prepared, prepare_restore};

use crate::base::sidecar::beside;
use crate::file::ledger::Ledger;
use crate::project::rebuild;
use crate::wire::BackupReport;
use crate::{Error, Result};
use temporary::Temporary;

/// What is told while a copy is made.
#[derive(Debug, Clone, Copy)]
pub enum BackupProgress {
    /// So many of so many bytes are copied.
    Copied {
        /// Done.
        done: u64,
        /// Of these.
        total: u64,
    },
    /// So many of so many bytes of the copy are checked.
    Checked {
        /// Done.
        done: u64,
        /// Of these.
        total: u64,
    },
}

/// Where a backup goes.
#[derive(Debug, Clone, Copy)]
pub struct BackupTarget<'a> {
    /// The file.
    pub path: &'a Path,
    /// Replace a file that is there already, once the new one is complete and checked.
    pub replace: bool,
}

/// What lies beside a ledger and belongs to it.
const SIDECARS: [&str; 6] = ["", "-wal", "-shm", "-journal", ".lock", ".wait"];

/// Copies the ledger to a file, checks the copy, and gives it its name.
///
/// Until then it is a hidden file beside the target. A ledger that is opened for reading only
/// cannot remember the copy.
pub fn backup(
    ledger: &mut Ledger,
    target: BackupTarget<'_>,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<BackupReport> {
    let began = Instant::now();
    let path = std::path::absolute(target.path).map_err(Error::io("find", target.path))?;
    refuse(ledger.path(), &path, target.replace)?;
    temporary::remove_left_over(&path);
    // A copy cannot be brought up later. Whatever else is missing, it is a copy all the same.
    if ledger.is_writable() {
        rebuild::keep_up(ledger)?;
    }
    let copy = Temporary::beside(&path)?;
    copy::copy(ledger.conn(), copy.path(), &mut |done, total| {
        progress(BackupProgress::Copied { done, total });
    })?;
    let summary = check::check(copy.path(), &path, &mut |done, total| {
        progress(BackupProgress::Checked { done, total });
    })?;
    copy.sync()?;
    // First the note, then the name: a copy that the ledger does not know of must not exist.
    let remembered = ledger.is_writable();
    if remembered {
        list::remember(ledger, &path)?;
    }
    copy.rename(&path, target.replace)?;
    Ok(BackupReport {
        file: path.display().to_string(),
        bytes: summary.bytes,
        records: summary.records,
        sessions: summary.sessions,
        seconds: began.elapsed().as_secs_f64(),
        remembered,
    })
}

/// Refuses targets that are no place for a backup.
fn refuse(ledger: &Path, target: &Path, replace: bool) -> Result<()> {
    let refused = |why| Err(Error::Target { path: target.to_owned(), why });
    let Some(name) = target.file_name().filter(|_| !ends_like_a_folder(target)) else {
        return refused("it is a folder; name a file in it");
    };
    // The ledger's own files, also under another name of their folder.
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
