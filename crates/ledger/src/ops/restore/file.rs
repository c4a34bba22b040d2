//! Writes one generation of a source to a new file below the target folder, and nowhere else.
//!
//! Never overwrites a file and never follows a link.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rusqlite::Connection;

use crate::base::ids::{GenerationId, SourceId};
use crate::base::target::{Existing, Target};
use crate::truth::forgotten::shared_lines::BlankLines;
use crate::truth::{damaged, indexes, spans, tails};
use crate::{Error, Result};

/// Returns a stored path if it only leads downwards.
pub(crate) fn safe(path: &[u8]) -> Result<PathBuf> {
    let path = Path::new(OsStr::from_bytes(path));
    let is_safe = path.components().all(|part| matches!(part, Component::Normal(_)))
        && !path.as_os_str().is_empty();
    if is_safe {
        Ok(path.to_owned())
    } else {
        Err(Error::damaged("a stored path is outside its root".to_owned()))
    }
}

/// The kind of a generation's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bytes {
    /// The lines.
    Lines,
    /// The compressed file as it was.
    AsFound,
}

/// A generation of a source, and the kind of its bytes.
pub(super) type Content = (SourceId, GenerationId, Bytes);

/// The result of writing a file, with its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Anew(u64),
    /// The file existed before with the same bytes.
    There(u64),
}

/// Writes one generation to a new file below `target`. Never overwrites a file.
pub(super) fn write(
    conn: &Connection,
    content: Content,
    mtime_ns: i64,
    (target, path): (&Target, &Path),
    blanks: &mut BlankLines,
) -> Result<Written> {
    let whole = target.path().join(path);
    if let Some(there) = target.read(path).map_err(Error::io("create", &whole))? {
        return compare(conn, content, there, &whole);
    }
    let new = target.create(path).map_err(Error::io("create", &whole))?;
    let mut out = BufWriter::new(new.file());
    let mut bytes = 0;
    stream(conn, content, &mut |part| {
        bytes += part.len() as u64;
        blanks.add(part);
        out.write_all(part).map_err(Error::io("write", &whole))
    })?;
    out.flush().map_err(Error::io("write", &whole))?;
    drop(out);
    new.set_modified(mtime_ns);
    new.keep(Existing::Stays).map_err(Error::io("create", &whole))?;
    Ok(Written::Anew(bytes))
}

/// Compares an existing file with the bytes that would be written.
fn compare(conn: &Connection, content: Content, there: File, whole: &Path) -> Result<Written> {
    let mut there = BufReader::with_capacity(1 << 16, there);
    let (mut bytes, mut is_same, mut buffer) = (0, true, Vec::new());
    let streamed = stream(conn, content, &mut |part| {
        bytes += part.len() as u64;
        buffer.resize(part.len(), 0);
        is_same = there.read_exact(&mut buffer).is_ok() && buffer == part;
        // Any error ends the reading; this one is discarded below.
        if is_same { Ok(()) } else { Err(Error::Stopped) }
    });
    if is_same {
        streamed?;
        is_same = matches!(there.read(&mut [0]), Ok(0));
    }
    if is_same {
        return Ok(Written::There(bytes));
    }
    let source = io::Error::new(
        io::ErrorKind::AlreadyExists,
        "another file with that name exists; it was not overwritten",
    );
    Err(Error::Io { action: "create", path: whole.to_owned(), source })
}

/// Calls `each` with the bytes of a generation, piece by piece.
fn stream(
    conn: &Connection,
    (source, generation, what): Content,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    match what {
        Bytes::AsFound => damaged::stream(conn, generation, each),
        Bytes::Lines => {
            spans::stream(conn, generation, each)?;
            tails::stream(conn, generation, each)?;
            match indexes::load(conn, source)? {
                Some(bytes) => each(&bytes),
                None => Ok(()),
            }
        }
    }
}
