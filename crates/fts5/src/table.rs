//! The full-text table and FTS5's own ("shadow") tables behind it: names, settings and rows with
//! fixed ids.
//!
//! The table is called `search`, has [`COLUMNS`] columns, no content (`content = ''`), deletes by
//! tombstones (`contentless_delete = 1`) and uses the tokenizer `unicode61`. The README describes
//! the format of the tables behind it.

use rusqlite::{Connection, OptionalExtension};

use crate::{Error, Result};

/// Number of columns of the table.
pub const COLUMNS: usize = 5;

/// Mask of all columns.
pub const ALL_COLUMNS: u8 = (1 << COLUMNS) - 1;

/// Id of the structure record in `search_data`: the list of segments.
pub(crate) const STRUCTURE: i64 = 10;
/// Id of the averages record in `search_data`: number of rows, and of tokens in each column.
pub(crate) const AVERAGES: i64 = 1;
/// The bytes after the cookie of a structure record. They show that the record has the numbers of
/// rows and tombstones of each segment.
pub(crate) const STRUCTURE_V2: [u8; 4] = [0xFF, 0, 0, 1];
/// FTS5's limit for the number of segments.
pub(crate) const MAX_SEGMENTS: usize = 2000;
/// Shift of the segment id in the ids of `search_data`.
pub(crate) const SEGMENT_SHIFT: u32 = 37;
/// The value of `version` in `search_config` that this crate knows. FTS5 writes 5 with
/// `secure-delete`.
const KNOWN_VERSION: i64 = 4;
/// FTS5's size of a leaf page in bytes where none is configured.
const DEFAULT_PAGE_SIZE: usize = 4050;

/// Creates the table `search` with these columns and the settings of [`configure`].
pub fn create(conn: &Connection, columns: [&str; COLUMNS]) -> Result<()> {
    let columns = columns.map(|name| format!("\"{}\"", name.replace('"', "\"\""))).join(", ");
    conn.execute_batch(&format!(
        "CREATE VIRTUAL TABLE search USING fts5 (
            {columns}, content = '', contentless_delete = 1, tokenize = 'unicode61')"
    ))?;
    configure(conn)
}

/// Sets how FTS5 writes the table: leaf pages of 8000 bytes, which fill database pages of 8 KiB,
/// 32 MiB of terms in memory, and no automatic merging, which would merge while an import runs and
/// later all at once for a single row. Merging is the caller's task.
pub fn configure(conn: &Connection) -> Result<()> {
    let mut set = conn.prepare("INSERT INTO search (search, rank) VALUES (?1, ?2)")?;
    for (setting, value) in
        [("pgsz", 8000), ("hashsize", 32 << 20), ("automerge", 0), ("crisismerge", 1000)]
    {
        set.execute((setting, value))?;
    }
    Ok(())
}

/// Returns whether `search_config` names the known version of the format.
pub(crate) fn has_known_version(conn: &Connection) -> Result<bool> {
    Ok(setting(conn, "version")? == Some(KNOWN_VERSION))
}

/// Returns the size at which FTS5 considers a leaf page full.
pub fn page_size(conn: &Connection) -> Result<usize> {
    let size = setting(conn, "pgsz")?.and_then(|size| usize::try_from(size).ok());
    Ok(size.unwrap_or(DEFAULT_PAGE_SIZE))
}

fn setting(conn: &Connection, key: &str) -> Result<Option<i64>> {
    Ok(conn
        .prepare_cached("SELECT v FROM search_config WHERE k = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()?)
}

/// Reads a record of `search_data`.
pub(crate) fn block(conn: &Connection, id: i64) -> Result<Option<Vec<u8>>> {
    Ok(conn
        .prepare_cached("SELECT block FROM search_data WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?)
}

/// Replaces a record of `search_data`.
pub(crate) fn put_block(conn: &Connection, id: i64, bytes: &[u8]) -> Result<()> {
    conn.prepare_cached("REPLACE INTO search_data (id, block) VALUES (?1, ?2)")?
        .execute((id, bytes))?;
    Ok(())
}

/// Returns the error for pages that are not in the known format.
pub(crate) fn malformed() -> Error {
    Error::Index { why: "its pages are malformed".to_owned() }
}
