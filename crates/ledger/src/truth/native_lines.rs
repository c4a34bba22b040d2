//! Lines that exist in no file: those of the journal, and of sessions that runtimes write. Such a
//! source has one generation, which only grows.

use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::clock;
use crate::base::ids::{GenerationId, Seq, SourceId};
use crate::truth::{chunks, records, sources};

/// Adds a source that is not a file. It has no generation yet.
pub(crate) fn source(
    conn: &Connection,
    kind: &str,
    format: &str,
    root: &[u8],
    path: &[u8],
) -> Result<SourceId> {
    sources::insert(conn, kind, format, (root, path), None)
}

/// Adds a source that is not a file, with its only generation.
pub(crate) fn begin(
    conn: &Connection,
    kind: &str,
    format: &str,
    root: &[u8],
    path: &[u8],
) -> Result<(SourceId, GenerationId)> {
    let source = source(conn, kind, format, root, path)?;
    let generation = sources::begin_without_file(conn, source)?;
    Ok((source, generation))
}

/// Appends a line to a generation: its bytes, or a reference to another record with `same_as`.
/// Returns the line's seq and its offset.
pub(crate) fn append(
    conn: &Connection,
    generation: GenerationId,
    line: &[u8],
    same_as: Option<Seq>,
    key: Option<&str>,
) -> Result<(Seq, u64)> {
    let seq = records::next_seq(conn)?;
    let length = line.len() as u64;
    let start = cursor(conn, generation)?;
    records::insert_keyed(conn, seq, generation, start, length, same_as, key)?;
    if same_as.is_none() {
        chunks::insert_pending(conn, seq, line)?;
    }
    records::own_span(conn, generation, start, length, seq, seq)?;
    let now_ns = clock::now_ms().saturating_mul(1_000_000);
    sources::advance_without_file(conn, generation, length, now_ns)?;
    Ok((seq, start))
}

/// Returns the seq of a generation's last record; 0 if it has none.
pub(crate) fn last(conn: &Connection, generation: GenerationId) -> Result<Seq> {
    let last: Option<i64> = conn
        .prepare_cached(
            "SELECT last_seq FROM spans WHERE generation = ?1 ORDER BY start DESC LIMIT 1",
        )?
        .query_row([generation], |row| row.get(0))
        .optional()?
        .flatten();
    Ok(Seq(last.unwrap_or(0)))
}

/// Returns the offset where a generation ends.
pub(crate) fn cursor(conn: &Connection, generation: GenerationId) -> Result<u64> {
    Ok(conn
        .prepare_cached("SELECT cursor FROM generations WHERE id = ?1")?
        .query_row([generation], |row| row.get::<_, i64>(0))?
        .cast_unsigned())
}
