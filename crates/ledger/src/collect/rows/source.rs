//! The source that a database itself is. It has no records: it remembers what the database's files
//! looked like, what schema it has, and why it is not read.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::open::Files;
use crate::Result;
use crate::base::clock;
use crate::base::ids::{GenerationId, SourceId};
use crate::truth::native_lines;

/// Files that were written to so recently may be written to again within the same tick of the clock
/// that stamps them; their stat proves nothing.
const TICK_NS: i64 = 50_000_000;

/// The source of a database.
pub(super) fn find(
    conn: &Connection,
    format: &str,
    root: &[u8],
    path: &[u8],
) -> Result<Option<(SourceId, GenerationId)>> {
    Ok(conn
        .prepare_cached(
            "SELECT id, generation FROM sources WHERE format = ?1 AND root = ?2 AND path = ?3",
        )?
        .query_row((format, root, path), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?)
}

/// The source of a database, made if there is none.
pub(super) fn find_or_create(
    tx: &Transaction<'_>,
    format: &str,
    root: &[u8],
    path: &[u8],
) -> Result<(SourceId, GenerationId)> {
    if let Some(known) = find(tx, format, root, path)? {
        return Ok(known);
    }
    native_lines::begin(tx, "rows", format, root, path)
}

/// Notes what the files looked like before they were read, and why they are not read. Unless that
/// was all there is to read, the next sync looks again.
pub(super) fn update(
    tx: &Transaction<'_>,
    source: SourceId,
    generation: GenerationId,
    files: &Files,
    refused: Option<&str>,
    is_all: bool,
) -> Result<()> {
    let mut stat = files.database;
    if !is_all
        || clock::now_ms().saturating_mul(1_000_000).saturating_sub(files.written_ns()) < TICK_NS
    {
        stat.ctime_ns = 0;
    }
    tx.prepare_cached("UPDATE sources SET refused = ?2 WHERE id = ?1 AND refused IS NOT ?2")?
        .execute((source, refused))?;
    tx.prepare_cached(
        "UPDATE generations
            SET device = ?2, inode = ?3, size = ?4, mtime_ns = ?5, ctime_ns = ?6, marker = ?7
          WHERE id = ?1",
    )?
    .execute((
        generation,
        stat.device.cast_signed(),
        stat.inode.cast_signed(),
        stat.size.cast_signed(),
        stat.mtime_ns,
        stat.ctime_ns,
        files.log_print(),
    ))?;
    Ok(())
}
