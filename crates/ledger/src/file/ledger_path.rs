//! The path of a ledger: which file is there, and whether a ledger may be there.
//!
//! A file of another program, or without SQLite's header, is refused before SQLite opens it, and
//! left untouched. Creating a ledger is the job of `building`.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};

use crate::base::sidecar::beside;
use crate::file::{companions, open_files, schema};
use crate::{Error, Result};

/// The file found at a ledger's path.
pub(crate) enum FoundAtPath {
    Nothing,
    Ledger {
        /// True if the file uses a write-ahead log; a backup does not. `None` if the file is open
        /// in this process, so that its header may not be read.
        has_log: Option<bool>,
    },
}

/// Inspects the first bytes of the file, without SQLite.
pub(crate) fn inspect(path: &Path) -> Result<FoundAtPath> {
    let refuse = |why: &str| Err(Error::NotALedger { path: path.to_owned(), why: why.to_owned() });
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return refuse("it is a folder");
    }
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            companions::check_kinds(path)?;
            return Ok(FoundAtPath::Nothing);
        }
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
    // This process has the file open as a ledger, so its header was checked before.
    let Some(read) = read else {
        companions::check_kinds(path)?;
        return Ok(FoundAtPath::Ledger { has_log: None });
    };
    if let Err(error) = read? {
        return match error.kind() {
            ErrorKind::UnexpectedEof => refuse("it is too short"),
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
    companions::check_kinds(path)?;
    // The file format's write version: 2 means a write-ahead log.
    Ok(FoundAtPath::Ledger { has_log: Some(header[18] == 2) })
}

/// Returns the path with every link resolved except the last component. SQLite's `NOFOLLOW` refuses
/// links in folders as well, and people's homes and disks often are such links.
pub(crate) fn in_real_folder(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match (fs::canonicalize(folder.unwrap_or(Path::new("."))), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Creates the folder of `path`, and refuses one on a network file system.
pub(crate) fn make_room(path: &Path) -> Result<()> {
    create_folder(path)?;
    refuse_remote(path)
}

/// Renames the log of a ledger that is gone or about to go. SQLite finds logs by name and would
/// apply it to the next ledger at that path. The records in it are kept as the log of `aside`.
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

/// Returns the name to keep a log under from now on, with the current time in it.
pub(crate) fn name_for_log(path: &Path) -> PathBuf {
    beside(path, &format!(".before-{}", crate::base::clock::now_ms()))
}

/// Creates the ledger's folder, accessible to its owner only.
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

/// Syncs the folder of a file, so that the file's name survives a crash.
pub(crate) fn sync_folder(file: &Path) -> Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("write", folder))
}

/// Renames a file only if the new name is free, without a gap between check and rename.
pub(crate) fn rename_if_free(from: &Path, to: &Path) -> std::io::Result<()> {
    use rustix::fs::CWD;
    use rustix::io::Errno;
    match rustix::fs::renameat_with(CWD, from, CWD, to, rustix::fs::RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            // This file system has no such rename. Creating a link also fails if the name is taken.
            match fs::hard_link(from, to) {
                Ok(()) => fs::remove_file(from),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
                // It has no links either, so a check before the rename has to do.
                Err(_) if fs::symlink_metadata(to).is_err() => fs::rename(from, to),
                Err(_) => Err(ErrorKind::AlreadyExists.into()),
            }
        }
        renamed => Ok(renamed?),
    }
}

/// Linux's magic numbers of network file systems: NFS, SMB, CIFS, SMB2, AFS, 9p.
#[cfg(target_os = "linux")]
const REMOTE_FILE_SYSTEMS: &[u64] =
    &[0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x5346_414F, 0x0102_1997];

/// Refuses a network file system: a write-ahead log needs memory that all processes share, and
/// machines cannot share it.
#[cfg(target_os = "linux")]
pub(crate) fn refuse_remote(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(stat) = rustix::fs::statfs(folder.unwrap_or(Path::new("."))) else { return Ok(()) };
    // The kernel's type is 32 bits wide; some platforms sign-extend it.
    if REMOTE_FILE_SYSTEMS.contains(&(stat.f_type as u64 & 0xFFFF_FFFF)) {
        return Err(Error::NotALedger {
            path: path.to_owned(),
            why: "it is on a network file system, where SQLite is not safe".to_owned(),
        });
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn refuse_remote(_: &Path) -> Result<()> {
    Ok(())
}
