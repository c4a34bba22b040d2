//! What the file must look like: its marks, its truth schema and how that came about.
//!
//! Truth is migrated by an append-only list and never dropped. The projection is dropped and
//! derived again whenever [`PROJECTION_SHAPE`] or a decoder changes.

use rusqlite::{Connection, Transaction};

use quipu_transcript::format::FORMATS;

use crate::Result;

/// Written into the SQLite header: `quip`.
pub(crate) const APPLICATION_ID: i32 = 0x7175_6970;

/// The bundled SQLite must be at least this: older ones can corrupt a WAL file with two writers.
pub(crate) const OLDEST_SQLITE: i32 = 3_051_003;

/// One step per truth schema version; `user_version` counts them. Never edited after a release.
const TRUTH: &[&str] = &[
    // 1: the first one.
    include_str!("schema/truth_v1.sql"),
    // 2: indexes, and rows of other programs' databases.
    include_str!("schema/truth_v2.sql"),
    // 3: which machine collects into it.
    include_str!("schema/truth_v3.sql"),
    // 4: compressed files that cannot be decompressed, and what of a database is not read.
    include_str!("schema/truth_v4.sql"),
];

const PROJECTION: &str = include_str!("schema/projection.sql");

/// The shape of the projection tables. Raise it with any change to `projection.sql` or to the fold.
const PROJECTION_SHAPE: i64 = 10;

/// A projection's version is its shape times this, plus the versions of the decoders.
const SHAPES: i64 = 1_000_000;

/// The truth schema this version writes.
pub(crate) fn truth_version() -> i64 {
    TRUTH.len() as i64
}

/// The projection this version writes: its shape and every decoder's version.
pub(crate) fn projection_version() -> i64 {
    FORMATS.iter().fold(PROJECTION_SHAPE * SHAPES, |sum, format| sum + i64::from(format.version()))
}

/// True if the projection's tables are those of an older version, so that queries would not find
/// their columns.
pub(crate) fn has_older_shape(conn: &Connection) -> Result<bool> {
    let version: i64 =
        conn.query_row("SELECT projection_version FROM ledger", [], |row| row.get(0))?;
    Ok(version / SHAPES < PROJECTION_SHAPE)
}

/// Brings truth from version `from` to the newest. Runs inside one transaction.
pub(crate) fn migrate_truth(tx: &Transaction<'_>, from: i64) -> Result<()> {
    for step in TRUTH.iter().skip(usize::try_from(from).unwrap_or(0)) {
        tx.execute_batch(step)?;
    }
    tx.pragma_update(None, "user_version", truth_version())?;
    Ok(())
}

/// Creates the empty projection.
pub(crate) fn create_projection(conn: &Connection) -> Result<()> {
    conn.execute_batch(PROJECTION)?;
    // `search::merge` merges a little with every commit.
    Ok(quipu_fts5::configure(conn)?)
}

/// Drops every view and every projection table, whichever version made them.
pub(crate) fn drop_projection(conn: &Connection) -> Result<()> {
    for view in names(conn, "view")? {
        conn.execute_batch(&format!("DROP VIEW \"{}\"", view.replace('"', "\"\"")))?;
    }
    for table in projection_tables(conn)? {
        conn.execute_batch(&format!("DROP TABLE \"{}\"", table.replace('"', "\"\"")))?;
    }
    Ok(())
}

/// The names of all tables that are not truth. Shadow tables of the search index go with it.
pub(crate) fn projection_tables(conn: &Connection) -> Result<Vec<String>> {
    let mut tables = names(conn, "table")?;
    tables.retain(|name| !TRUTH_TABLES.contains(&name.as_str()));
    Ok(tables)
}

/// The names of everything of that type that is neither SQLite's own nor a part of the search index.
fn names(conn: &Connection, kind: &str) -> Result<Vec<String>> {
    let mut statement = conn.prepare(
        "SELECT name FROM sqlite_schema
          WHERE type = ?1
            AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
            AND name NOT LIKE 'search\\_%' ESCAPE '\\'
          ORDER BY name",
    )?;
    Ok(statement.query_map([kind], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// The tables that `rebuild` must leave alone.
const TRUTH_TABLES: &[&str] = &[
    "ledger",
    "sources",
    "source_paths",
    "generations",
    "tails",
    "spans",
    "records",
    "pending",
    "chunks",
    "forgotten",
    "indexes",
    "row_cursors",
    "record_rows",
    "damaged",
    "damaged_bytes",
    "unread",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_tables_are_listed() {
        let mut conn = Connection::open_in_memory().unwrap();
        let tx = conn.transaction().unwrap();
        migrate_truth(&tx, 0).unwrap();
        assert!(projection_tables(&tx).unwrap().is_empty());
        create_projection(&tx).unwrap();
        assert!(projection_tables(&tx).unwrap().contains(&"search".to_owned()));
        drop_projection(&tx).unwrap();
        assert!(projection_tables(&tx).unwrap().is_empty());
    }
}
