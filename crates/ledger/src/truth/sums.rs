//! Checksums of collected bytes that are not compressed yet. Chunks and indexes carry checksums in
//! their zstd frames; SQLite has none.

use rusqlite::Connection;
use xxhash_rust::xxh3::xxh3_64;

use crate::file::schema::has_column;
use crate::truth::{indexes, tails};
use crate::{Error, Result};

/// Returns the checksum of `bytes`.
pub(crate) fn of(bytes: &[u8]) -> i64 {
    xxh3_64(bytes).cast_signed()
}

/// Refuses bytes that differ from what was stored. Version 1 of truth stored no checksums.
pub(crate) fn check(bytes: &[u8], sum: Option<i64>, what: impl FnOnce() -> String) -> Result<()> {
    match sum {
        Some(sum) if sum != of(bytes) => {
            Err(Error::damaged(format!("{} does not match its checksum", what())))
        }
        _ => Ok(()),
    }
}

/// Checks every byte that is in no chunk: pending records, unterminated last lines, damaged files
/// and indexes, as far as this version of truth has them. Calls `bad` for each damaged one.
pub(crate) fn check_all(conn: &Connection, bad: &mut dyn FnMut(String)) -> Result<()> {
    for (table, id, what) in [
        ("pending", "seq", "record"),
        ("damaged_bytes", "generation", "the compressed file of generation"),
    ] {
        if !has_column(conn, table, "sum")? {
            continue;
        }
        let mut statement = conn.prepare(&format!("SELECT {id}, bytes, sum FROM {table}"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            if check(bytes, row.get(2)?, String::new).is_err() {
                bad(format!("{what} {id}"));
            }
        }
    }
    tails::check_all(conn, &mut |generation| {
        bad(format!("the last line of generation {}", generation.0));
    })?;
    if !has_column(conn, "indexes", "data")? {
        return Ok(());
    }
    let sources: Vec<crate::base::ids::SourceId> = conn
        .prepare("SELECT source FROM indexes")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for source in sources {
        if indexes::load(conn, source).is_err() {
            bad(format!("the index that is source {}", source.0));
        }
    }
    Ok(())
}
