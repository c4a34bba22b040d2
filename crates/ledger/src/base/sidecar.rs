//! Names of files that lie beside another one: SQLite's own (`-wal`, `-shm`, `-journal`) and ours.

use std::path::{Path, PathBuf};

/// A path with something appended to its name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// How many bytes of a file's write-ahead log there are.
pub(crate) fn log_length(path: &Path) -> u64 {
    std::fs::metadata(beside(path, "-wal")).map_or(0, |meta| meta.len())
}
