//! What stands at a ledger's path, and whether one can stand there.
//!
//! A file that is not ours, newer, or no SQLite file is refused before SQLite ever sees it, and left
//! untouched. How a new one comes to stand there: `building`.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};

use crate::base::sidecar::beside;
use crate::file::{open_files, schema};
use crate::{Error, Result};

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
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return refuse("it is a folder");
    }
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
    let read = open_files::unless_open(&meta, || {
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

/// The same name through no link but perhaps the last: SQLite refuses, where it is asked to refuse
/// one, a link to any folder above the file as well, and people's homes and disks are such links.
pub(crate) fn in_real_folder(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match (fs::canonicalize(folder.unwrap_or(Path::new("."))), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
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
    beside(path, &format!(".before-{}", crate::base::clock::now_ms()))
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

/// Waits until the disk has the names of a file's folder.
pub(crate) fn sync_folder(file: &Path) -> Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("write", folder))
}

/// Renames only if nothing has that name, not even since we looked.
pub(crate) fn rename_to_nothing(from: &Path, to: &Path) -> std::io::Result<()> {
    use rustix::fs::CWD;
    use rustix::io::Errno;
    match rustix::fs::renameat_with(CWD, from, CWD, to, rustix::fs::RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            // This file system has no such rename. A link is never made over anything either.
            match fs::hard_link(from, to) {
                Ok(()) => fs::remove_file(from),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
                // Nor links: what remains is to look once more.
                Err(_) if fs::symlink_metadata(to).is_err() => fs::rename(from, to),
                Err(_) => Err(ErrorKind::AlreadyExists.into()),
            }
        }
        renamed => Ok(renamed?),
    }
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
