//! Free space on the ledger's disk for the files that SQLite creates beside it. Even reading takes
//! 32 KiB: the shared memory of the write-ahead log.

use std::path::Path;

use rustix::fs::StatVfs;

use crate::{Error, Result};

/// The free space, in bytes, below which an unspecific error of SQLite counts as a full disk.
const NEARLY_FULL: u64 = 64 << 10;

/// The distance, in bytes, at which SQLite writes one byte to allocate shared memory. If blocks of
/// the disk are smaller, holes remain, and touching one on a full disk ends the process (SIGBUS).
const SHARED_MEMORY_STEP: u64 = 4096;

/// The size, in bytes, of the shared memory for a log of 128 MiB.
pub(crate) const SHARED_MEMORY: u64 = 128 << 10;

/// Returns whether the disk of `path` is nearly full.
pub(crate) fn is_nearly_full(path: &Path) -> bool {
    disk(path).is_some_and(|disk| free(&disk) < NEARLY_FULL || disk.f_favail == 0)
}

/// Returns whether SQLite would leave holes in shared memory on the disk of `path`.
pub(crate) fn has_small_blocks(path: &Path) -> bool {
    disk(path).is_some_and(|disk| disk.f_frsize < SHARED_MEMORY_STEP)
}

/// Refuses a disk with small blocks that has no room for the shared memory.
pub(crate) fn check(path: &Path) -> Result<()> {
    match disk(path) {
        Some(disk)
            if disk.f_frsize < SHARED_MEMORY_STEP && free(&disk) < SHARED_MEMORY + NEARLY_FULL =>
        {
            Err(Error::NoRoom { path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

fn disk(path: &Path) -> Option<StatVfs> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    rustix::fs::statvfs(folder.unwrap_or(Path::new("."))).ok()
}

/// Returns the free bytes. Reserved blocks do not count, not even for root: ext4 reports about 2 %
/// as free that no process can use.
fn free(disk: &StatVfs) -> u64 {
    disk.f_bavail.saturating_mul(disk.f_frsize)
}
