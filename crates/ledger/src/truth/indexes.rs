//! The newest bytes of each index. Unlike records they are replaced: what has to stay of an index
//! is in the journal.

use std::collections::HashMap;

use quipu_transcript::format;
use quipu_transcript::problem::ProblemKind;
use rusqlite::{Connection, OptionalExtension};

use crate::base::ids::SourceId;
use crate::collect::known::{self, Known};
use crate::ops::forget::Forgotten;
use crate::{Error, Result};

/// How hard to compress: an index is written every few seconds.
const LEVEL: i32 = 3;

/// Compressed bytes of an index.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) length: u64,
    pub(crate) data: Vec<u8>,
}

/// Compresses an index.
pub(crate) fn pack(bytes: &[u8]) -> Result<Packed> {
    let packed = zstd::bulk::Compressor::new(LEVEL).and_then(|mut compressor| {
        compressor.include_checksum(true)?;
        compressor.compress(bytes)
    });
    let data = packed
        .map_err(|error| Error::damaged(format!("an index cannot be compressed: {error}")))?;
    Ok(Packed { length: bytes.len() as u64, data })
}

/// Replaces the bytes of an index.
pub(crate) fn store(tx: &Connection, source: SourceId, packed: &Packed) -> Result<()> {
    tx.prepare_cached("INSERT OR REPLACE INTO indexes (source, length, data) VALUES (?1, ?2, ?3)")?
        .execute((source, packed.length as i64, &packed.data))?;
    Ok(())
}

/// The bytes of an index.
pub(crate) fn load(conn: &Connection, source: SourceId) -> Result<Option<Vec<u8>>> {
    let found: Option<(i64, Vec<u8>)> = conn
        .prepare_cached("SELECT length, data FROM indexes WHERE source = ?1")?
        .query_row([source], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((length, data)) = found else { return Ok(None) };
    let length = usize::try_from(length).unwrap_or(0);
    let bytes = zstd::bulk::decompress(&data, length)
        .ok()
        .filter(|bytes| bytes.len() == length)
        .ok_or_else(|| Error::damaged(format!("index {} cannot be read", source.0)))?;
    Ok(Some(bytes))
}

/// Indexes that made no sense when they were last looked at, or not to their end, each with why.
pub(crate) fn damaged<'k>(
    conn: &Connection,
    known: &'k [Known],
    forgotten: &Forgotten,
) -> Result<Vec<(&'k Known, String)>> {
    // What was ever wrong. Whether it still is, the newest bytes tell.
    let mut statement =
        conn.prepare("SELECT source, detail FROM problems WHERE kind = ?1 ORDER BY entry")?;
    let noted: HashMap<SourceId, String> = statement
        .query_map([ProblemKind::IndexDamaged.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut damaged = Vec::new();
    for known in known.iter().filter(|known| !known.is_gone && known.is_kept_whole()) {
        let Some(noted) = noted.get(&known.source) else { continue };
        let Some(format) = format::by_name(&known.format) else { continue };
        let Some(bytes) = load(conn, known.source)? else { continue };
        let index = format.read_index(&format.origin(&known.first_path), &bytes);
        let mut problems = index.problems.into_iter();
        let why = problems.find(|problem| problem.kind == ProblemKind::IndexDamaged);
        // Of a good index from which forgotten sessions were taken, the file is always another.
        let is_other = !forgotten.concerns(format) && !is_of(&bytes, known);
        match why {
            Some(problem) => damaged.push((known, problem.detail)),
            None if is_other => damaged.push((known, noted.clone())),
            None => {}
        }
    }
    Ok(damaged)
}

/// Whether these are the bytes that the file had when it was last looked at.
fn is_of(bytes: &[u8], known: &Known) -> bool {
    let head = bytes.get(..known.head_length);
    bytes.len() as u64 == known.stat.size
        && head.is_some_and(|head| known::print(head) == known.head)
}
