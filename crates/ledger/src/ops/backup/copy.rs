//! Copies a database page by page from one snapshot.
//!
//! Never checks the copy; `check` does.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::file::ledger::MAX_LOCK_WAIT;
use crate::file::ledger_path::in_real_folder;
use crate::{Error, Result};

/// The number of pages copied between two progress reports: 8 MiB with pages of 8 KiB.
const PAGES_PER_STEP: i32 = 1024;

/// A copy to be made.
pub(super) struct Copy<'a> {
    pub(super) from: &'a Connection,
    /// The file of `from`.
    pub(super) from_path: &'a Path,
    /// The empty file that is written.
    pub(super) temporary: &'a Path,
    /// The name that the file gets later. Errors name it.
    pub(super) target: &'a Path,
}

/// Makes a copy: of the snapshot of the open transaction, or else of the current state. `progress`
/// gets the number of copied bytes and of all bytes.
pub(super) fn copy(job: &Copy<'_>, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    let from = job.from;
    let failed = |source| Error::Copy { path: job.target.to_owned(), source };
    // Without one read transaction for the whole copy, each write of another process would restart
    // it.
    let snapshot = from.is_autocommit().then(|| from.unchecked_transaction()).transpose()?;
    let page: i64 = from.pragma_query_value(None, "page_size", |row| row.get(0))?;
    // `BEGIN` alone takes no snapshot; the first read does.
    from.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;

    let mut copy = open(job.temporary, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
    // No other process reads the temporary file, and it is removed after a crash.
    copy.pragma_update(None, "synchronous", "OFF").map_err(failed)?;
    {
        let backup = Backup::new(from, &mut copy).map_err(failed)?;
        loop {
            let step = backup.step(PAGES_PER_STEP).map_err(failed)?;
            let pages = backup.progress();
            let bytes = |pages: i32| i64::from(pages.max(0)).saturating_mul(page).cast_unsigned();
            progress(bytes(pages.pagecount - pages.remaining), bytes(pages.pagecount));
            match step {
                StepResult::Done => break,
                StepResult::More => {}
                _ => {
                    return Err(Error::Busy {
                        path: job.from_path.to_owned(),
                        waited: MAX_LOCK_WAIT,
                        holder: None,
                    });
                }
            }
        }
    }
    drop(snapshot);
    // Removes the log, so that the copy is one file.
    copy.pragma_update(None, "journal_mode", "DELETE").map_err(failed)?;
    copy.close().map_err(|(_, error)| failed(error))
}

/// Opens a copy that no other process uses, without SQLite's locks. This process already holds a
/// lock on the file, and some file systems for backups have no locks.
pub(super) fn open(path: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let conn = Connection::open_with_flags_and_vfs(in_real_folder(path), flags, "unix-none")?;
    // Otherwise a write-ahead log would need shared memory beside the file.
    conn.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Copies a database that an open transaction of the same connection has changed, which SQLite
    /// refuses as busy.
    fn copy_changed(temporary: &str) -> (Error, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let conn = Connection::open(at("ledger.db")).unwrap();
        conn.execute_batch("BEGIN IMMEDIATE; CREATE TABLE t (x)").unwrap();
        fs::write(at("temporary"), "").unwrap();
        let job = Copy {
            from: &conn,
            from_path: &at("ledger.db"),
            temporary: &at(temporary),
            target: &at("copy.db"),
        };
        (copy(&job, &mut |_, _| {}).unwrap_err(), folder)
    }

    #[test]
    fn a_busy_error_names_the_copied_ledger() {
        let (error, folder) = copy_changed("temporary");
        let Error::Busy { path, .. } = error else { panic!("{error:?}") };
        assert_eq!(path, folder.path().join("ledger.db"));
    }

    #[test]
    fn a_failed_copy_names_the_target() {
        let (error, folder) = copy_changed("missing");
        let Error::Copy { path, .. } = error else { panic!("{error:?}") };
        assert_eq!(path, folder.path().join("copy.db"));
    }
}
