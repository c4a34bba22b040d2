//! Copies a database page by page, as of one moment.
//!
//! Never checks the copy; `check` does.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::file::ledger::MAX_LOCK_WAIT;
use crate::file::ledger_path::in_real_folder;
use crate::{Error, Result};

/// The number of pages copied between two reports: 8 MiB.
const STEP: i32 = 1024;

/// Copies the current state of `from` into the empty file at `to`. `progress` gets the number of
/// copied bytes and of all bytes.
pub(super) fn copy(from: &Connection, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    let failed = |source| Error::Copy { path: to.to_owned(), source };
    // One read transaction for the whole copy, so that writers do not make it start again.
    let moment = from.is_autocommit().then(|| from.unchecked_transaction()).transpose()?;
    let page: i64 = from.pragma_query_value(None, "page_size", |row| row.get(0))?;
    from.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;

    let mut copy = open(to, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
    // No other process reads the temporary file, and it is removed after a crash.
    copy.pragma_update(None, "synchronous", "OFF").map_err(failed)?;
    {
        let backup = Backup::new(from, &mut copy).map_err(failed)?;
        loop {
            let step = backup.step(STEP).map_err(failed)?;
            let now = backup.progress();
            let bytes = |pages: i32| i64::from(pages.max(0)).saturating_mul(page).cast_unsigned();
            progress(bytes(now.pagecount - now.remaining), bytes(now.pagecount));
            match step {
                StepResult::Done => break,
                StepResult::More => {}
                _ => {
                    return Err(Error::Busy {
                        path: to.to_owned(),
                        seconds: MAX_LOCK_WAIT.as_secs(),
                        holder: None,
                    });
                }
            }
        }
    }
    drop(moment);
    // Leaves one file with nothing beside it.
    copy.pragma_update(None, "journal_mode", "DELETE").map_err(failed)?;
    copy.close().map_err(|(_, error)| failed(error))
}

/// Opens a copy that no other process knows of, without SQLite's locks: they would conflict with
/// ours, and not every file system for backups has them.
pub(super) fn open(path: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let conn = Connection::open_with_flags_and_vfs(in_real_folder(path), flags, "unix-none")?;
    // Otherwise a write-ahead log would need shared memory beside the file.
    conn.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    Ok(conn)
}
