//! Waits until something was committed to a ledger, by this process or by another one.
//!
//! Every commit writes to the write-ahead log, and Linux tells of that (inotify). So a waiting
//! process sleeps until something happens. Where the system does not tell, the wait ends after
//! [`PAUSE`] each time, and the caller looks into the ledger. Never reads the ledger itself.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The time between two looks where the system does not tell of changes.
const PAUSE: Duration = Duration::from_millis(200);

/// Waits for commits to one ledger.
#[derive(Debug)]
pub struct Commits {
    shared: Arc<Shared>,
}

/// Ends the wait of a [`Commits`] from another thread.
#[derive(Debug, Clone)]
pub struct CommitsEnd(Arc<Shared>);

/// The reason why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Something may have been committed.
    Committed,
    /// The given time is over.
    Late,
    /// [`CommitsEnd::end`] was called.
    Ended,
}

#[derive(Debug)]
struct Shared {
    is_ended: AtomicBool,
    /// `None` where the system does not tell of changes.
    log: Option<watch::Log>,
    /// For a wait without a watch.
    parked: Mutex<()>,
    unparked: Condvar,
}

impl Commits {
    /// Begins to wait for commits to the ledger at `path`. None after this call is missed.
    pub fn to(path: &Path) -> Commits {
        let log = watch::Log::of(path)
            .inspect_err(|error| tracing::warn!(%error, "Cannot watch the ledger's log."))
            .ok();
        Commits {
            shared: Arc::new(Shared {
                is_ended: AtomicBool::new(false),
                log,
                parked: Mutex::default(),
                unparked: Condvar::new(),
            }),
        }
    }

    /// Returns a handle that ends waits.
    pub fn end(&self) -> CommitsEnd {
        CommitsEnd(Arc::clone(&self.shared))
    }

    /// Waits until something was committed since the last wait, at most `longest`.
    pub fn wait(&mut self, longest: Option<Duration>) -> Woken {
        let shared = &self.shared;
        if shared.is_ended.load(Ordering::Acquire) {
            return Woken::Ended;
        }
        let is_late = match &shared.log {
            Some(log) => !log.wait(longest),
            None => {
                let parked = shared.parked.lock().unwrap_or_else(PoisonError::into_inner);
                let pause = longest.map_or(PAUSE, |longest| longest.min(PAUSE));
                drop(shared.unparked.wait_timeout(parked, pause));
                false
            }
        };
        match is_late {
            _ if shared.is_ended.load(Ordering::Acquire) => Woken::Ended,
            true => Woken::Late,
            false => Woken::Committed,
        }
    }
}

