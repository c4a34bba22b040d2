//! The source of a database itself. It has no records: it stores the metadata of the database's
//! files, the schema version, and the reason why it is not read.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::open::Files;
use crate::Result;
use crate::base::clock;
use crate::base::ids::{GenerationId, SourceId};
use crate::truth::{native_lines, sources};

/// The granularity of file times in nanoseconds. A file that was written this recently may be
/// written again without a new time, so its metadata proves nothing.
const TICK_NS: i64 = 50_000_000;

/// Returns the source of a database.
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

/// Returns the source of a database, creating it if there is none.
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

/// Stores the metadata of the files as it was before they were read, and the reason why they are
/// not read. Unless `is_all`, the next sync opens them again.
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
    sources::set_refused(tx, source, refused)?;
    sources::set_database(tx, generation, &stat, files.log_print())
}
