//! Fairness between writers. With SQLite's own lock alone, one of 16 writers may wait 12 seconds
//! while another one writes thousands of times.
//!
//! Writers queue on `flock` of a permanent sidecar file. The kernel drops the lock with its
//! process, so it is never stale. It only orders the writers: SQLite's lock remains the authority,
//! and a writer that does not get this one in time continues without it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::base::sidecar::beside;
use crate::{Error, Result};

/// The lock files of one ledger.
#[derive(Debug)]
pub(crate) struct WriteLock {
    path: PathBuf,
    /// Locked as shared by each waiting writer, so that the current one can see that another waits.
    waiters: File,
    spare: Arc<Spare>,
}

/// The file of the last turn, reused for the next one.
type Spare = Mutex<Option<File>>;

/// A turn to write. Dropping it ends the turn.
#[derive(Debug)]
pub(crate) struct Turn {
    file: Option<File>,
    spare: Arc<Spare>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A file that cannot be unlocked is closed, which ends the turn as well.
        if let Some(file) = self.file.take()
            && file.unlock().is_ok()
            && let Ok(mut spare) = self.spare.lock()
        {
            *spare = Some(file);
        }
    }
}

impl Turn {
    /// Returns whether the turn came in time.
    pub(crate) fn is_held(&self) -> bool {
        self.file.is_some()
    }
}

/// Returns whether a writer ever opened the ledger at `path`. Readers leave no lock file.
pub(crate) fn has_queue(path: &Path) -> bool {
    beside(path, ".lock").exists()
}

impl WriteLock {
    /// Opens the lock of the ledger at `path`.
    pub(crate) fn beside(path: &Path) -> Result<WriteLock> {
        let lock = beside(path, ".lock");
        let waiters = open(&beside(path, ".wait"))?;
        open(&lock)?;
        Ok(WriteLock { path: lock, waiters, spare: Arc::default() })
    }

    /// Waits for a turn, for at most `longest`.
    pub(crate) fn acquire(&self, longest: Duration) -> Turn {
        let held = |file| Turn { file, spare: Arc::clone(&self.spare) };
        let spare = self.spare.lock().ok().and_then(|mut spare| spare.take());
        let Some(file) = spare.or_else(|| open(&self.path).ok()) else { return held(None) };
        if file.try_lock().is_ok() {
            return held(Some(file));
        }
        let announced = self.waiters.try_lock_shared().is_ok();
        let (send, receive) = mpsc::channel();
        // A blocking flock has no time limit, so a thread waits for it. After a timeout, the thread
        // drops the lock as soon as it gets it.
        std::thread::spawn(move || {
            if file.lock().is_ok() {
                let _ = send.send(file);
            }
        });
        let held = held(receive.recv_timeout(longest).ok());
        if announced {
            let _ = self.waiters.unlock();
        }
        held
    }

    /// Returns whether another process waits for its turn.
    pub(crate) fn has_waiters(&self) -> bool {
        match self.waiters.try_lock() {
            Ok(()) => {
                let _ = self.waiters.unlock();
                false
            }
            Err(_) => true,
        }
    }
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(Error::io("open", path))
}
