//! What the file must look like: its marks, its truth schema and how that came about.
//!
//! Truth is migrated by an append-only list and never dropped. The projection is dropped and
//! derived again whenever [`PROJECTION_SHAPE`] or a decoder changes.

mod shape;

use rusqlite::Connection;

use quipu_transcript::format::FORMATS;

use crate::{Error, Result};
pub(crate) use shape::{Shape, has_column};

/// Written into the SQLite header: `quip`.
pub(crate) const APPLICATION_ID: i32 = 0x7175_6970;

/// The bundled SQLite must be at least this: older ones can corrupt a WAL file with two writers.
pub(crate) const OLDEST_SQLITE: i32 = 3_051_003;

/// One step per truth schema version; `user_version` counts them. Never edited: a test holds their
/// hashes.
const TRUTH: &[&str] = &[
    // 1: the first one.
    include_str!("schema/truth_v1.sql"),
    // 2: indexes, and rows of other programs' databases.
    include_str!("schema/truth_v2.sql"),
    // 3: which machine collects into it.
    include_str!("schema/truth_v3.sql"),
    // 4: compressed files that cannot be decompressed, and what of a database is not read.
    include_str!("schema/truth_v4.sql"),
    // 5: the bytes after the last newline are compressed where that is worth it.
    include_str!("schema/truth_v5.sql"),
];

const PROJECTION: &str = include_str!("schema/projection.sql");

/// The shape of the projection tables. Raise it with any change to `projection.sql` or to the fold.
const PROJECTION_SHAPE: i64 = 11;

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

/// What an earlier shape of a version lacks: before versions were frozen, some of them grew.
struct Late {
    /// The version that it belongs to.
    version: i64,
    table: &'static str,
    column: &'static str,
    /// Adds it.
    sql: &'static str,
}

const LATE: &[Late] = &[
    Late {
        version: 1,
        table: "records",
        column: "same_as",
        sql: "ALTER TABLE records ADD COLUMN same_as INTEGER;
              DROP INDEX generations_by_head;
              CREATE INDEX generations_by_head ON generations (head, head_length);",
    },
    Late {
        version: 2,
        table: "row_cursors",
        column: "rows",
        // A session whose rows were not counted is compared as a whole once.
        sql: "ALTER TABLE row_cursors ADD COLUMN rows INTEGER NOT NULL DEFAULT 0;",
    },
    Late {
        version: 2,
        table: "pending",
        column: "sum",
        sql: "ALTER TABLE pending ADD COLUMN sum INTEGER;",
    },
    Late {
        version: 2,
        table: "tails",
        column: "sum",
        sql: "ALTER TABLE tails ADD COLUMN sum INTEGER;",
    },
];

/// A table of each version that an earlier one may have already: one shape of version 3 had all of
/// what is version 4 now.
const EARLY: &[(i64, &str)] = &[(4, "damaged")];

/// True if truth is of the newest version and nothing is missing from it.
pub(crate) fn is_newest(conn: &Connection) -> Result<bool> {
    if version(conn)? != truth_version() {
        return Ok(false);
    }
    for late in LATE {
        if !has_column(conn, late.table, late.column)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Creates the truth of the newest version in an empty file.
pub(crate) fn create_truth(conn: &Connection) -> Result<()> {
    take_steps(conn, 0)
}

/// Brings truth to the newest version, after a rehearsal. Runs inside one transaction.
pub(crate) fn migrate_truth(conn: &Connection) -> Result<()> {
    rehearse(conn)?;
    take_steps(conn, version(conn)?)
}

/// Refuses a file that cannot be brought to the newest version. Changes nothing in it: its tables,
/// without rows, are migrated in memory.
pub(crate) fn rehearse(conn: &Connection) -> Result<()> {
    let version = version(conn)?;
    let other = |what: String| Error::Shape { version, what };
    let stage = Connection::open_in_memory()?;
    shape::copy(conn, &stage, TRUTH_TABLES)?;
    take_steps(&stage, version).map_err(|error| other(cause(&error)))?;
    let newest = Connection::open_in_memory()?;
    create_truth(&newest)?;
    let newest = Shape::of(&newest, TRUTH_TABLES)?;
    match newest.difference(&Shape::of(&stage, TRUTH_TABLES)?) {
        Some(what) => Err(other(what)),
        None => Ok(()),
    }
}

/// What SQLite says about a step that cannot be taken.
fn cause(error: &Error) -> String {
    match error {
        // Without the statement, which is the whole step.
        Error::Sqlite(rusqlite::Error::SqlInputError { msg, .. }) => msg.clone(),
        error => error.to_string(),
    }
}

/// Completes version `from` and takes the steps after it.
fn take_steps(conn: &Connection, from: i64) -> Result<()> {
    for late in LATE.iter().filter(|late| late.version <= from) {
        if !has_column(conn, late.table, late.column)? {
            conn.execute_batch(late.sql)?;
        }
    }
    let steps = (1..).zip(TRUTH).skip(usize::try_from(from).unwrap_or(0));
    for (version, step) in steps {
        let early = EARLY.iter().find(|(of, _)| *of == version);
        if early.is_none_or(|(_, table)| !names(conn, "table").is_ok_and(has(table))) {
            conn.execute_batch(step)?;
        }
    }
    Ok(conn.pragma_update(None, "user_version", truth_version())?)
}

fn has(name: &str) -> impl FnOnce(Vec<String>) -> bool + '_ {
    move |names| names.iter().any(|other| other == name)
}

/// Which version truth is of.
fn version(conn: &Connection) -> Result<i64> {
    Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
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
pub(crate) const TRUTH_TABLES: &[&str] = &[
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
    use xxhash_rust::xxh3::xxh3_128;

    use super::*;

    #[test]
    fn truth_tables_are_listed() {
        let mut conn = Connection::open_in_memory().unwrap();
        let tx = conn.transaction().unwrap();
        create_truth(&tx).unwrap();
        assert!(projection_tables(&tx).unwrap().is_empty());
        create_projection(&tx).unwrap();
        assert!(projection_tables(&tx).unwrap().contains(&"search".to_owned()));
        drop_projection(&tx).unwrap();
        assert!(projection_tables(&tx).unwrap().is_empty());
    }

    /// Ledgers and backups of each version exist: what a version is can not change any more.
    #[test]
    fn versions_of_truth_are_frozen() {
        let hashes: Vec<String> =
            TRUTH.iter().map(|step| format!("{:032x}", xxh3_128(step.as_bytes()))).collect();
        assert_eq!(
            hashes,
            [
                "245f43e88a0b1a381807cfa84adee025",
                "efc8beac116327f11d6d74278f583ad7",
                "ffaec7b5f29deba080eeb929b42e2f92",
                "4ece41c4bf1f6f52958d6bc6ed9e4224",
                "e090ad61403fd775d1c7494737e9ce63",
            ],
            "a truth_v*.sql was changed or added. Ledgers of that version exist already, and this \
             would give it a second shape: leave the old files as they are, write the change as a \
             new step (truth_v{}.sql), and add the hash of that one here",
            TRUTH.len() + 1
        );
    }
}
