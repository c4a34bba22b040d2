//! The schema: the file's identification, the steps that make truth, and the projection's tables.
//!
//! Truth is migrated by an append-only list of steps and never dropped. The projection is dropped
//! and derived again when [`PROJECTION_SHAPE`] changes, or the version of a decoder whose format
//! has records in the ledger.

mod shape;

use std::cmp::Ordering;

use rusqlite::{Connection, ErrorCode};

use quipu_transcript::format;

use crate::{Error, Result};
pub(crate) use shape::{Shape, has_column};

/// SQLite's application id of a ledger: `quip` in ASCII.
pub(crate) const APPLICATION_ID: i32 = 0x7175_6970;

/// The oldest SQLite that may be bundled: older ones can corrupt a log with two writers.
pub(crate) const OLDEST_SQLITE: i32 = 3_051_003;

/// The steps of the truth schema; `user_version` counts them. Never edited: a test holds their
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

/// The version of the projection's tables. Raise it with any change to `projection.sql` or to the
/// fold.
const PROJECTION_SHAPE: i64 = 21;

/// A projection's version is its shape times this factor. Before shape 12, the versions of all
/// decoders were added to that number; now the table `decoders` has them.
const SHAPE_FACTOR: i64 = 1_000_000;

/// Returns the version of the truth schema that this build writes.
pub(crate) fn truth_version() -> i64 {
    TRUTH.len() as i64
}

/// Returns the version of the projection's tables that this build writes.
pub(crate) fn projection_version() -> i64 {
    PROJECTION_SHAPE * SHAPE_FACTOR
}

/// The relation of a ledger's projection to the one that this version derives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Derived {
    /// It is the same.
    Current,
    /// The tables, or the decoder of a format that has records here, are of an older version.
    Older,
    /// The tables or a decoder are of a newer version.
    Newer {
        /// Its version.
        found: i64,
        /// The version that is known here; 0 for a format that is not.
        known: i64,
    },
}

/// Compares a ledger's projection with the one that this version derives.
pub(crate) fn derived(conn: &Connection) -> Result<Derived> {
    let found: i64 = conn
        .prepare_cached("SELECT projection_version FROM ledger")?
        .query_row([], |row| row.get(0))?;
    let known = projection_version();
    match found.cmp(&known) {
        Ordering::Less => Ok(Derived::Older),
        Ordering::Greater => Ok(Derived::Newer { found, known }),
        Ordering::Equal => decoders(conn),
    }
}

/// Compares the decoders that derived the projection with the current ones.
fn decoders(conn: &Connection) -> Result<Derived> {
    let mut derived = Derived::Current;
    let mut statement = match conn.prepare_cached("SELECT format, version FROM decoders") {
        // A projection that lost this table is not whole: it has to be derived again.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => {
            return Ok(Derived::Older);
        }
        statement => statement?,
    };
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let name = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        let known = format::by_name(name).map_or(0, |format| i64::from(format.version()));
        let found: i64 = row.get(1)?;
        match found.cmp(&known) {
            Ordering::Less => derived = Derived::Older,
            Ordering::Greater => return Ok(Derived::Newer { found, known }),
            Ordering::Equal => {}
        }
    }
    Ok(derived)
}

/// Returns whether the projection's tables are of an older shape, so that queries would fail.
pub(crate) fn has_older_shape(conn: &Connection) -> Result<bool> {
    let version: i64 =
        conn.query_row("SELECT projection_version FROM ledger", [], |row| row.get(0))?;
    Ok(version / SHAPE_FACTOR < PROJECTION_SHAPE)
}

/// A column that some ledgers of a version lack: it was added to the version before versions were
/// frozen.
struct LateColumn {
    /// The version that the column belongs to.
    version: i64,
    table: &'static str,
    column: &'static str,
    /// The statements that add it.
    sql: &'static str,
}

const LATE_COLUMNS: &[LateColumn] = &[
    LateColumn {
        version: 1,
        table: "records",
        column: "same_as",
        sql: "ALTER TABLE records ADD COLUMN same_as INTEGER;
              DROP INDEX generations_by_head;
              CREATE INDEX generations_by_head ON generations (head, head_length);",
    },
    LateColumn {
        version: 2,
        table: "row_cursors",
        column: "rows",
        // A session whose rows were not counted is compared as a whole once.
        sql: "ALTER TABLE row_cursors ADD COLUMN rows INTEGER NOT NULL DEFAULT 0;",
    },
    LateColumn {
        version: 2,
        table: "pending",
        column: "sum",
        sql: "ALTER TABLE pending ADD COLUMN sum INTEGER;",
    },
    LateColumn {
        version: 2,
        table: "tails",
        column: "sum",
        sql: "ALTER TABLE tails ADD COLUMN sum INTEGER;",
    },
];

