//! Lines that nobody else has: of the journal, and of sessions that runtimes write. They have no file,
//! so they have one life, which is appended to.

use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::clock;
use crate::base::ids::{GenerationId, Seq, SourceId};
use crate::truth::{chunks, records};

/// A source that is no file. It has no bytes of its own until it has a life.
pub(crate) fn source(
    conn: &Connection,
    kind: &str,
    format: &str,
    root: &[u8],
    path: &[u8],
) -> Result<SourceId> {
    conn.prepare_cached(
        "INSERT INTO sources (kind, format, root, path, first_path) VALUES (?1, ?2, ?3, ?4, ?4)",
    )?
    .execute((kind, format, root, path))?;
    Ok(SourceId(conn.last_insert_rowid()))
}

/// The same, with its first life.
pub(crate) fn begin(
    conn: &Connection,
    kind: &str,
    format: &str,
    root: &[u8],
    path: &[u8],
) -> Result<(SourceId, GenerationId)> {
    let source = source(conn, kind, format, root, path)?;
    conn.prepare_cached(
        "INSERT INTO generations
            (source, number, began, device, inode, size, mtime_ns, ctime_ns, cursor, tail_length,
             tail_stands, head, head_length, marker, records)
         VALUES (?1, 1, 'first', 0, 0, 0, 0, 0, 0, 0, 0, x'', 0, x'', 0)",
    )?
    .execute([source])?;
    let generation = GenerationId(conn.last_insert_rowid());
    conn.prepare_cached("UPDATE sources SET generation = ?2 WHERE id = ?1")?
        .execute((source, generation))?;
    Ok((source, generation))
}

/// Appends a line to a life: its bytes, or those of another record. Returns its number, and where it
/// begins.
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
        chunks::put_pending(conn, seq, line)?;
    }
    records::own_span(conn, generation, start, length, seq, seq)?;
    conn.prepare_cached(
        "UPDATE generations
            SET cursor = cursor + ?2, size = size + ?2, records = records + 1, mtime_ns = ?3
          WHERE id = ?1",
    )?
    .execute((generation, length.cast_signed(), clock::now_ms().saturating_mul(1_000_000)))?;
    Ok((seq, start))
}

/// The last record of a life.
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

/// Where a life ends.
pub(crate) fn cursor(conn: &Connection, generation: GenerationId) -> Result<u64> {
    Ok(conn
        .prepare_cached("SELECT cursor FROM generations WHERE id = ?1")?
        .query_row([generation], |row| row.get::<_, i64>(0))?
        .cast_unsigned())
}
