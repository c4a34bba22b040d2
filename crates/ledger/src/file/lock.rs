//! Fairness between writers, for which SQLite's own lock is no help: with it alone, one of 16
//! writers may wait 12 seconds while another writes thousands of times.
//!
//! Writers queue on `flock` of a permanent sidecar file. The lock dies with its process, so it can
//! never be stale, and it is for fairness only: SQLite's lock remains the authority, and whoever
//! cannot get ours in time goes on without it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::base::sidecar::beside;
use crate::{Error, Result};

/// The sidecars of one ledger.
#[derive(Debug)]
pub(crate) struct WriteLock {
    path: PathBuf,
    /// Waiters hold this one shared while they wait.
    waiters: File,
    spare: Arc<Spare>,
}

/// The file that the last turn was had with, to be used for the next one.
type Spare = Mutex<Option<File>>;

/// A turn to write. Dropping it ends the turn.
#[derive(Debug)]
pub(crate) struct Held {
    file: Option<File>,
    spare: Arc<Spare>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // What cannot be unlocked is closed, which ends the turn as well.
        if let Some(file) = self.file.take()
            && file.unlock().is_ok()
            && let Ok(mut spare) = self.spare.lock()
        {
            *spare = Some(file);
        }
    }
}

impl Held {
    /// False if the turn could not be had in time.
    pub(crate) fn is_held(&self) -> bool {
        self.file.is_some()
    }
}

/// Whether anybody ever waited here to write. Whoever reads leaves no sidecar.
pub(crate) fn has_queue(path: &Path) -> bool {
    beside(path, ".lock").exists()
}

impl WriteLock {
    /// The lock of the ledger at `path`.
    pub(crate) fn beside(path: &Path) -> Result<WriteLock> {
        let lock = beside(path, ".lock");
        let waiters = open(&beside(path, ".wait"))?;
        open(&lock)?;
        Ok(WriteLock { path: lock, waiters, spare: Arc::default() })
    }

    /// Waits for a turn, at most `longest`.
    pub(crate) fn acquire(&self, longest: Duration) -> Held {
        let held = |file| Held { file, spare: Arc::clone(&self.spare) };
        let spare = self.spare.lock().ok().and_then(|mut spare| spare.take());
        let Some(file) = spare.or_else(|| open(&self.path).ok()) else { return held(None) };
        if file.try_lock().is_ok() {
            return held(Some(file));
        }
        let announced = self.waiters.try_lock_shared().is_ok();
        let (send, receive) = mpsc::channel();
        // A blocking flock has no time limit, so a thread waits for it. If we stop waiting, the
        // thread drops the lock as soon as it gets it.
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

    /// True if another process waits for its turn.
    pub(crate) fn someone_waits(&self) -> bool {
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