/// Tables of a version that some ledgers of the version before it have already. If the table
/// exists, the step to that version is skipped: some ledgers of version 3 have everything that
/// version 4 adds.
const EARLY_TABLES: &[(i64, &str)] = &[(4, "damaged")];

/// Returns whether truth is of the newest version and complete.
pub(crate) fn is_newest(conn: &Connection) -> Result<bool> {
    if version(conn)? != truth_version() {
        return Ok(false);
    }
    for late in LATE_COLUMNS {
        if !has_column(conn, late.table, late.column)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Creates the truth of the newest version in an empty file.
pub(crate) fn create_truth(conn: &Connection) -> Result<()> {
    run_migrations(conn, 0)
}

/// Migrates truth to the newest version, after a rehearsal. Runs inside one transaction.
pub(crate) fn migrate_truth(conn: &Connection) -> Result<()> {
    rehearse_migration(conn)?;
    run_migrations(conn, version(conn)?)
}

/// Refuses a file that cannot be migrated. Changes nothing in it: its tables, without rows, are
/// migrated in memory.
pub(crate) fn rehearse_migration(conn: &Connection) -> Result<()> {
    let version = version(conn)?;
    let other = |what: String| Error::Shape { version, what };
    let stage = Connection::open_in_memory()?;
    shape::copy(conn, &stage, TRUTH_TABLES)?;
    run_migrations(&stage, version).map_err(|error| other(cause(&error)))?;
    let newest = Connection::open_in_memory()?;
    create_truth(&newest)?;
    let newest = Shape::of(&newest, TRUTH_TABLES)?;
    match newest.difference(&Shape::of(&stage, TRUTH_TABLES)?) {
        Some(what) => Err(other(what)),
        None => Ok(()),
    }
}

/// Returns SQLite's message about a step that failed.
fn cause(error: &Error) -> String {
    match error {
        // The statement is left out: it is the whole step.
        Error::Sqlite(rusqlite::Error::SqlInputError { msg, .. }) => msg.clone(),
        error => error.to_string(),
    }
}

/// Completes version `from` and takes the steps after it.
fn run_migrations(conn: &Connection, from: i64) -> Result<()> {
    for late in LATE_COLUMNS.iter().filter(|late| late.version <= from) {
        if !has_column(conn, late.table, late.column)? {
            conn.execute_batch(late.sql)?;
        }
    }
    let steps = (1..).zip(TRUTH).skip(usize::try_from(from).unwrap_or(0));
    for (version, step) in steps {
        let early = EARLY_TABLES.iter().find(|(of, _)| *of == version);
        if early.is_none_or(|(_, table)| !names(conn, "table").is_ok_and(has(table))) {
            conn.execute_batch(step)?;
        }
    }
    Ok(conn.pragma_update(None, "user_version", truth_version())?)
}

fn has(name: &str) -> impl FnOnce(Vec<String>) -> bool + '_ {
    move |names| names.iter().any(|other| other == name)
}

/// Returns the version of truth in the file.
fn version(conn: &Connection) -> Result<i64> {
    Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// Creates the empty projection.
pub(crate) fn create_projection(conn: &Connection) -> Result<()> {
    conn.execute_batch(PROJECTION)?;
    // FTS5's own merging is turned off: the fold merges a little with every commit.
    Ok(quipu_fts5::configure(conn)?)
}

/// Drops every view and every projection table, of any version.
pub(crate) fn drop_projection(conn: &Connection) -> Result<()> {
    for view in names(conn, "view")? {
        conn.execute_batch(&format!("DROP VIEW \"{}\"", view.replace('"', "\"\"")))?;
    }
    for table in projection_tables(conn)? {
        conn.execute_batch(&format!("DROP TABLE \"{}\"", table.replace('"', "\"\"")))?;
    }
    Ok(())
}

/// Returns the names of all projection tables. The index's shadow tables are dropped with it.
pub(crate) fn projection_tables(conn: &Connection) -> Result<Vec<String>> {
    let mut tables = names(conn, "table")?;
    tables.retain(|name| !TRUTH_TABLES.contains(&name.as_str()));
    Ok(tables)
}

/// Returns the names of all tables or views, by `kind`. SQLite's own tables and the shadow tables
/// of the search index are left out.
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

/// The tables of truth, which `rebuild` leaves alone.
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
    fn every_table_of_truth_is_listed() {
        let mut conn = Connection::open_in_memory().unwrap();
        let tx = conn.transaction().unwrap();
        create_truth(&tx).unwrap();
        assert!(projection_tables(&tx).unwrap().is_empty());
        create_projection(&tx).unwrap();
        assert!(projection_tables(&tx).unwrap().contains(&"search".to_owned()));
        drop_projection(&tx).unwrap();
        assert!(projection_tables(&tx).unwrap().is_empty());
    }

    /// Ledgers and backups of each version exist, so no version can change.
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