impl CommitsEnd {
    /// Ends the running wait and all later ones.
    pub fn end(&self) {
        self.0.is_ended.store(true, Ordering::Release);
        match &self.0.log {
            Some(log) => log.wake(),
            None => {
                drop(self.0.parked.lock());
                self.0.unparked.notify_all();
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod watch {
    //! Two watches: one on the log for writes, one on its folder for a log that is created anew.

    use std::ffi::OsString;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
    use rustix::io::Errno;

    use crate::base::sidecar::beside;

    /// Names that appear in the folder or disappear from it.
    const NAMES: WatchFlags = WatchFlags::CREATE
        .union(WatchFlags::DELETE)
        .union(WatchFlags::MOVED_FROM)
        .union(WatchFlags::MOVED_TO)
        .union(WatchFlags::ONLYDIR);

    /// The size of the event buffer in bytes.
    const BUFFER_BYTES: usize = 8 << 10;

    #[derive(Debug)]
    pub(super) struct Log {
        inotify: OwnedFd,
        log: PathBuf,
        /// The names of the ledger and of its log in their folder.
        names: [OsString; 2],
    }

    impl Log {
        pub(super) fn of(path: &Path) -> io::Result<Log> {
            // SQLite's log is beside the file that a link leads to.
            let path = path.canonicalize()?;
            let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            let folder = path.parent().unwrap_or(Path::new("/"));
            inotify::add_watch(&inotify, folder, NAMES)?;
            let log = beside(&path, "-wal");
            let name = |path: &Path| path.file_name().unwrap_or_default().to_owned();
            let names = [name(&path), name(&log)];
            let watched = Log { inotify, log, names };
            watched.follow_log();
            Ok(watched)
        }

        /// Watches the log that has the name now. If there is none, its creation is an event.
        fn follow_log(&self) {
            let _ = inotify::add_watch(&self.inotify, &self.log, WatchFlags::MODIFY);
        }

        /// Returns false if nothing happened in that time.
        pub(super) fn wait(&self, longest: Option<Duration>) -> bool {
            let until = longest.map(|longest| Instant::now() + longest);
            loop {
                self.follow_log();
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                let timeout = left.map(|left| Timespec {
                    tv_sec: left.as_secs().cast_signed(),
                    tv_nsec: left.subsec_nanos().into(),
                });
                let mut fds = [PollFd::new(&self.inotify, PollFlags::IN)];
                match poll(&mut fds, timeout.as_ref()) {
                    Ok(0) => return false,
                    Err(Errno::INTR) => continue,
                    // Another look at the ledger is never wrong.
                    Err(_) => return true,
                    Ok(_) => {}
                }
                if self.is_about_ledger() {
                    // A log that was created is watched before the caller looks, so that no later
                    // write is missed.
                    self.follow_log();
                    return true;
                }
            }
        }

        /// Reads all waiting events. Returns whether one is about the ledger or its log.
        fn is_about_ledger(&self) -> bool {
            let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
            let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
            let mut is_about_ledger = false;
            while let Ok(event) = events.next() {
                let name = event.file_name().map(std::ffi::CStr::to_bytes);
                // Events of the log itself have no name; in the folder, other files have one.
                is_about_ledger |= event.events().contains(ReadFlags::QUEUE_OVERFLOW)
                    || name.is_none_or(|name| self.names.iter().any(|own| own.as_bytes() == name));
            }
            is_about_ledger
        }

        /// Ends a wait: removing a watch is an event.
        pub(super) fn wake(&self) {
            let _ = inotify::add_watch(&self.inotify, "/", WatchFlags::DELETE_SELF)
                .and_then(|number| inotify::remove_watch(&self.inotify, number));
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod watch {
    //! Systems without inotify: nothing tells of a write to a single file without opening it.

    use std::io;
    use std::path::Path;
    use std::time::Duration;

    #[derive(Debug)]
    pub(super) enum Log {}

    impl Log {
        pub(super) fn of(_: &Path) -> io::Result<Log> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn wait(&self, _: Option<Duration>) -> bool {
            match *self {}
        }

        pub(super) fn wake(&self) {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(conn: &rusqlite::Connection) {
        conn.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    }

    /// A long time: the test fails only if an event is lost.
    const LONG: Option<Duration> = Some(Duration::from_secs(60));

    #[test]
    fn a_commit_ends_the_wait() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (a)").unwrap();
        let mut commits = Commits::to(&path);
        write(&conn);
        assert_eq!(commits.wait(LONG), Woken::Committed);
        // The log is removed with the last connection, and created anew.
        drop(conn);
        let conn = rusqlite::Connection::open(&path).unwrap();
        while commits.wait(Some(Duration::from_millis(50))) == Woken::Committed {
            if !cfg!(target_os = "linux") {
                break;
            }
        }
        write(&conn);
        assert_eq!(commits.wait(LONG), Woken::Committed);
        // A file of another program in the folder is no commit.
        #[cfg(target_os = "linux")]
        {
            while commits.wait(Some(Duration::from_millis(50))) == Woken::Committed {}
            std::fs::write(folder.path().join("other"), "text").unwrap();
            assert_eq!(commits.wait(Some(Duration::from_millis(50))), Woken::Late);
        }
    }

    #[test]
    fn a_log_that_is_created_during_a_wait_is_watched_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (a)").unwrap();
        drop(conn);
        let mut commits = Commits::to(&path);
        let waiting = std::thread::spawn(move || {
            assert_eq!(commits.wait(LONG), Woken::Committed);
            commits
        });
        let conn = rusqlite::Connection::open(&path).unwrap();
        write(&conn);
        let mut commits = waiting.join().unwrap();
        write(&conn);
        assert_eq!(commits.wait(LONG), Woken::Committed);
    }

    #[test]
    fn a_wait_can_be_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        std::fs::write(&path, "").unwrap();
        let mut commits = Commits::to(&path);
        let end = commits.end();
        let waiting = std::thread::spawn(move || {
            while commits.wait(None) != Woken::Ended {}
            commits.wait(None)
        });
        end.end();
        assert_eq!(waiting.join().unwrap(), Woken::Ended);
    }
}
