//! Opens connections to a ledger's file: their settings, the checks before the first query, and the
//! errors of opening.
//!
//! Never writes a row.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::MAX_LOCK_WAIT;
use crate::base::sidecar::log_length;
use crate::file::ledger_path::in_real_folder;
use crate::file::open_files::OpenFile;
use crate::file::{companions, free_space, lock, read_only, schema};
use crate::{Error, Result, Trouble};

/// The number of attempts to open a ledger that is replaced while it is opened.
const MAX_OPEN_ATTEMPTS: usize = 8;

/// Opens the file at `path`. If another file is moved there at the same time, opens it again:
/// SQLite finds the log by name, and the log would belong to the other file.
pub(super) fn connect(
    path: &Path,
    access: OpenFlags,
    longest: Duration,
) -> Result<(Connection, OpenFile)> {
    free_space::check(path)?;
    let (conn, opened) = connect_as(path, &in_real_folder(path), access, longest)?;
    match opened.back_shared_memory(path) {
        Ok(()) => Ok((conn, opened)),
        Err(error) => {
            // The connection closes before the file's entry in the registry is removed.
            drop(conn);
            Err(error)
        }
    }
}

/// Opens the file at `path` for reading only, and returns whether it was opened as immutable. A
/// file is opened as immutable if no file can be created beside it and its log is empty.
pub(super) fn connect_to_read(
    path: &Path,
    longest: Duration,
) -> Result<(Connection, OpenFile, bool)> {
    let access = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let open_immutable = || {
        let name = read_only::immutable(&in_real_folder(path));
        let access = access | OpenFlags::SQLITE_OPEN_URI;
        let (conn, opened) = connect_as(path, &name, access, longest)?;
        Ok((conn, opened, true))
    };
    let is_unwritable = read_only::is_unwritable(path);
    if is_unwritable && read_only::is_quiescent(path) {
        return open_immutable();
    }
    let error = match connect(path, access, longest) {
        Err(error) => error,
        Ok((conn, opened)) => return Ok((conn, opened, false)),
    };
    // SQLite does not name the file that it may not open.
    companions::check_readable(path)?;
    // A disk that cannot be written to may also be full.
    let is_stopped = matches!(error.trouble(), Trouble::ReadOnly | Trouble::DiskFull);
    match log_length(path) {
        0 if error.trouble() == Trouble::DiskFull => open_immutable(),
        0 if is_stopped && is_unwritable => open_immutable(),
        _ if is_stopped && is_unwritable => Err(Error::HiddenLog { path: path.to_owned() }),
        _ => Err(error),
    }
}

/// Opens the file at `path`. SQLite opens it by `name`, which may be a URI.
fn connect_as(
    path: &Path,
    name: &Path,
    access: OpenFlags,
    longest: Duration,
) -> Result<(Connection, OpenFile)> {
    for _ in 0..MAX_OPEN_ATTEMPTS {
        let opened = OpenFile::at(path)?;
        let conn = Connection::open_with_flags(
            name,
            access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW,
        );
        let conn = conn.map_err(Error::from).and_then(|conn| {
            set_up_waiting(&conn, longest)?;
            // The first read opens the log.
            user_version(&conn)?;
            Ok(conn)
        });
        let conn = conn.map_err(|error| match or_no_room(error, path) {
            Error::Sqlite(error) => busy(error, path, longest),
            error => error,
        });
        if opened.is_at(path) {
            return Ok((conn?, opened));
        }
    }
    Err(Error::Replaced { path: path.to_owned() })
}

/// Applies the settings of every connection.
pub(crate) fn set_up(conn: &Connection) -> Result<()> {
    set_up_waiting(conn, MAX_LOCK_WAIT)
}

/// Applies the settings of every connection. Some of them read the file, and wait at most `longest`
/// for another writer.
fn set_up_waiting(conn: &Connection, longest: Duration) -> Result<()> {
    conn.busy_timeout(longest)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Without this setting, a statement that could use a partial index is planned again for every
    // value.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // The projection is written in any order; `quipu doctor` checks the references.
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    // A cache three times as large makes reads no faster and an import slower: it touches new
    // memory.
    conn.pragma_update(None, "cache_size", -8192)?;
    conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
    conn.pragma_update(None, "wal_autocheckpoint", 8192)?;
    conn.set_prepared_statement_cache_capacity(128);
    Ok(())
}

pub(super) fn user_version(conn: &Connection) -> Result<i64> {
    Ok(conn.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))?)
}

/// Refuses a file with a newer schema.
pub(super) fn refuse_newer(conn: &Connection, path: &Path) -> Result<()> {
    let (found, known) = (user_version(conn)?, schema::truth_version());
    if found > known {
        return Err(Error::Newer { path: path.to_owned(), found, known });
    }
    Ok(())
}

/// Turns an error into [`Error::NoRoom`] if a full disk may have caused it.
pub(super) fn or_no_room(error: Error, path: &Path) -> Error {
    match error {
        Error::Sqlite(error) if is_about_disk(&error) && free_space::is_nearly_full(path) => {
            Error::NoRoom { path: path.to_owned() }
        }
        error => error,
    }
}

/// Returns whether a full disk may have caused the error. SQLite reports it in several ways.
fn is_about_disk(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, DiskFull, SystemIoFailure};
    matches!(error.sqlite_error_code(), Some(CannotOpen | DiskFull | SystemIoFailure))
}

/// Turns a lock timeout of SQLite after `longest` into [`Error::Busy`].
pub(super) fn busy(error: rusqlite::Error, path: &Path, longest: Duration) -> Error {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
            let holder = lock::holder(path);
            Error::Busy { path: path.to_owned(), waited: longest, holder }
        }
        _ => Error::Sqlite(error),
    }
}

pub(super) fn assert_sqlite() -> Result<()> {
    if rusqlite::version_number() < schema::OLDEST_SQLITE {
        return Err(Error::damaged(format!(
            "built with SQLite {}, which can corrupt files; 3.51.3 or newer is required",
            rusqlite::version()
        )));
    }
    Ok(())
}
