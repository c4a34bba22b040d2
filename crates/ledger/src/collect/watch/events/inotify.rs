//! Linux: one inotify object, one watch per folder, one reading thread.
//!
//! Only changes are requested. Opening and reading files cause no events, so that neither our own
//! sweeps nor another program's `grep` can fill the queue.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::Follow;
use crate::collect::Folder;
use crate::collect::watch::hint::{Filter, PathChange};

/// The requested kinds of events.
const CHANGES: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW)
    .union(WatchFlags::EXCL_UNLINK);

/// The events by which a name appears or disappears.
const NAME_CHANGES: ReadFlags = ReadFlags::CREATE
    .union(ReadFlags::DELETE)
    .union(ReadFlags::MOVED_FROM)
    .union(ReadFlags::MOVED_TO);

/// The size of the event buffer in bytes: room for a few hundred events.
const BUFFER_BYTES: usize = 32 << 10;

/// Events of the followed folders.
#[derive(Debug)]
pub(in crate::collect::watch) struct Events {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    inotify: OwnedFd,
    followed: Mutex<Followed>,
    filter: Arc<Filter>,
    is_over: AtomicBool,
}

/// Watches by number and by path. A renamed folder keeps its number.
#[derive(Debug, Default)]
struct Followed {
    by_number: HashMap<i32, Folder>,
    by_path: HashMap<PathBuf, i32>,
}

impl Events {
    pub(in crate::collect::watch) fn start(filter: Arc<Filter>) -> io::Result<Events> {
        let shared = Arc::new(Shared {
            inotify: inotify::init(CreateFlags::CLOEXEC)?,
            followed: Mutex::default(),
            filter,
            is_over: AtomicBool::new(false),
        });
        let reader = Arc::clone(&shared);
        let reader = std::thread::Builder::new()
            .name("file events".to_owned())
            .spawn(move || reader.read())?;
        Ok(Events { shared, reader: Some(reader) })
    }

    /// Returns whether a folder with that path is followed.
    pub(in crate::collect::watch) fn follows(&self, path: &Path) -> bool {
        self.shared.followed().by_path.contains_key(path)
    }

    /// Follows one more folder.
    pub(in crate::collect::watch) fn follow(&mut self, folder: &Folder) -> Follow {
        // The lock is held during the call, so that events of the new watch find its path.
        let mut followed = self.shared.followed();
        match inotify::add_watch(&self.shared.inotify, &folder.path, CHANGES) {
            Ok(number) => {
                followed.by_number.insert(number, folder.clone());
                followed.by_path.insert(folder.path.clone(), number);
                Follow::Done
            }
            Err(Errno::NOSPC | Errno::NOMEM) => Follow::NoneLeft,
            Err(_) => Follow::Refused,
        }
    }

    /// Stops following all folders that are not `wanted`.
    pub(in crate::collect::watch) fn retain(&mut self, wanted: &HashSet<PathBuf>) {
        let shared = &self.shared;
        let mut followed = shared.followed();
        let unwanted: Vec<PathBuf> =
            followed.by_path.keys().filter(|path| !wanted.contains(*path)).cloned().collect();
        for path in unwanted {
            followed.unfollow(&shared.inotify, &path);
        }
    }
}

impl Drop for Events {
    /// Ends the thread. It waits for an event, and removing a watch causes one.
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let inotify = &self.shared.inotify;
        let woken = inotify::add_watch(inotify, "/", WatchFlags::DELETE_SELF)
            .and_then(|number| inotify::remove_watch(inotify, number));
        if let (Ok(()), Some(reader)) = (woken, self.reader.take()) {
            // The join fails only after a panic, which was reported already.
            let _ = reader.join();
        }
    }
}

impl Shared {
    fn followed(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        while !self.is_over.load(Ordering::Relaxed) {
            match events.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    self.event(event.wd(), event.events(), name);
                }
                Err(Errno::INTR) => {}
                Err(error) => {
                    // No more events arrive; sweeps still find changes.
                    tracing::warn!(%error, "File events have ended.");
                    break;
                }
            }
        }
    }

    fn event(&self, number: i32, what: ReadFlags, name: Option<&OsStr>) {
        if what.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.filter.anything();
        }
        let mut followed = self.followed();
        if what.contains(ReadFlags::IGNORED) {
            followed.forget(number);
            return;
        }
        let Some(folder) = followed.by_number.get(&number).cloned() else {
            // The watch was removed after this event, so the path is unknown.
            return self.filter.anything();
        };
        let Some(name) = name else {
            // The folder itself was removed or renamed, or its permissions changed.
            if what.intersects(ReadFlags::MOVE_SELF | ReadFlags::DELETE_SELF) {
                followed.unfollow_below(&self.inotify, &folder.path);
                drop(followed);
                self.filter.event(&folder.path, FOLDER);
            }
            return;
        };
        let path = folder.path.join(name);
        let change = PathChange {
            is_folder: what.contains(ReadFlags::ISDIR),
            appeared_or_disappeared: what.intersects(NAME_CHANGES),
        };
        if change.is_folder && what.contains(ReadFlags::MOVED_FROM) {
            followed.unfollow_below(&self.inotify, &path);
        }
        drop(followed);
        if folder.is_link {
            self.filter.anything();
        } else {
            self.filter.event(&path, change);
        }
    }
}

const FOLDER: PathChange = PathChange { is_folder: true, appeared_or_disappeared: true };

impl Followed {
    /// Stops following a folder and all folders below it, whose paths are no longer valid.
    fn unfollow_below(&mut self, inotify: &OwnedFd, path: &Path) {
        let below: Vec<PathBuf> =
            self.by_path.keys().filter(|known| known.starts_with(path)).cloned().collect();
        for path in below {
            self.unfollow(inotify, &path);
        }
    }

    fn unfollow(&mut self, inotify: &OwnedFd, path: &Path) {
        let Some(number) = self.by_path.remove(path) else { return };
        // The same folder may already be followed under its new path.
        if self.by_number.get(&number).is_some_and(|folder| folder.path == path) {
            self.by_number.remove(&number);
            // The kernel may have removed the watch itself.
            let _ = inotify::remove_watch(inotify, number);
        }
    }

    /// Forgets a watch that the kernel removed.
    fn forget(&mut self, number: i32) {
        if let Some(folder) = self.by_number.remove(&number)
            && self.by_path.get(&folder.path) == Some(&number)
        {
            self.by_path.remove(&folder.path);
        }
    }
}
