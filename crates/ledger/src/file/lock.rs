//! Fairness between writers. With SQLite's own lock alone, one of 16 writers may wait 12 seconds
//! while another one writes thousands of times.
//!
//! Writers queue on `flock` of two permanent sidecar files. The holder of `.lock` has the turn, the
//! holder of `.wait` has the next one: each writer takes `.wait` first and keeps it until it has
//! `.lock`. A writer that wants two turns in a row therefore lets a waiting writer go first, even
//! if the kernel wakes the waiting writer late.
//!
//! The kernel drops the locks with their process, so they are never stale. They only order the
//! writers: SQLite's lock remains the authority, and a writer that does not get its turn in time
//! continues without it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::base::error::Holder;
use crate::base::sidecar::beside;
use crate::{Error, Result};

/// The longest time that a writer waits for a process that holds the next turn and does not take
/// it, for example because that process is stopped.
const MAX_YIELD: Duration = Duration::from_secs(1);

/// The lock files of one ledger.
#[derive(Debug)]
pub(crate) struct WriteLock {
    path: PathBuf,
    next_path: PathBuf,
    /// Only for asking whether a writer waits.
    next: File,
    spare: Arc<Spare>,
}

/// Both lock files, opened for one turn.
#[derive(Debug)]
struct Files {
    turn: File,
    next: File,
}

impl Files {
    /// Takes the turn if it is free and no writer waits. The next turn may stay taken after a
    /// failure.
    fn try_lock(&self) -> bool {
        self.next.try_lock().is_ok() && self.turn.try_lock().is_ok() && self.next.unlock().is_ok()
    }

    /// Waits until no other writer is next, then until the turn is free.
    fn lock(&self) -> bool {
        self.next.lock().is_ok() && self.turn.lock().is_ok() && self.next.unlock().is_ok()
    }
}

/// The files of the last turn, reused for the next one.
type Spare = Mutex<Option<Files>>;

/// A turn to write. Dropping it ends the turn.
#[derive(Debug)]
pub(crate) struct Turn {
    files: Option<Files>,
    spare: Arc<Spare>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A file that cannot be unlocked is closed, which ends the turn as well.
        if let Some(files) = self.files.take()
            && files.turn.unlock().is_ok()
            && let Ok(mut spare) = self.spare.lock()
        {
            *spare = Some(files);
        }
    }
}

impl Turn {
    /// Returns whether the turn came in time.
    pub(crate) fn is_held(&self) -> bool {
        self.files.is_some()
    }
}

/// Returns whether a writer ever opened the ledger at `path`. Readers leave no lock file.
pub(crate) fn has_queue(path: &Path) -> bool {
    beside(path, ".lock").exists()
}

impl WriteLock {
    /// Opens the lock of the ledger at `path`.
    pub(crate) fn beside(path: &Path) -> Result<WriteLock> {
        let (path, next_path) = (beside(path, ".lock"), beside(path, ".wait"));
        let next = open(&next_path)?;
        open(&path)?;
        Ok(WriteLock { path, next_path, next, spare: Arc::default() })
    }

    /// Waits for a turn, for at most `longest`.
    pub(crate) fn acquire(&self, longest: Duration) -> Turn {
        let turn = |files| Turn { files, spare: Arc::clone(&self.spare) };
        let spare = self.spare.lock().ok().and_then(|mut spare| spare.take());
        let Some(files) = spare.or_else(|| self.open().ok()) else { return turn(None) };
        if files.try_lock() {
            return turn(Some(files));
        }
        let (send, receive) = mpsc::channel();
        // A blocking flock has no time limit, so a thread waits for it. After a timeout, the thread
        // drops the locks as soon as it gets them.
        std::thread::spawn(move || {
            if files.lock() {
                let _ = send.send(files);
            }
        });
        let began = Instant::now();
        loop {
            let left = longest.saturating_sub(began.elapsed());
            if let Ok(files) = receive.recv_timeout(left.min(MAX_YIELD)) {
                return turn(Some(files));
            }
            if began.elapsed() >= longest {
                return turn(None);
            }
            // A turn that is still free was not taken by the process that holds the next one.
            if let Ok(files) = self.open()
                && files.turn.try_lock().is_ok()
            {
                return turn(Some(files));
            }
        }
    }

    /// Returns whether a writer waits for its turn.
    pub(crate) fn has_waiters(&self) -> bool {
        match self.next.try_lock() {
            Ok(()) => {
                let _ = self.next.unlock();
                false
            }
            Err(_) => true,
        }
    }

    fn open(&self) -> Result<Files> {
        Ok(Files { turn: open(&self.path)?, next: open(&self.next_path)? })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Far more than a test takes.
    const LONG: Duration = Duration::from_secs(120);

    /// A writer takes one turn after another, as a rebuild does, while another one waits.
    #[test]
    fn a_writer_that_waits_gets_the_next_turn() {
        for round in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("ledger.db");
            let (greedy, modest) =
                (WriteLock::beside(&path).unwrap(), WriteLock::beside(&path).unwrap());
            let had_turn = AtomicBool::new(false);
            let mut turn = greedy.acquire(LONG);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let turn = modest.acquire(LONG);
                    assert!(turn.is_held());
                    had_turn.store(true, Ordering::SeqCst);
                });
                while !greedy.has_waiters() {
                    std::thread::yield_now();
                }
                let mut turns = 0;
                while !had_turn.load(Ordering::SeqCst) {
                    drop(turn);
                    turn = greedy.acquire(LONG);
                    assert!(turn.is_held());
                    turns += 1;
                }
                assert!(turns <= 2, "round {round}: after {turns} turns of the other writer");
                drop(turn);
            });
        }
    }

    /// A process that holds the next turn without taking it delays other writers, but does not
    /// block them.
    #[test]
    fn a_process_that_does_not_take_its_turn_is_overtaken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let lock = WriteLock::beside(&path).unwrap();
        let stopped = open(&beside(&path, ".wait")).unwrap();
        stopped.lock().unwrap();
        assert!(lock.acquire(LONG).is_held());
    }
}
