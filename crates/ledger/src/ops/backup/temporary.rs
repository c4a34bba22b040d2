//! A temporary file: hidden, beside its target, readable by its owner only.
//!
//! The process that writes it holds a lock on it, which the kernel drops when the process ends. A
//! file without a lock was therefore left behind by a killed process. This is true even in a folder
//! that several machines share.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::base::sidecar::beside;
use crate::file::ledger_path;
use crate::{Error, Result};

/// The beginning of the names; 32 hex digits follow.
const PREFIX: &str = ".quipu-backup-";

/// The suffixes of files that SQLite may create beside it for a moment.
const COMPANIONS: [&str; 3] = ["-journal", "-wal", "-shm"];

/// The number of attempts to create a file.
const MAX_ATTEMPTS: usize = 8;

/// A file that is removed unless it gets its final name.
#[derive(Debug)]
pub(super) struct Temporary {
    path: PathBuf,
    file: File,
    has_name: bool,
}

impl Temporary {
    /// Creates a temporary file in the folder of `target`.
    pub(super) fn beside(target: &Path) -> Result<Temporary> {
        for _ in 0..MAX_ATTEMPTS {
            let name = format!("{PREFIX}{}", uuid::Uuid::new_v4().simple());
            let path = target.with_file_name(name);
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
                .map_err(Error::io("create a file beside", target))?;
            // On a file system without locks it fails, and no process removes left-over files
            // there.
            let _ = file.lock();
            // Another process may have removed the file between the two calls above.
            if is_at(&file, &path) {
                return Ok(Temporary { path, file, has_name: false });
            }
        }
        Err(Error::Target {
            path: target.to_owned(),
            why: "another process keeps removing new files beside it",
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the file to disk.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(Error::io("write", &self.path))
    }

    /// Renames the file to its final name.
    pub(super) fn rename(mut self, target: &Path, replace: bool) -> Result<()> {
        let renamed = if replace {
            fs::rename(&self.path, target)
        } else {
            ledger_path::rename_if_free(&self.path, target)
        };
        renamed.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Error::TargetExists { path: target.to_owned() },
            _ => Error::io("rename a file to", target)(error),
        })?;
        self.has_name = true;
        ledger_path::sync_folder(target)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.has_name {
            remove(&self.path);
        }
    }
}

/// Removes the files that killed processes left beside `target`. Errors are ignored.
pub(super) fn remove_left_over(target: &Path) {
    let folder = target.parent().unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !is_ours(entry.file_name().as_encoded_bytes()) {
            continue;
        }
        let path = entry.path();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(&path);
        let Ok(file) = file else { continue };
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => {
                tracing::debug!(path = %path.display(), "Removed an unfinished backup.");
                remove(&path);
            }
            // Another process is writing it, or the file system has no locks.
            Ok(()) | Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

/// Returns whether a name is one that [`Temporary::beside`] chooses.
fn is_ours(name: &[u8]) -> bool {
    name.strip_prefix(PREFIX.as_bytes()).is_some_and(|rest| {
        rest.len() == 32 && rest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

fn remove(path: &Path) {
    for companion in COMPANIONS {
        let _ = fs::remove_file(beside(path, companion));
    }
    let _ = fs::remove_file(path);
}
