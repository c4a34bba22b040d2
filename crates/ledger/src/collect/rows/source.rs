//! Finds, creates and updates the source of a database itself. That source has no records. The
//! ledger stores with it the metadata of the database's files, and the reason if the database is
//! not read.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::open::Files;
use crate::Result;
use crate::base::clock;
use crate::base::ids::{GenerationId, SourceId};
use crate::truth::{native_lines, sources};

/// The coarsest step of file times, in nanoseconds. A file that was written this recently may be
/// written to again without a new time, so equal metadata does not prove that it is unchanged.
const TICK_NS: i64 = 50_000_000;

/// Returns the source of a database and its generation.
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

/// Returns the source of a database and its generation. Creates them if there are none.
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

/// Stores the metadata that the files had before they were read, and the reason if they were not
/// read.
///
/// Stores 0 as the time of the last change if `is_all` is false (the sync left something out), or
/// if the files were written within the last [`TICK_NS`]. The next sync then opens the database
/// again.
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
