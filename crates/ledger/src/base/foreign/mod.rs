//! Opens files and folders that other programs own: the only door to a source.
//!
//! ```text
//! links        resolved as text first; the result has to be inside the root and not denied there
//! opening      below a handle of the root, following no link at all (below.rs)
//! hard links   a file of several names is opened only if its inode was vetted (denied.rs)
//! kinds        regular files only, and never waiting for the writer of a pipe
//! ```
//!
//! So a folder or file that another process exchanges for a link at any moment is not followed: the
//! kernel refuses it. Nothing here is ever opened for writing.

mod below;
mod denied;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use quipu_transcript::names;
use rustix::fs::OFlags;

pub(crate) use below::{Entry, Folder, Kind, Meta};
pub(crate) use denied::{denied_files, state_folder};

/// A file's device and inode.
pub(crate) type FileId = (u64, u64);

/// Opens the source at `path`, which is below the real path `root`. Links that lead to a place
/// inside the root are followed.
///
/// A file of several names is opened only if it is `vetted`: the one that was found there and
/// compared with every file whose name is denied.
pub(crate) fn open(root: &Path, path: &Path, vetted: FileId) -> io::Result<File> {
    let real = std::fs::canonicalize(path)?;
    let inside = allowed(root, &real)?;
    let file = Folder::root(root)?.file(inside)?;
    let meta = Meta::of_file(&file)?;
    if meta.links > 1 && meta.file() != vetted {
        return Err(io::Error::other("it was replaced by a hard link since it was found"));
    }
    Ok(file)
}

/// Opens the folder at `path`, under the same rules.
pub(crate) fn open_folder(root: &Path, path: &Path) -> io::Result<Folder> {
    let real = std::fs::canonicalize(path)?;
    Folder::root(root)?.folder(allowed(root, &real)?)
}

/// Returns where a real path is inside the root, if it may be opened at all.
fn allowed<'p>(root: &Path, real: &'p Path) -> io::Result<&'p Path> {
    real.strip_prefix(root)
        .ok()
        .filter(|inside| !names::is_denied(inside.as_os_str().as_bytes()))
        .ok_or_else(|| io::Error::other("it leads out of its root"))
}

/// Reads a file that a person named, links included. Fails for anything but a regular file of at
/// most `most` bytes.
pub fn read_named_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = flags.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(below::no_regular_file());
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("larger than {most} bytes")));
    }
    Ok(bytes)
}

/// Returns whether this process has the file open more than once: by a handle that was opened here,
/// and by a library that opened it by its path. Without `/proc` that cannot be seen, and is believed.
pub(crate) fn is_open_twice(file: FileId) -> bool {
    let Ok(handles) = std::fs::read_dir("/proc/self/fd") else { return true };
    let is_it =
        |path: &Path| std::fs::metadata(path).is_ok_and(|meta| (meta.dev(), meta.ino()) == file);
    handles.flatten().filter(|handle| is_it(&handle.path())).count() > 1
}
