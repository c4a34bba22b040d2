//! Checksums of collected bytes that are not compressed yet. Chunks and indexes carry their own, in
//! their zstd frames; SQLite has none.

use rusqlite::Connection;
use xxhash_rust::xxh3::xxh3_64;

use crate::file::schema::has_column;
use crate::truth::{indexes, tails};
use crate::{Error, Result};

/// The checksum of some bytes.
pub(crate) fn of(bytes: &[u8]) -> i64 {
    xxh3_64(bytes).cast_signed()
}

/// Refuses bytes that are not what was stored. Version 1 of truth stored none of these sums.
pub(crate) fn check(bytes: &[u8], sum: Option<i64>, what: impl FnOnce() -> String) -> Result<()> {
    match sum {
        Some(sum) if sum != of(bytes) => {
            Err(Error::damaged(format!("{} is not what was stored", what())))
        }
        _ => Ok(()),
    }
}

/// Checks every byte that is in no chunk: waiting records, unterminated last lines, damaged files and
/// indexes, as far as this version of truth has them. `bad` is told which of them are damaged.
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
