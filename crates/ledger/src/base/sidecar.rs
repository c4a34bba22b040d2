//! Names of files beside another file: SQLite's own (`-wal`, `-shm`, `-journal`) and ours.
//!
//! Never opens any of them.

use std::path::{Path, PathBuf};

/// Returns the path with `suffix` appended to its file name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns the length in bytes of a file's write-ahead log; 0 if there is none.
pub(crate) fn log_length(path: &Path) -> u64 {
    std::fs::metadata(beside(path, "-wal")).map_or(0, |meta| meta.len())
}
