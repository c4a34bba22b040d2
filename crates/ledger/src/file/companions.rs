//! The modes of a ledger's log and its shared memory.
//!
//! SQLite creates both with the mode that the ledger has at that moment, and leaves them there if it
//! may not write to the ledger. After `chmod 444`, one read and `chmod 600`, the shared memory would
//! still be read-only, and so would the ledger.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::Access;

use crate::base::sidecar::beside;
use crate::{Error, Result};

/// Gives the log and its shared memory the ledger's mode, as SQLite would if it made them now. An
/// error names the one that cannot be written to.
pub(crate) fn make_writable(path: &Path) -> Result<()> {
    let check = |file: &Path| {
        rustix::fs::access(file, Access::WRITE_OK)
            .map_err(|error| Error::io("write to", file)(error.into()))
    };
    // SQLite would open what it may not write to, and leave shared memory beside it.
    check(path)?;
    let Ok(ledger) = fs::symlink_metadata(path) else { return Ok(()) };
    if ledger.mode() & 0o200 == 0 {
        return Ok(());
    }
    for file in ["-wal", "-shm"].map(|suffix| beside(path, suffix)) {
        let Ok(meta) = fs::symlink_metadata(&file) else { continue };
        let mode = ledger.mode() & 0o777;
        if meta.is_file() && meta.uid() == ledger.uid() && meta.mode() & 0o777 != mode {
            // If it is not ours, what counts is whether we may write to it.
            let _ = fs::set_permissions(&file, fs::Permissions::from_mode(mode));
        }
        check(&file)?;
    }
    Ok(())
}
