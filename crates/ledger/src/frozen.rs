//! Ledgers on disks that cannot be written to.
//!
//! Even for reading, SQLite wants to put the shared memory of the write-ahead log beside the file.
//! Where the whole file system is read-only, nobody writes to the ledger, and it can be read as it
//! stands; unless a log lies beside it whose records are not in the file yet.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;

use crate::beside::log_length;

/// The name by which SQLite reads the file as one that never changes, if it never does.
pub(crate) fn name(path: &Path) -> Option<PathBuf> {
    let disk = rustix::fs::statvfs(path).ok()?;
    if log_length(path) > 0 || !disk.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return None;
    }
    let mut name = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                name.push(char::from(*byte));
            }
            byte => name.push_str(&format!("%{byte:02X}")),
        }
    }
    name.push_str("?immutable=1");
    Some(PathBuf::from(name))
}
