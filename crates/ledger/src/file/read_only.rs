//! Decides how to open a ledger that this process may read but not write to: on a read-only disk,
//! in a folder of another user, a copy without write permission, a backup.
//!
//! Even for reading, SQLite creates the shared memory of the write-ahead log beside the file. The
//! ledger is opened as immutable if SQLite cannot create that file, if SQLite may not write to the
//! ledger and would leave that file behind, or if the disk is full. SQLite then takes no lock and
//! reads no log. That is safe only if no log with newer records is beside the file. While another
//! process writes, the file of the shared memory exists, and the ledger is opened in the ordinary
//! way.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, StatVfsMountFlags};

use crate::base::paths::sqlite_uri;
use crate::base::sidecar::{beside, log_length};
use crate::file::ledger::Ledger;
use crate::file::ledger_path::FoundAtPath;
use crate::file::lock;

/// Returns the URI by which SQLite opens the file as immutable: without its log and without locks.
pub(crate) fn immutable(path: &Path) -> PathBuf {
    sqlite_uri(path, "immutable=1").into()
}

/// Returns whether the file is a backup: it does not use a write-ahead log, and no writer's lock
/// file is beside it. Waits at most `longest` for a process that keeps readers out.
///
/// File permissions cannot decide this, because root ignores them. A file without a log is a ledger
/// if a lock file is beside it: its restore was killed, or a backup was moved to a ledger's
/// path. The next writer gives it a log again.
pub(crate) fn is_backup(path: &Path, found: &FoundAtPath, longest: Duration) -> bool {
    let has_log = match found {
        FoundAtPath::Nothing => return false,
        _ if lock::has_queue(path) => return false,
        FoundAtPath::Ledger { has_log: Some(has_log) } => *has_log,
        // The file is open in this process, so only SQLite may read its header.
        FoundAtPath::Ledger { has_log: None } => {
            let opened = Ledger::open_any_version_waiting(path, longest);
            opened.map_or(true, |ledger| ledger.has_log())
        }
    };
    !has_log
}

/// Returns whether the file can be opened as immutable: all its records are in the file, and
/// nothing shows that another process has it open.
pub(crate) fn is_quiescent(path: &Path) -> bool {
    log_length(path) == 0 && !beside(path, "-shm").exists()
}

/// Returns whether this process may not write to the file or to its folder.
pub(crate) fn is_unwritable(path: &Path) -> bool {
    let is_read_only =
        rustix::fs::statvfs(path).is_ok_and(|disk| disk.f_flag.contains(StatVfsMountFlags::RDONLY));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let is_refused = |path: &Path| rustix::fs::access(path, Access::WRITE_OK).is_err();
    is_read_only || is_refused(path) || is_refused(folder.unwrap_or(Path::new(".")))
}
