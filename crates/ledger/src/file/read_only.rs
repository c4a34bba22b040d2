//! Ledgers that we may read but not write to: on a read-only disk, in a folder of somebody else, a
//! copy that was made read-only, a backup.
//!
//! Even for reading, SQLite wants to put the shared memory of the write-ahead log beside the file.
//! Where it cannot, or would leave it there as unwritable as the file is, or where the disk is full,
//! the file is read as it stands; unless a log lies beside it whose records are not in the file yet.
//! SQLite then knows nothing of others who write: while another process does, there is shared memory
//! already, and the ordinary way is open.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, StatVfsMountFlags};

use crate::base::sidecar::{beside, log_length};
use crate::file::ledger::Ledger;
use crate::file::ledger_path::Found;
use crate::file::lock;

/// The name by which SQLite reads the file as it stands, without its log and without locks.
pub(crate) fn immutable(path: &Path) -> PathBuf {
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
    PathBuf::from(name)
}

/// Whether this is a copy that `backup` made, and still one: written without a log, and nobody ever
/// stood in line beside it. Permissions would not say so, least of all to root. A ledger that lost its
/// log when a restore was killed has its queue beside it, and so has a copy that somebody put in a
/// ledger's place by hand; either gets a log again.
pub(crate) fn is_backup(path: &Path, found: &Found) -> bool {
    let has_log = match found {
        Found::Nothing => return false,
        _ if lock::has_queue(path) => return false,
        Found::Ledger { has_log: Some(has_log) } => *has_log,
        // It is open here, so SQLite has to be asked.
        Found::Ledger { has_log: None } => {
            Ledger::look_into(path).map_or(true, |(_, has_log)| has_log)
        }
    };
    !has_log
}

/// Whether the file can be read as it stands: nothing of it is in a log, and nothing shows that
/// another process has it open.
pub(crate) fn is_left(path: &Path) -> bool {
    log_length(path) == 0 && !beside(path, "-shm").exists()
}

/// Whether we may not write to the file, or not beside it.
pub(crate) fn is_closed(path: &Path) -> bool {
    let is_read_only =
        rustix::fs::statvfs(path).is_ok_and(|disk| disk.f_flag.contains(StatVfsMountFlags::RDONLY));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let is_refused = |path: &Path| rustix::fs::access(path, Access::WRITE_OK).is_err();
    is_read_only || is_refused(path) || is_refused(folder.unwrap_or(Path::new(".")))
}
