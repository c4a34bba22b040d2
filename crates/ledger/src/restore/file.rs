//! Writes one life of a source to a new file, where its path leads and nowhere else.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use crate::forget::BlankLines;
use crate::ids::{GenerationId, SourceId};
use crate::{Error, Result, damaged, indexes, spans};

/// A stored path leads down and nowhere else.
pub(crate) fn safe(path: &[u8]) -> Result<PathBuf> {
    let path = Path::new(OsStr::from_bytes(path));
    let is_safe = path.components().all(|part| matches!(part, Component::Normal(_)))
        && !path.as_os_str().is_empty();
    if is_safe {
        Ok(path.to_owned())
    } else {
        Err(Error::damaged("a stored path that leads out of its root".to_owned()))
    }
}

/// Which bytes of a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bytes {
    /// Its lines.
    Lines,
    /// The compressed file, as it was.
    AsFound,
}

/// Writes one generation to a new file.
pub(super) fn write(
    conn: &Connection,
    (source, generation, what): (SourceId, GenerationId, Bytes),
    mtime_ns: i64,
    target: &Path,
    blanks: &mut BlankLines,
) -> Result<u64> {
    if let Some(folder) = target.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(Error::io("create folder", folder))?;
    }
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(target)
        .map_err(Error::io("create", target))?;
    let mut out = BufWriter::new(&file);
    let mut bytes = 0;
    let mut put = |part: &[u8]| {
        bytes += part.len() as u64;
        blanks.add(part);
        out.write_all(part).map_err(Error::io("write", target))
    };
    let written = match what {
        Bytes::AsFound => damaged::stream(conn, generation, &mut put),
        Bytes::Lines => spans::stream(conn, generation, &mut put)
            .and_then(|()| spans::stream_tail(conn, generation, &mut put))
            .and_then(|()| match indexes::load(conn, source)? {
                Some(bytes) => put(&bytes),
                None => Ok(()),
            }),
    };
    let written = written.and_then(|()| out.flush().map_err(Error::io("write", target)));
    if let Err(error) = written {
        // Half a file must not pass for a whole one.
        let _ = fs::remove_file(target);
        return Err(error);
    }
    set_modified(&file, mtime_ns);
    Ok(bytes)
}

/// The file's own time, where the file system can hold it.
fn set_modified(file: &File, mtime_ns: i64) {
    if let Ok(nanoseconds) = u64::try_from(mtime_ns) {
        let _ = file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds));
    }
}
