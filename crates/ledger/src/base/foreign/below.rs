//! A handle of a folder, and the files below it: opened without following a link in any component.
//!
//! Linux resolves the whole path in one call (`openat2`). Other systems, and sandboxes that block
//! that call, open one component after another. Never opens anything for writing.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use super::FileId;

/// Flags for opening a folder.
const FOLDER_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// Flags for opening a folder between the root and the target. Permission to pass through is
/// enough.
#[cfg(target_os = "linux")]
const PASS_THROUGH_FLAGS: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const PASS_THROUGH_FLAGS: OFlags = FOLDER_FLAGS;

/// Flags for opening a file. `NONBLOCK`: a pipe without a writer must not block the process.
const FILE_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// The kind of an entry in a folder. Links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    File,
    Folder,
    Link,
    Other,
}

impl FileKind {
    fn of(kind: FileType) -> FileKind {
        match kind {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Folder,
            FileType::Symlink => FileKind::Link,
            _ => FileKind::Other,
        }
    }
}

/// The metadata of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) kind: FileKind,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) links: u64,
    pub(crate) size: u64,
    pub(crate) mtime_ns: i64,
    pub(crate) ctime_ns: i64,
}

impl Meta {
    /// Returns the file's device and inode.
    pub(crate) fn file(&self) -> FileId {
        (self.device, self.inode)
    }

    /// Returns the metadata of an open file.
    pub(crate) fn of_file(file: &File) -> io::Result<Meta> {
        Ok(Meta::of(&fstat(file)?))
    }

