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

/// Returns the URI by which SQLite opens a path. All bytes that could have a meaning in a URI are
/// percent-encoded.
pub(crate) fn sqlite_uri(path: &Path, parameters: &str) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("{uri}?{parameters}")
}
