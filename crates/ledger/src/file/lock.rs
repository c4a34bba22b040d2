//! Fairness between writers. With SQLite's own lock alone, one of 16 writers may wait 12 seconds
//! while another one writes thousands of times.
//!
//! Writers queue on `flock` of a permanent sidecar file. The kernel drops the lock with its
//! process, so it is never stale. It only orders the writers: SQLite's lock remains the authority,
//! and a writer that does not get this one in time continues without it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::base::error::Holder;
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

/// Returns the process that holds the lock of the ledger at `path`; `None` if it cannot be found,
/// for example because it belongs to another user. The kernel lists locks by inode, and a process's
/// open files by path.
pub(crate) fn holder(path: &Path) -> Option<Holder> {
    let lock = fs::canonicalize(beside(path, ".lock")).ok()?;
    let inode = format!(":{}", fs::metadata(&lock).ok()?.ino());
    // For example: `7: FLOCK  ADVISORY  WRITE 4711 08:02:131090 0 EOF`.
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let ids = locks.lines().filter_map(|line| match *line.split_whitespace().collect::<Vec<_>>() {
        [_, "FLOCK", _, "WRITE", id, file, ..] if file.ends_with(&inode) => id.parse::<u32>().ok(),
        _ => None,
    });
    let has_it_open = |id: &u32| {
        let files = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target == lock)
    };
    let id = ids.filter(|id| *id != std::process::id()).find(has_it_open)?;
    let program = fs::read_to_string(format!("/proc/{id}/comm")).ok()?.trim_end().to_owned();
    // The state follows the program's name, which may itself have brackets.
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let is_stopped = stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['T', 't']));
    Some(Holder { id, program, is_stopped })
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
