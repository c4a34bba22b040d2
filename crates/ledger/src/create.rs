//! What stands at a ledger's path, and how a new one comes to stand there: whole, or not at all.
//!
//! A new ledger is built under another name and renamed into place, so a file of that name is
//! either complete or not ours. A file that is not ours, newer, or no SQLite file is refused
//! before SQLite ever sees it, and left untouched.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::beside::beside;
use crate::{Error, Result, opened, schema};

/// What stands at a ledger's path.
pub(crate) enum Found {
    Nothing,
    Ledger {
        /// It is written with a log beside it; a copy of one is not. `None` if that was not looked
        /// at because the file is open here.
        has_log: Option<bool>,
    },
}

/// Looks at the first bytes of the file, without SQLite.
pub(crate) fn inspect(path: &Path) -> Result<Found> {
    let refuse = |why: &str| Err(Error::NotALedger { path: path.to_owned(), why: why.to_owned() });
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(Error::io("look at", path)(error)),
    };
    let kind = meta.file_type();
    if kind.is_symlink() {
        return refuse("it is a symbolic link; name the file itself");
    }
    if kind.is_dir() {
        return refuse("it is a folder");
    }
    if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device() {
        return refuse("it is not a regular file");
    }
    let mut header = [0_u8; 100];
    let read = opened::unless_open(&meta, || {
        File::open(path)
            .map_err(Error::io("open", path))
            .map(|mut file| file.read_exact(&mut header))
    });
    // What is open as a ledger is one.
    let Some(read) = read else { return Ok(Found::Ledger { has_log: None }) };
    if let Err(error) = read? {
        return match error.kind() {
            ErrorKind::UnexpectedEof => refuse("it is too short to be one"),
            _ => Err(Error::io("read", path)(error)),
        };
    }
    if !header.starts_with(b"SQLite format 3\0") {
        return refuse("it is not an SQLite file");
    }
    let application_id = i32::from_be_bytes([header[68], header[69], header[70], header[71]]);
    if application_id != schema::APPLICATION_ID {
        return refuse("it is an SQLite file of another program");
    }
    // Which version of SQLite may write it: 2 if that needs a log.
    Ok(Found::Ledger { has_log: Some(header[18] == 2) })
}

/// Builds a new ledger under another name and renames it into place.
pub(crate) fn create(path: &Path) -> Result<()> {
    remove_unfinished(path);
    let mut building = path.as_os_str().to_owned();
    building.push(format!(".new-{}", std::process::id()));
    let building = PathBuf::from(building);
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&building)
        .map_err(Error::io("create", &building))?;
    let made = fill(&building)
        .and_then(|()| set_log_aside(path, &aside_now(path)))
        .and_then(|()| fs::rename(&building, path).map_err(Error::io("rename", &building)));
    if made.is_err() {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let _ = fs::remove_file(beside(&building, suffix));
        }
    }
    made
}

/// Removes what processes left behind that were killed while they built a ledger. The lock is held.
fn remove_unfinished(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
    let mut prefix = name.as_encoded_bytes().to_vec();
    prefix.extend_from_slice(b".new-");
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(&prefix) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes the empty ledger.
fn fill(path: &Path) -> Result<()> {
    let mut conn = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    // Nobody sees the file before it is whole: it is synced once, at the end.
    conn.pragma_update(None, "synchronous", "OFF")?;
    conn.pragma_update(None, "page_size", 8192)?;
    conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    conn.pragma_update(None, "application_id", schema::APPLICATION_ID)?;
    let mode: String =
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(Error::NotALedger {
            path: path.to_owned(),
            why: "its file system cannot hold a write-ahead log".to_owned(),
        });
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    schema::migrate_truth(&tx, 0)?;
    schema::create_projection(&tx)?;
    tx.execute(
        "INSERT INTO ledger (id, ledger_id, epoch, created_at, projection_version, projected_to)
         VALUES (1, ?1, ?2, ?3, ?4, 0)",
        (
            uuid::Uuid::new_v4().to_string(),
            uuid::Uuid::new_v4().to_string(),
            crate::clock::now_ms(),
            schema::projection_version(),
        ),
    )?;
    crate::journal::create(&tx)?;
    tx.commit()?;
    // Closing writes the log back too, but does not say so if it cannot, and the log would stay
    // behind under the old name.
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    conn.close().map_err(|(_, error)| error)?;
    File::open(path).and_then(|file| file.sync_all()).map_err(Error::io("sync", path))
}

/// Makes sure that a ledger can stand at `path`.
pub(crate) fn make_room(path: &Path) -> Result<()> {
    create_folder(path)?;
    refuse_remote(path)
}

/// Moves a log away whose ledger is gone or about to go: SQLite finds logs by their name alone, and
/// would apply it to the next ledger of that name. What is in it is kept as the log of `aside`.
pub(crate) fn set_log_aside(path: &Path, aside: &Path) -> Result<()> {
    for suffix in ["-wal", "-journal"] {
        let log = beside(path, suffix);
        match fs::rename(&log, beside(aside, suffix)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::io("rename", log)(error));
            }
            _ => {}
        }
    }
    let _ = fs::remove_file(beside(path, "-shm"));
    Ok(())
}

/// What a log that is put aside now is the log of.
pub(crate) fn aside_now(path: &Path) -> PathBuf {
    beside(path, &format!(".before-{}", crate::clock::now_ms()))
}

/// Creates the ledger's folder, for its owner only.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    if folder.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(Error::io("create folder", folder))
}

/// File systems of other machines, by the number that Linux gives them: NFS, SMB, CIFS, SMB2, AFS, 9p.
#[cfg(target_os = "linux")]
const REMOTE: &[u64] = &[0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x5346_414F, 0x0102_1997];

/// A write-ahead log needs memory shared between processes, which no other machine can share.
#[cfg(target_os = "linux")]
pub(crate) fn refuse_remote(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(stat) = rustix::fs::statfs(folder.unwrap_or(Path::new("."))) else { return Ok(()) };
    // The kernel's type is 32 bits wide; some platforms sign-extend it.
    if REMOTE.contains(&(stat.f_type as u64 & 0xFFFF_FFFF)) {
        return Err(Error::NotALedger {
            path: path.to_owned(),
            why: "it is on a network file system, which cannot hold one safely".to_owned(),
        });
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn refuse_remote(_: &Path) -> Result<()> {
    Ok(())
}
