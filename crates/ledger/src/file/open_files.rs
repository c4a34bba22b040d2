//! The files that this process has open as ledgers, and whether a path still leads to them.
//!
//! SQLite's locks are POSIX locks: they belong to the process, and closing any descriptor of a file
//! drops all locks that the process holds on it. Reading the header of an open ledger through
//! another descriptor would unlock it under the connection that uses it. Another process that
//! closes the ledger would then find no lock and remove the write-ahead log. Code that reads a
//! ledger's file without SQLite therefore calls [`unless_open`].

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::foreign::FileId;
use crate::base::sidecar::beside;
use crate::file::free_space;
use crate::{Error, Result};

/// All open ledgers of this process. Global, because POSIX locks belong to the process.
static OPEN: Mutex<BTreeMap<FileId, Entry>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Entry {
    /// The number of times the file is open.
    times: usize,
    /// The log's shared memory, if [`OpenFile::back_shared_memory`] opened it. SQLite locks that
    /// file too, so it stays open as long as the ledger.
    memory: Option<File>,
}

/// A ledger file that this process has open. Must outlive its connection.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: FileId,
    /// The file's write-ahead log. SQLite finds logs by name alone; the inode shows whose log it
    /// is.
    log: Option<FileId>,
}

impl OpenFile {
    /// Registers the file at `path` before it is opened.
    pub(crate) fn at(path: &Path) -> Result<OpenFile> {
        let meta = fs::symlink_metadata(path).map_err(Error::io("look at", path))?;
        let file = (meta.dev(), meta.ino());
        registry().entry(file).or_default().times += 1;
        Ok(OpenFile { file, log: None })
    }

    /// Returns whether `path` still leads to this file.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        id(path) == Some(self.file)
    }

    /// Allocates the shared memory of the open log on disk, where SQLite leaves holes in it.
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
            // If it is absent or not writable, there is nothing to allocate.
            entry.memory = OpenOptions::new().read(true).write(true).open(memory).ok();
        }
        let Some(memory) = &entry.memory else { return Ok(()) };
        match rustix::fs::fallocate(memory, FallocateFlags::empty(), 0, free_space::SHARED_MEMORY) {
            Err(rustix::io::Errno::NOSPC) => Err(Error::NoRoom { path: path.to_owned() }),
            // Not every file system supports the call.
            _ => Ok(()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn back_shared_memory(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    /// Records which file the log is, now that it is open.
    pub(crate) fn note_log(&mut self, path: &Path) {
        let log = id(&beside(path, "-wal"));
        // If another file took the path since then, the log may belong to that file.
        self.log = log.filter(|_| self.is_at(path));
    }

    /// Returns whether the log at `path` is the log of this file.
    pub(crate) fn has_log_at(&self, path: &Path) -> bool {
        self.log.is_some() && id(&beside(path, "-wal")) == self.log
    }

    /// Returns the device and inode of the file.
    pub(crate) fn file(&self) -> FileId {
        self.file
    }
}

impl Drop for OpenFile {
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

/// Runs `look`, which may open and close the file, unless this process has it open as a ledger.
pub(crate) fn unless_open<T>(meta: &fs::Metadata, look: impl FnOnce() -> T) -> Option<T> {
    let open = registry();
    // The registry stays locked, so no thread opens the file at the same time.
    (!open.contains_key(&(meta.dev(), meta.ino()))).then(look)
}

/// Returns the device and inode of the file at `path`.
fn id(path: &Path) -> Option<FileId> {
    fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

fn registry() -> MutexGuard<'static, BTreeMap<FileId, Entry>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}
