//! Room on the ledger's disk for what SQLite puts beside the file: even reading takes 32 KiB of it, the
//! shared memory of the write-ahead log.

use std::path::Path;

use rustix::fs::StatVfs;

use crate::{Error, Result};

/// With less free space than this, an error that says nothing else is about room.
const LITTLE: u64 = 64 << 10;

/// SQLite writes one byte per this many bytes of shared memory. If blocks of the disk are
/// smaller, the others may not be had later, and touching them ends the process (SIGBUS).
const PAGE: u64 = 4096;

/// As much shared memory as a log of 128 MiB takes.
pub(crate) const SHARED_MEMORY: u64 = 128 << 10;

/// True if next to nothing is free on the disk of `path`.
pub(crate) fn is_short(path: &Path) -> bool {
    disk(path).is_some_and(|disk| free(&disk) < LITTLE || disk.f_favail == 0)
}

/// True if the disk of `path` may have no room for shared memory that SQLite thinks to have.
pub(crate) fn has_small_blocks(path: &Path) -> bool {
    disk(path).is_some_and(|disk| disk.f_frsize < PAGE)
}

/// Refuses a disk with small blocks on which the shared memory has no room.
pub(crate) fn check(path: &Path) -> Result<()> {
    match disk(path) {
        Some(disk) if disk.f_frsize < PAGE && free(&disk) < SHARED_MEMORY + LITTLE => {
            Err(Error::NoRoom { path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

fn disk(path: &Path) -> Option<StatVfs> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    rustix::fs::statvfs(folder.unwrap_or(Path::new("."))).ok()
}

/// Some of a disk may be kept for root.
fn free(disk: &StatVfs) -> u64 {
    let blocks = if rustix::process::geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
    blocks.saturating_mul(disk.f_frsize)
}
