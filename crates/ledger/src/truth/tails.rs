//! The bytes after a generation's last newline, in pieces of bounded size. A piece that compresses
//! to half or less is stored compressed: a hole of gigabytes, or a run of one byte, takes little
//! space.
//!
//! Every statement that reads or writes bytes of `tails` is in this file.

use rusqlite::{Connection, OptionalExtension, Row, Transaction};

use crate::base::ids::GenerationId;
use crate::file::schema::has_column;
use crate::truth::sums;
use crate::{Error, Result};

/// The longest piece in bytes, which bounds a reader's memory. Earlier versions of truth stored
/// longer pieces, uncompressed.
const MAX_PIECE_BYTES: usize = 1 << 20;

/// The smallest piece, in bytes, that is compressed. Most last lines are short and soon complete.
const MIN_COMPRESSED_BYTES: usize = 4 << 10;

/// The compression level: the fastest, because the bytes are compressed again once the line is
/// complete.
const COMPRESSION_LEVEL: i32 = 1;

/// Appends bytes that start at `start` of a generation.
pub(crate) fn append(
    tx: &Transaction<'_>,
    generation: GenerationId,
    mut start: u64,
    bytes: &[u8],
) -> Result<()> {
    for piece in bytes.chunks(MAX_PIECE_BYTES) {
        let compressed = compress(piece)?;
        let stored = compressed.as_deref().unwrap_or(piece);
        let length = compressed.is_some().then_some(piece.len() as i64);
        tx.prepare_cached(
            "INSERT INTO tails (generation, start, bytes, sum, length) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((generation, start.cast_signed(), stored, sums::of(piece), length))?;
        start += piece.len() as u64;
    }
    Ok(())
}

/// Returns the piece compressed, if that makes it at most half as long.
fn compress(piece: &[u8]) -> Result<Option<Vec<u8>>> {
    if piece.len() < MIN_COMPRESSED_BYTES {
        return Ok(None);
    }
    let compressed = zstd::bulk::compress(piece, COMPRESSION_LEVEL)
        .map_err(Error::io("compress", "a last line"))?;
    Ok(Some(compressed).filter(|compressed| compressed.len() <= piece.len() / 2))
}

/// Calls `each` with all pieces, in order.
pub(crate) fn stream(
    conn: &Connection,
    generation: GenerationId,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut statement = conn.prepare_cached(
        "SELECT bytes, sum, length FROM tails WHERE generation = ?1 ORDER BY start",
    )?;
    let mut rows = statement.query([generation])?;
    while let Some(row) = rows.next()? {
        with_piece(row, generation, each)?;
    }
    Ok(())
}

/// Reads all pieces into memory.
pub(crate) fn read(conn: &Connection, generation: GenerationId) -> Result<Vec<u8>> {
    head(conn, generation, usize::MAX)
}

/// Reads at most the first `longest` bytes, and no piece after them.
pub(crate) fn head(conn: &Connection, generation: GenerationId, longest: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut after = -1;
    while bytes.len() < longest {
        let Some((start, piece)) = next(conn, generation, after)? else { break };
        let wanted = longest - bytes.len();
        bytes.extend_from_slice(piece.get(..wanted).unwrap_or(&piece));
        after = start;
    }
    Ok(bytes)
}

/// Returns the first piece that starts after `after`, with its offset.
pub(crate) fn next(
    conn: &Connection,
    generation: GenerationId,
    after: i64,
) -> Result<Option<(i64, Vec<u8>)>> {
    let after_it =
        "SELECT bytes, sum, length, start FROM tails WHERE generation = ?1 AND start > ?2
                     ORDER BY start LIMIT 1";
    piece(conn, after_it, generation, after)
}

/// Returns the last piece that starts before `before`, with its offset.
pub(crate) fn previous(
    conn: &Connection,
    generation: GenerationId,
    before: i64,
) -> Result<Option<(i64, Vec<u8>)>> {
    let before_it =
        "SELECT bytes, sum, length, start FROM tails WHERE generation = ?1 AND start < ?2
                      ORDER BY start DESC LIMIT 1";
    piece(conn, before_it, generation, before)
}

/// Returns the piece that a query selects, with its offset.
fn piece(
    conn: &Connection,
    query: &str,
    generation: GenerationId,
    offset: i64,
) -> Result<Option<(i64, Vec<u8>)>> {
    conn.prepare_cached(query)?
        .query_row((generation, offset), |row| {
            let mut bytes = Vec::new();
            let read = with_piece(row, generation, &mut |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            });
            Ok((row.get(3)?, read.map(|()| bytes)))
        })
        .optional()?
        .map(|(start, piece)| Ok((start, piece?)))
        .transpose()
}

/// Removes all pieces.
pub(crate) fn delete(tx: &Connection, generation: GenerationId) -> Result<()> {
    tx.prepare_cached("DELETE FROM tails WHERE generation = ?1")?.execute([generation])?;
    Ok(())
}

/// Checks every piece of every generation, as far as this version of truth has sums and lengths.
/// Calls `bad` with the generation of each damaged piece.
pub(crate) fn check_all(conn: &Connection, bad: &mut dyn FnMut(GenerationId)) -> Result<()> {
    let column =
        |name| Ok::<_, Error>(if has_column(conn, "tails", name)? { name } else { "NULL" });
    let (sum, length) = (column("sum")?, column("length")?);
    let mut statement =
        conn.prepare(&format!("SELECT bytes, {sum}, {length}, generation FROM tails"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let generation = row.get(3)?;
        match with_piece(row, generation, &mut |_| Ok(())) {
            Err(Error::Damaged { .. }) => bad(generation),
            checked => checked?,
        }
    }
    Ok(())
}

/// The query for tail lengths. For each generation it returns the id, the `tail_length`, the number
/// of bytes in its pieces, and the distance from the start of the first piece to the end of the
/// last.
pub(crate) const LENGTHS: &str = "
    SELECT g.id, g.tail_length, coalesce(sum(coalesce(t.length, length(t.bytes))), 0),
           coalesce(max(t.start + coalesce(t.length, length(t.bytes))) - min(t.start), 0)
      FROM generations g LEFT JOIN tails t ON t.generation = g.id GROUP BY g.id";

/// Checks the piece in the columns `bytes`, `sum` and `length`, and calls `each` with it.
fn with_piece(
    row: &Row<'_>,
    generation: GenerationId,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let bytes = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
    let what = || format!("the last line of generation {}", generation.0);
    let unpacked = match row.get::<_, Option<i64>>(2)? {
        None => None,
        Some(length) => {
            let damaged = || Error::damaged(format!("{} does not match its checksum", what()));
            Some(decompress(bytes, length).ok_or_else(damaged)?)
        }
    };
    let piece = unpacked.as_deref().unwrap_or(bytes);
    sums::check(piece, row.get(1)?, what)?;
    each(piece)
}

/// Returns the decompressed piece. A damaged length takes no more memory than the longest piece.
fn decompress(bytes: &[u8], length: i64) -> Option<Vec<u8>> {
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_PIECE_BYTES)?;
    zstd::bulk::decompress(bytes, length).ok().filter(|piece| piece.len() == length)
}
