//! A private copy of a database beside the ledger, so that SQLite opens no file of another program.
//! Only the owner can access its folder. It is removed after reading; if the process is killed, by
//! the next sync.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The part of the folder's name between the ledger's name and a number.
const INFIX: &str = ".copy-";

/// The lock file, held while the folder is in use. The kernel drops the lock with its process.
const LOCK: &str = "in-use";

/// The age at which a folder without a lock file counts as abandoned. A younger one may still be
/// being created.
const MAX_UNFINISHED_AGE: Duration = Duration::from_secs(3600);

/// The number of bytes copied between two checks of the deadline.
const COPY_STEP_BYTES: u64 = 8 << 20;

/// A private copy. Dropping it removes it.
#[derive(Debug)]
pub(super) struct PrivateCopy {
    folder: PathBuf,
    _lock: File,
}

impl PrivateCopy {
    /// Creates a folder beside the ledger.
    pub(super) fn new(ledger: &Path) -> io::Result<PrivateCopy> {
        let mut folder = ledger.as_os_str().to_owned();
        folder.push(format!("{INFIX}{}", uuid::Uuid::new_v4().simple()));
        let folder = PathBuf::from(folder);
        DirBuilder::new().mode(0o700).create(&folder)?;
        let lock = create(&folder.join(LOCK)).and_then(|lock| {
            lock.try_lock().map_err(io::Error::from)?;
            Ok(lock)
        });
        match lock {
            Ok(lock) => Ok(PrivateCopy { folder, _lock: lock }),
            Err(error) => {
                let _ = fs::remove_dir_all(&folder);
                Err(error)
            }
        }
    }

    /// Copies a file into the folder. Stops in the middle if the deadline has passed. Subtracts the
    /// size from `room`, and fails if the file is larger than that.
    pub(super) fn add(
        &self,
        mut from: File,
        name: &str,
        room: &mut u64,
        is_over: &dyn Fn() -> bool,
    ) -> io::Result<PathBuf> {
        let path = self.folder.join(name);
        let mut to = create(&path)?;
        while !is_over() {
            let copied = io::copy(&mut from.by_ref().take(COPY_STEP_BYTES), &mut to)?;
            *room = room.checked_sub(copied).ok_or_else(|| io::Error::other("it is too large"))?;
            if copied < COPY_STEP_BYTES {
                break;
            }
        }
        Ok(path)
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes the copies that killed processes left behind.
pub(super) fn sweep(ledger: &Path) {
    let (Some(folder), Some(name)) = (ledger.parent(), ledger.file_name()) else { return };
    let mut prefix = name.as_encoded_bytes().to_vec();
    prefix.extend_from_slice(INFIX.as_bytes());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(&prefix) {
            continue;
        }
        let is_unused = match File::open(entry.path().join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(_) => entry.metadata().and_then(|meta| meta.modified()).is_ok_and(|at| {
                SystemTime::now().duration_since(at).unwrap_or_default() > MAX_UNFINISHED_AGE
            }),
        };
        if is_unused {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}
