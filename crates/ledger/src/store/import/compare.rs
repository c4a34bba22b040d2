//! Compares a session to import with the stored session of the same id.
//!
//! Only reads: never changes a stored line.

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

/// Returns the stored session and the number of its bytes that equal the files. Fails if its lines
/// differ from theirs.
pub(super) fn compare(
    reader: &mut RecordReader<'_>,
    folder: &Folder<'_>,
    group: &Group,
    content: &Content,
    known: Option<NativeSession>,
) -> Result<StoredSession> {
    let Some(session) = known else { return Ok(None) };
    let mut stored = Prefix::of(content.length);
    spans::stream_from(reader, session.generation, &mut |part| {
        stored.add(part);
        Ok(())
    })?;
    let mut incoming = Prefix::of(stored.taken);
    folder.each(group, content, &mut |_, line| {
        incoming.add(line);
        Ok(())
    })?;
    match stored.hash.finalize() == incoming.hash.finalize() {
        // The session may have grown since an earlier import.
        true => Ok(Some((session, stored.taken))),
        false => Err(Error::refused(format!(
            "session {} already exists with other lines",
            group.id.escape_debug()
        ))),
    }
}

/// Passes the lines after the first `skip` bytes to `each`, and counts stored and new lines.
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
            skip = skip.saturating_sub(line.len() as u64);
            return Ok(());
        }
        if let Some(file) = reports.get_mut(file) {
            file.added += 1;
        }
        each(line)
    })
}

/// A hash of the first bytes of a stream.
struct Prefix {
    hash: blake3::Hasher,
    taken: u64,
    most: u64,
}

impl Prefix {
    fn of(most: u64) -> Prefix {
        Prefix { hash: blake3::Hasher::new(), taken: 0, most }
    }

    fn add(&mut self, bytes: &[u8]) {
        let left = usize::try_from(self.most - self.taken).unwrap_or(usize::MAX);
        let bytes = bytes.get(..left).unwrap_or(bytes);
        self.hash.update(bytes);
        self.taken += bytes.len() as u64;
    }
}
