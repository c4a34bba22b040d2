//! Writes files beneath a folder, and nowhere else.
//!
//! The folder is opened once, by the path that a person named. Every file beneath it is reached
//! from that handle, component by component, and no symbolic link is followed, even one that
//! another process swaps in at that moment. A file is written under a temporary name and renamed
//! when it is complete. An existing file is replaced only on request; a link or a folder is never
//! replaced. Lines can also be appended to a file.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// A folder that files are written beneath.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    folder: OwnedFd,
}

/// The treatment of an existing file with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// The existing file stays, and keeping the new one is an error.
    Stays,
    /// The existing file is replaced. A link or a folder is an error.
    IsReplaced,
}

impl Target {
    /// Opens a folder, creating it if it is absent.
    ///
    /// Links in `path` are followed: a person chose it.
    pub fn open(path: &Path) -> io::Result<Target> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Target { path: path.to_owned(), folder })
    }

    /// Returns the path that the folder was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins a file at a path below the folder, creating the folders between them.
    pub fn create(&self, path: &Path) -> io::Result<NewFile> {
        let (folder, name) = self.folder_of(path, IfAbsent::Create)?;
        let temporary = OsString::from(format!(".quipu-{}", uuid::Uuid::new_v4().simple()));
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(NewFile { folder, temporary: Some(temporary), name, file: File::from(file) })
    }

    /// Opens the file at a path below the folder; `None` if nothing is there.
    ///
    /// Anything but a regular file is an error. A pipe does not block.
    pub fn read(&self, path: &Path) -> io::Result<Option<File>> {
        let opened = self.folder_of(path, IfAbsent::Fail).and_then(|(folder, name)| {
            let kind = stat_of(&folder, &name)?;
            if kind != FileType::RegularFile {
                return Err(in_the_way(kind));
            }
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::openat(&folder, &name, flags, Mode::empty())?);
            // Another process may have swapped the file after the check.
            if !file.metadata()?.is_file() {
                return Err(in_the_way(FileType::Unknown));
            }
            Ok(file)
        });
        match opened {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the whole file at a path below the folder, if it is no longer than `most`.
    pub fn read_all(&self, path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.read(path)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > most {
            true => Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large")),
            false => Ok(Some(bytes)),
        }
    }

    /// Appends a text and a newline to the file at a path below the folder, in one write, and syncs
    /// it. Returns the number of bytes written.
    ///
    /// Creates the file and the folders between them, for the owner only. Begins on a new line if the
    /// last one has no end. Anything but a regular file is an error.
    pub fn append_line(&self, path: &Path, text: &str) -> io::Result<usize> {
        let (folder, name) = self.folder_of(path, IfAbsent::Create)?;
        match stat_of(&folder, &name) {
            Ok(FileType::RegularFile) => {}
            Ok(kind) => return Err(in_the_way(kind)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let flags = OFlags::RDWR
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&folder, &name, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(opened);
        let about = file.metadata()?;
        // Another process may have swapped the file after the check.
        if !about.is_file() {
            return Err(in_the_way(FileType::Unknown));
        }
        let mut last = [b'\n'];
        if let Some(end) = about.len().checked_sub(1) {
            file.read_at(&mut last, end)?;
        }
        let gap = if last == *b"\n" { "" } else { "\n" };
        let line = format!("{gap}{text}\n");
        let written = file.write(line.as_bytes())?;
        if written < line.len() {
            return Err(io::Error::new(io::ErrorKind::WriteZero, "only a part was written"));
        }
        file.sync_data()?;
        Ok(written)
    }

    /// Opens the parent folder of a path, and returns it with the last component.
    fn folder_of(&self, path: &Path, if_absent: IfAbsent) -> io::Result<(OwnedFd, OsString)> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "the path leaves its folder");
        let mut parts = Vec::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => parts.push(name),
                _ => return Err(invalid()),
            }
        }
        let name = parts.pop().ok_or_else(invalid)?;
        let mut folder = self.folder.try_clone()?;
        for part in parts {
            folder = step(&folder, part, if_absent)?;
        }
        Ok((folder, name.to_owned()))
    }
}

/// The treatment of an absent folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfAbsent {
    Create,
    Fail,
}

/// Opens a folder inside a folder.
fn step(folder: &OwnedFd, name: &OsStr, if_absent: IfAbsent) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(folder, name, flags, Mode::empty());
    let opened = match open() {
        Err(Errno::NOENT) if if_absent == IfAbsent::Create => {
            match rustix::fs::mkdirat(folder, name, Mode::RWXU) {
                // Another process may have created it at the same moment.
                Ok(()) | Err(Errno::EXIST) => open(),
                Err(error) => Err(error),
            }
        }
        opened => opened,
    };
    opened.map_err(|error| match (error, stat_of(folder, name)) {
        (Errno::NOTDIR | Errno::LOOP | Errno::MLINK, Ok(kind)) => in_the_way(kind),
        (error, _) => error.into(),
    })
}

/// Returns the kind of file with that name, without following a link.
fn stat_of(folder: &OwnedFd, name: &OsStr) -> io::Result<FileType> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// Returns the error for something other than the expected file or folder.
fn in_the_way(kind: FileType) -> io::Error {
    let what = match kind {
        FileType::Symlink => "a symbolic link is in the way; it is not followed",
        FileType::Directory => "a folder is in the way",
        FileType::RegularFile => "a file is in the way",
        _ => "something that is not a file is in the way",
    };
    io::Error::new(io::ErrorKind::AlreadyExists, what)
}

/// A file under a temporary name. Dropping it removes the file.
#[derive(Debug)]
pub struct NewFile {
    folder: OwnedFd,
    /// `None` once the file has its final name.
    temporary: Option<OsString>,
    name: OsString,
    file: File,
}

impl NewFile {
    /// Returns the open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Sets the modification time, in nanoseconds since 1970, where the file system supports it.
    pub fn set_modified(&self, mtime_ns: i64) {
        if let Ok(nanoseconds) = u64::try_from(mtime_ns) {
            let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds);
            let _ = self.file.set_modified(time);
        }
    }

    /// Renames the file to its final name.
    pub fn keep(mut self, existing: Existing) -> io::Result<()> {
        let Some(temporary) = self.temporary.as_deref() else { return Ok(()) };
        let (folder, name) = (&self.folder, &self.name);
        if existing == Existing::IsReplaced {
            match stat_of(folder, name) {
                Ok(FileType::RegularFile) => {
                    rustix::fs::renameat(folder, temporary, folder, name)?;
                    self.temporary = None;
                    return Ok(());
                }
                Ok(kind) => return Err(in_the_way(kind)),
                Err(_) => {}
            }
        }
        match rustix::fs::renameat_with(folder, temporary, folder, name, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            // The file system has no such rename. Creating a link also fails if the name is taken.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::linkat(folder, temporary, folder, name, AtFlags::empty())?;
                let _ = rustix::fs::unlinkat(folder, temporary, AtFlags::empty());
            }
            Err(Errno::EXIST) => {
                return Err(match stat_of(folder, name) {
                    Ok(FileType::RegularFile) | Err(_) => Errno::EXIST.into(),
                    Ok(kind) => in_the_way(kind),
                });
            }
            Err(error) => return Err(error.into()),
        }
        self.temporary = None;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = rustix::fs::unlinkat(&self.folder, temporary, AtFlags::empty());
        }
    }
}