    #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "the types differ by system")]
    fn of(stat: &rustix::fs::Stat) -> Meta {
        let nanoseconds =
            |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Meta {
            kind: FileKind::of(FileType::from_raw_mode(stat.st_mode)),
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            links: stat.st_nlink as u64,
            size: stat.st_size as u64,
            mtime_ns: nanoseconds(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            ctime_ns: nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}

/// An entry of a folder.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: FileKind,
}

/// An open folder. Renaming or replacing it does not change which folder this handle refers to.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

impl Folder {
    /// Opens a folder by its real path.
    pub(crate) fn root(path: &Path) -> io::Result<Folder> {
        #[cfg(target_os = "linux")]
        if let Ok(inside) = path.strip_prefix("/") {
            let top = openat(CWD, "/", PASS_THROUGH_FLAGS, Mode::empty())?;
            match at_once(top.as_fd(), or_here(inside), FOLDER_FLAGS) {
                Err(Errno::NOSYS | Errno::PERM) => {}
                opened => return opened.map(Folder).map_err(explain),
            }
        }
        openat(CWD, path, FOLDER_FLAGS, Mode::empty()).map(Folder).map_err(explain)
    }

    /// Opens a folder below this one.
    pub(crate) fn folder(&self, path: &Path) -> io::Result<Folder> {
        below(self.0.as_fd(), path, FOLDER_FLAGS).map(Folder)
    }

    /// Opens a regular file below this folder.
    pub(crate) fn file(&self, path: &Path) -> io::Result<File> {
        let file = File::from(below(self.0.as_fd(), path, FILE_FLAGS)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(not_a_regular_file()) }
    }

    /// Returns the metadata of an entry of this folder.
    pub(crate) fn look(&self, name: &OsStr) -> io::Result<Meta> {
        Ok(Meta::of(&statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Returns the metadata of a file below this folder. A link on the way is an error.
    pub(crate) fn look_below(&self, path: &Path) -> io::Result<Meta> {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => {
                self.folder(parent)?.look(name)
            }
            (_, Some(name)) => self.look(name),
            _ => self.look(OsStr::new(".")),
        }
    }

    /// Returns the metadata of an entry, following a link. Only for comparing inodes: the target
    /// may be anywhere.
    pub(super) fn look_through(&self, name: &OsStr) -> io::Result<Meta> {
        Ok(Meta::of(&statat(&self.0, name, AtFlags::empty())?))
    }

    /// Lists this folder. After an error, returns the entries before it together with the error.
    pub(crate) fn list(&self) -> (Vec<Entry>, Option<io::Error>) {
        let mut entries = Vec::new();
        let failed = self.each(&mut |entry| entries.push(entry)).err();
        (entries, failed)
    }

    fn each(&self, each: &mut dyn FnMut(Entry)) -> io::Result<()> {
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not report the kind.
                FileType::Unknown => self.look(&name).map_or(FileKind::Other, |meta| meta.kind),
                kind => FileKind::of(kind),
            };
            each(Entry { name, kind });
        }
        Ok(())
    }
}

/// Returns the error for a pipe, socket, device or folder where a file is expected.
pub(super) fn not_a_regular_file() -> io::Error {
    io::Error::other("not a regular file")
}

/// Opens a path of plain components below `folder`.
fn below(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let path = or_here(path);
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !path.components().all(is_plain) {
        return Err(io::Error::other("it is a link out of its root"));
    }
    #[cfg(target_os = "linux")]
    match at_once(folder, path, flags) {
        // An old kernel, or a sandbox that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return opened.map_err(explain),
    }
    one_by_one(folder, path, flags).map_err(explain)
}

/// Opens the whole path in one call, following no link.
#[cfg(target_os = "linux")]
fn at_once(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(folder, path, flags, Mode::empty(), resolve)
}

/// Opens one component after another, following no link.
fn one_by_one(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut at: Option<OwnedFd> = None;
    let mut parts = path.as_os_str().as_bytes().split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let flags = if is_last { flags } else { PASS_THROUGH_FLAGS };
        let above = at.as_ref().map_or(folder, AsFd::as_fd);
        at = Some(openat(above, OsStr::from_bytes(part), flags, Mode::empty())?);
    }
    at.ok_or(Errno::NOENT)
}

/// Returns `.` for an empty path, and any other path unchanged.
fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// Returns an error that names a link on the path as the cause.
fn explain(error: Errno) -> io::Error {
    match error {
        Errno::LOOP | Errno::XDEV => io::Error::other("there is a link on the way to it"),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Opens the path with `one_by_one` and, where it exists, with `at_once`. Returns which results
    /// occurred: a single element if both agree.
    fn opens_both_ways(folder: &Folder, path: &str) -> Vec<bool> {
        let one = one_by_one(folder.0.as_fd(), Path::new(path), FILE_FLAGS).is_ok();
        let mut is_open = vec![one];
        #[cfg(target_os = "linux")]
        match at_once(folder.0.as_fd(), Path::new(path), FILE_FLAGS) {
            Err(Errno::NOSYS | Errno::PERM) => {}
            opened => is_open.push(opened.is_ok()),
        }
        is_open.dedup();
        is_open
    }

    #[test]
    fn neither_way_of_opening_follows_a_link() {
        let home = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(home.path()).unwrap();
        std::fs::create_dir_all(real.join("root/a/b")).unwrap();
        std::fs::write(real.join("root/a/b/c"), "x").unwrap();
        std::fs::write(real.join("outside"), "x").unwrap();
        symlink("b", real.join("root/a/inside")).unwrap();
        symlink(&real, real.join("root/away")).unwrap();
        symlink("c", real.join("root/a/b/d")).unwrap();
        let root = Folder::root(&real.join("root")).unwrap();
        assert_eq!(opens_both_ways(&root, "a/b/c"), [true]);
        for path in ["a/inside/c", "away/outside", "a/b/d", "a/b/none", "a/b/c/d"] {
            assert_eq!(opens_both_ways(&root, path), [false], "{path}");
        }
        assert!(root.file(Path::new("../outside")).is_err());
        assert!(root.file(Path::new("a/b")).is_err());
        assert!(root.folder(Path::new("")).is_ok());
        assert!(Folder::root(&real.join("root/away")).is_err());
    }
}
