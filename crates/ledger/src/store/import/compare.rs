//! Compares a session to import with the stored session of the same id.
//!
//! Only reads: never changes a stored line.

use std::borrow::Cow;

use quipu_transcript::stringify;
use rusqlite::{Connection, OptionalExtension};

use super::super::sessions::NativeSession;
use super::super::work::FORMAT;
use super::batch::StoredSession;
use super::path_of;
use super::read::{Content, Folder, Group};
use crate::base::ids::SessionRow;
use crate::truth::chunks::RecordReader;
use crate::truth::spans;
use crate::wire::ImportedFile;
use crate::{Error, Result};

/// Returns the session with that id, by the path of its source. The session need not be projected
/// yet.
pub(super) fn known(conn: &Connection, agent: &str, id: &str) -> Result<Option<NativeSession>> {
    let path = path_of(agent, id)?;
    let found: Option<(_, Option<_>, bool)> = conn
        .prepare_cached(
            "SELECT id, generation, refused IS NOT NULL FROM sources
              WHERE format = ?1 AND root = x'' AND path = ?2",
        )?
        .query_row((FORMAT.name(), path.as_bytes()), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    match found {
        None => Ok(None),
        Some((source, Some(generation), false)) => Ok(Some(NativeSession {
            row: SessionRow(0),
            agent: agent.to_owned(),
            id: id.to_owned(),
            source,
            generation,
            origin: FORMAT.origin(path.as_bytes()),
        })),
        Some(_) => Err(Error::refused("the session was forgotten here")),
    }
}

/// The stored session to which lines are added, and the number of lines that it has already.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub(super) known: StoredSession,
    pub(super) lines: u64,
}

/// Compares the lines of the stored session with those of the files. Fails if they differ in
/// another way than their spelling: OpenClaw's database and an export write the same values in
/// other bytes.
pub(super) fn compare(
    reader: &mut RecordReader<'_>,
    folder: &Folder<'_>,
    group: &Group,
    content: &Content,
    known: Option<NativeSession>,
) -> Result<Compared> {
    let Some(session) = known else { return Ok(Compared::default()) };
    let mut stored = Prefix::of(content.rows.iter().sum());
    let mut bytes = 0;
    spans::stream_from(reader, session.generation, &mut |part| {
        bytes += part.len() as u64;
        stored.add(part);
        Ok(())
    })?;
    let mut incoming = Prefix::of(stored.lines);
    folder.each(group, content, &mut |_, line| {
        incoming.add(line);
        Ok(())
    })?;
    // The files may have fewer lines, if the session has grown since an earlier import.
    let mut again = Prefix::of(incoming.lines);
    if incoming.lines < stored.lines {
        spans::stream_from(reader, session.generation, &mut |part| {
            again.add(part);
            Ok(())
        })?;
        stored = again;
    }
    match stored.hash.finalize() == incoming.hash.finalize() {
        true => Ok(Compared { known: Some((session, bytes)), lines: stored.lines }),
        false => Err(Error::refused(format!(
            "session {} already exists with other lines",
            group.id.escape_debug()
        ))),
    }
}

/// Passes the lines after the first `skip` to `each`, and counts stored and new lines.
pub(super) fn new_lines(
    folder: &Folder<'_>,
    group: &Group,
    content: &Content,
    mut skip: u64,
    reports: &mut [ImportedFile],
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    for file in &mut *reports {
        file.stored = file.rows;
    }
    folder.each(group, content, &mut |file, line| {
        if skip > 0 {
            skip -= 1;
            return Ok(());
        }
        if let Some(file) = reports.get_mut(file) {
            file.added += 1;
        }
        each(line)
    })
}

/// The length of a line, in bytes, up to which its values are compared. Longer lines must have the
/// same bytes, so that they need not be in memory.
const MAX_COMPARED_LINE_BYTES: usize = 32 << 20;

/// A hash of the first lines of a stream, each in the same spelling.
struct Prefix {
    hash: blake3::Hasher,
    lines: u64,
    /// The number of lines after which further lines are ignored.
    max_lines: u64,
    /// The beginning of the current line.
    line: Vec<u8>,
    /// True if the beginning of the current line is part of the hash already.
    is_long: bool,
}

impl Prefix {
    fn of(max_lines: u64) -> Prefix {
        Prefix {
            hash: blake3::Hasher::new(),
            lines: 0,
            max_lines,
            line: Vec::new(),
            is_long: false,
        }
    }

    fn add(&mut self, mut bytes: &[u8]) {
        while self.lines < self.max_lines && !bytes.is_empty() {
            let end = memchr::memchr(b'\n', bytes).map(|at| at + 1);
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            bytes = rest;
            self.line.extend_from_slice(line);
            self.is_long |= self.line.len() > MAX_COMPARED_LINE_BYTES;
            if self.is_long {
                self.hash.update(&self.line);
                self.line.clear();
            }
            if end.is_some() {
                self.hash.update(&spelled(&self.line));
                self.line.clear();
                (self.lines, self.is_long) = (self.lines + 1, false);
            }
        }
    }
}

/// Returns a line in the spelling by which lines are compared.
pub(super) fn spelled(line: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(line) {
        Ok(text) => match stringify(text.trim_end_matches('\n')) {
            Cow::Borrowed(_) => Cow::Borrowed(line),
            Cow::Owned(text) => Cow::Owned(format!("{text}\n").into_bytes()),
        },
        Err(_) => Cow::Borrowed(line),
    }
}
