//! The kinds and modes of a ledger's companions: its write-ahead log, its journal and its shared
//! memory.
//!
//! SQLite opens any file with such a name, and waits forever for the other end of a named pipe.
//!
//! SQLite creates the log and its shared memory with the ledger's mode at that moment, and leaves
//! them behind if it may not write to the ledger. After `chmod 444`, one read and `chmod 600`, the
//! shared memory would still be read-only, and so would the ledger.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::Access;

use crate::base::sidecar::beside;
use crate::{Error, Result};

/// The endings of the names of the files that SQLite creates beside a ledger.
const SUFFIXES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Fails if a companion of the ledger at `path` exists and is not a regular file. Opens no file.
pub(crate) fn check_kinds(path: &Path) -> Result<()> {
    for file in SUFFIXES.map(|suffix| beside(path, suffix)) {
        if let Ok(meta) = fs::symlink_metadata(&file)
            && !meta.is_file()
        {
            return Err(Error::Companion { path: file, what: kind(meta.file_type()) });
        }
    }
    Ok(())
}

/// Fails with the path of a companion that exists and that this process may not read: another user
/// created it.
pub(crate) fn check_readable(path: &Path) -> Result<()> {
    for file in SUFFIXES.map(|suffix| beside(path, suffix)) {
        match rustix::fs::access(&file, Access::READ_OK) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(Error::io("read", file)(error.into())),
        }
    }
    Ok(())
}

/// Returns the name of a kind of file, with its article.
fn kind(kind: fs::FileType) -> &'static str {
    if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Gives the log and its shared memory the ledger's mode, as if SQLite created them now. Fails with
/// the path of a file that cannot be written to, or of a folder in which no file can be created.
pub(crate) fn make_writable(path: &Path) -> Result<()> {
    let check = |action, file: &Path| {
        rustix::fs::access(file, Access::WRITE_OK)
            .map_err(|error| Error::io(action, file)(error.into()))
    };
    // SQLite would open the file for reading only, and leave shared memory beside it.
    check("write to", path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    for file in ["-wal", "-shm"].map(|suffix| beside(path, suffix)) {
        if fs::symlink_metadata(&file).is_err() {
            check("create a file in", folder.unwrap_or(Path::new(".")))?;
        }
    }
    let Ok(ledger) = fs::symlink_metadata(path) else { return Ok(()) };
    if ledger.mode() & 0o200 == 0 {
        return Ok(());
    }
    for file in ["-wal", "-shm"].map(|suffix| beside(path, suffix)) {
        let Ok(meta) = fs::symlink_metadata(&file) else { continue };
        let mode = ledger.mode() & 0o777;
        if meta.is_file() && meta.uid() == ledger.uid() && meta.mode() & 0o777 != mode {
            // Another user's file cannot be changed; the check below decides.
            let _ = fs::set_permissions(&file, fs::Permissions::from_mode(mode));
        }
        match check("write to", &file) {
            // The last process that used the log has closed it in the meantime.
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            checked => checked?,
        }
    }
    Ok(())
}
