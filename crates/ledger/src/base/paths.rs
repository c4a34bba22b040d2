//! Conversions between paths and bytes: names of files need not be UTF-8.
//!
//! Never touches the file system.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Returns the path of a file below a root.
pub(crate) fn absolute(root: &Path, relative: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(relative))
}

/// Returns the bytes of a path.
pub(crate) fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().to_owned().into_vec()
}
