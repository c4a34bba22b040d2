//! Projects the whole ledger into a temporary database, which is removed automatically, and
//! compares it with the ledger's projection. Finds a flipped bit in any row or posting.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Rows};

use super::DoctorProgress;
use super::finding::{Findings, REBUILD, Tally};
use crate::Result;
use crate::file::ledger::{Ledger, set_up};
use crate::file::schema;
use crate::project::rebuild;
use crate::wire::Severity;

/// Compares the ledger's projection with a fresh one.
pub(super) fn compare(
    ledger: &Ledger,
    progress: &mut dyn FnMut(DoctorProgress),
    findings: &mut Findings,
) -> Result<()> {
    // Without a name, SQLite creates a temporary file that ends with the connection. The names of
    // truth tables resolve to the ledger, those of projection tables to the temporary file.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags("", flags)?;
    set_up(&conn)?;
    conn.pragma_update(None, "journal_mode", "OFF")?;
    conn.pragma_update(None, "synchronous", "OFF")?;
    let held = ledger.conn();
    // Where the ledger is read without its log, there may be no room for one.
    let parameters = if ledger.is_immutable() { "mode=ro&immutable=1" } else { "mode=ro" };
    conn.execute("ATTACH ?1 AS held", [uri(ledger.path(), parameters)])?;
    let tx = conn.transaction()?;
    let now: i64 = tx
        .query_row("SELECT max(seq) FROM held.records", [], |row| row.get::<_, Option<i64>>(0))?
        .unwrap_or(0);
    let to: i64 = tx.query_row("SELECT projected_to FROM held.ledger", [], |row| row.get(0))?;
    if now != to {
        // Another process is writing, so the projection is behind for a moment.
        return Ok(());
    }
    schema::create_projection(&tx)?;
    tx.execute_batch(
        "CREATE TABLE ledger AS SELECT * FROM held.ledger; UPDATE ledger SET projected_to = 0",
    )?;
    rebuild::replay(&tx, &mut |done, total| {
        progress(DoctorProgress { doing: "deriving", done, total });
    })?;
    let mut tables = Tally::default();
    for table in schema::projection_tables(&tx)? {
        if table != "search" && !is_same(&tx, &table, &columns(held, &table)?)? {
            tables.add(|| table.clone());
        }
    }
    let what = "tables that differ from the stored raw data";
    findings.tally(Severity::Error, tables, what, REBUILD);
    tx.execute_batch(
        "CREATE VIRTUAL TABLE temp.words_again USING fts5vocab(main, search, instance);
         CREATE VIRTUAL TABLE temp.words_held USING fts5vocab(held, search, instance)",
    )?;
    let words = |table: &str| format!("SELECT term, doc, col, offset FROM temp.{table}");
    let sizes = |schema: &str| format!("SELECT id, sz FROM {schema}.search_docsize ORDER BY id");
    if !are_same(&tx, &words("words_again"), &words("words_held"))?
        || !are_same(&tx, &sizes("main"), &sizes("held"))?
    {
        findings.error("the search index differs from the stored raw data", REBUILD);
    }
    Ok(())
}

/// Returns the primary key and all other columns of a table.
fn columns(conn: &Connection, table: &str) -> Result<String> {
    let mut statement = conn.prepare(
        "SELECT name, pk FROM pragma_table_info(?1) ORDER BY CASE pk WHEN 0 THEN 1000 ELSE pk END",
    )?;
    let names = statement.query_map([table], |row| row.get::<_, String>(0))?;
    let names: Vec<String> = names.collect::<Result<_, _>>()?;
    Ok(names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", "))
}

fn is_same(conn: &Connection, table: &str, columns: &str) -> Result<bool> {
    if columns.is_empty() {
        return Ok(false);
    }
    let rows =
        |schema: &str| format!("SELECT {columns} FROM {schema}.\"{table}\" ORDER BY {columns}");
    are_same(conn, &rows("main"), &rows("held"))
}

/// Returns whether two queries give the same rows in the same order.
fn are_same(conn: &Connection, one: &str, other: &str) -> Result<bool> {
    let (mut one, mut other) = (conn.prepare(one)?, conn.prepare(other)?);
    let width = one.column_count();
    let (mut one, mut other) = (one.query([])?, other.query([])?);
    loop {
        match (next(&mut one, width)?, next(&mut other, width)?) {
            (None, None) => return Ok(true),
            (a, b) if a == b => {}
            _ => return Ok(false),
        }
    }
}

fn next(rows: &mut Rows<'_>, width: usize) -> Result<Option<Vec<Value>>> {
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some((0..width).map(|column| row.get(column)).collect::<rusqlite::Result<_>>()?))
}

/// Returns the URI of a path with any bytes, as `ATTACH` accepts it.
fn uri(path: &Path, parameters: &str) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                uri.push(char::from(*byte))
            }
            // Writing to a string cannot fail.
            byte => _ = write!(uri, "%{byte:02X}"),
        }
    }
    uri.push('?');
    uri + parameters
}
