//! Opens files and folders that other programs own. Every source is opened through this module.
//!
//! ```text
//! links        resolved to a real path first, which has to be inside the root and not denied there
//! opening      below a handle of the root, following no link at all (below.rs)
//! hard links   a file with several names is opened only if its inode was vetted (denied.rs)
//! kinds        regular files only, and never waiting for the writer of a pipe
//! ```
//!
//! If another process swaps a folder or file for a link in between, the kernel refuses to open it.
//! Never opens anything for writing.

mod below;
mod denied;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use quipu_transcript::names;
use rustix::fs::OFlags;

pub(crate) use below::{Entry, FileKind, Folder, Meta};
pub(crate) use denied::{denied_files, state_folder};

/// A file's device and inode.
pub(crate) type FileId = (u64, u64);

/// Opens the source at `path`, which is below the real path `root`. Links to a file inside the root
/// are followed.
///
/// A file with several names is opened only if it is `vetted`: discovery compared that inode with
/// every file whose name is denied.
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

/// Opens the folder at `path`, which is below the real path `root`, as [`open`] opens a file.
pub(crate) fn open_folder(root: &Path, path: &Path) -> io::Result<Folder> {
    let real = std::fs::canonicalize(path)?;
    Folder::root(root)?.folder(allowed(root, &real)?)
}

/// Returns the path of `real` relative to the root. A path outside of the root, or with a denied
/// name, is an error.
fn allowed<'p>(root: &Path, real: &'p Path) -> io::Result<&'p Path> {
    real.strip_prefix(root)
        .ok()
        .filter(|inside| !names::is_denied(inside.as_os_str().as_bytes()))
        .ok_or_else(|| io::Error::other("it is a link out of its root"))
}

/// Reads a file that a person named, following links. Fails for anything but a regular file of at
/// most `most` bytes.
pub fn read_named_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = flags.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(below::not_a_regular_file());
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("larger than {most} bytes")));
    }
    Ok(bytes)
}

/// Returns whether this process has the file open more than once: through a handle of this module
/// and by a library that opened the path itself. Returns true where there is no `/proc`.
pub(crate) fn is_open_twice(file: FileId) -> bool {
    let Ok(handles) = std::fs::read_dir("/proc/self/fd") else { return true };
    let is_it =
        |path: &Path| std::fs::metadata(path).is_ok_and(|meta| (meta.dev(), meta.ino()) == file);
    handles.flatten().filter(|handle| is_it(&handle.path())).count() > 1
}
