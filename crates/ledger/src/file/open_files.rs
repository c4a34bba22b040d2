//! Which files this process has open as ledgers, and whether a path still leads to them.
//!
//! SQLite's locks are POSIX locks. They belong to the process, not to a descriptor, and closing any
//! descriptor of a file drops all that the process holds on it. A second look at the header of an
//! open ledger would so unlock it under the connection that uses it, and another process that ends
//! would take itself for the last one and remove the write-ahead log. Whoever wants to read a
//! ledger's file without SQLite therefore asks here first.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::sidecar::beside;
use crate::file::free_space;
use crate::{Error, Result};

/// A file, whatever its names are: device and inode.
pub(crate) type FileId = (u64, u64);

/// Open ledgers. A process-wide fact, because the locks are.
static OPEN: Mutex<BTreeMap<FileId, Entry>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Entry {
    /// How often it is open.
    times: usize,
    /// The shared memory of its log, if we had to open it. SQLite has locks on that file too, so it
    /// stays open as long as the ledger.
    memory: Option<File>,
}

/// A ledger file that this process has open. Must outlive its connection.
#[derive(Debug)]
pub(crate) struct Opened {
    file: FileId,
    /// Its write-ahead log. SQLite finds logs by their name alone; this tells whose it is.
    log: Option<FileId>,
}

impl Opened {
    /// Notes that the file at `path` is about to be opened.
    pub(crate) fn at(path: &Path) -> Result<Opened> {
        let meta = fs::symlink_metadata(path).map_err(Error::io("look at", path))?;
        let file = (meta.dev(), meta.ino());
        registry().entry(file).or_default().times += 1;
        Ok(Opened { file, log: None })
    }

    /// True while `path` leads to this file. After a swap it leads to another one.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        id(path) == Some(self.file)
    }

    /// Makes sure that the disk has all of the shared memory of the open log, where SQLite does not.
    #[cfg(target_os = "linux")]
    pub(crate) fn back_shared_memory(&self, path: &Path) -> Result<()> {
        use rustix::fs::FallocateFlags;
        if !free_space::has_small_blocks(path) {
            return Ok(());
        }
        let mut open = registry();
        let entry = open.entry(self.file).or_default();
        if entry.memory.is_none() {
            let memory = beside(path, "-shm");
            // Without one, or with one that is not ours to write to, nothing can be done.
            entry.memory = OpenOptions::new().read(true).write(true).open(memory).ok();
        }
        let Some(memory) = &entry.memory else { return Ok(()) };
        match rustix::fs::fallocate(memory, FallocateFlags::empty(), 0, free_space::SHARED_MEMORY) {
            Err(rustix::io::Errno::NOSPC) => Err(Error::NoRoom { path: path.to_owned() }),
            // Not every file system can.
            _ => Ok(()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn back_shared_memory(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    /// Notes which file the log is, now that it is open.
    pub(crate) fn note_log(&mut self, path: &Path) {
        let log = id(&beside(path, "-wal"));
        // If the file was swapped meanwhile, the log may be the other one's.
        self.log = log.filter(|_| self.is_at(path));
    }

    /// True if what is found as the log of `path` is the log of this file.
    pub(crate) fn has_log_at(&self, path: &Path) -> bool {
        self.log.is_some() && id(&beside(path, "-wal")) == self.log
    }

    /// Which file this is.
    pub(crate) fn file(&self) -> FileId {
        self.file
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut open = registry();
        if let Some(entry) = open.get_mut(&self.file) {
            entry.times -= 1;
            if entry.times == 0 {
                open.remove(&self.file);
            }
        }
    }
}

/// Runs `look`, which may open and close the file, unless the file is open as a ledger here.
pub(crate) fn unless_open<T>(meta: &fs::Metadata, look: impl FnOnce() -> T) -> Option<T> {
    let open = registry();
    // The registry stays locked meanwhile: nobody opens the file while it is looked at.
    (!open.contains_key(&(meta.dev(), meta.ino()))).then(look)
}

/// Which file has that name.
fn id(path: &Path) -> Option<FileId> {
    fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

fn registry() -> MutexGuard<'static, BTreeMap<FileId, Entry>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}
