//! Projects all records into a temporary database and compares that with the ledger's projection.
//! So a single flipped bit in a row, or in a posting of the search index, is found.

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Rows, Transaction};

use super::DoctorProgress;
use super::finding::{Findings, REBUILD, Tally};
use crate::Result;
use crate::base::paths::sqlite_uri;
use crate::file::ledger::{Ledger, set_up};
use crate::file::schema;
use crate::project::rebuild;
use crate::wire::Severity;

/// Derives the projection again and reports every table that differs from the ledger's. Returns
/// false if they cannot be compared, because collected records are not projected yet.
pub(super) fn compare(
    ledger: &Ledger,
    progress: &mut dyn FnMut(DoctorProgress),
    findings: &mut Findings,
) -> Result<bool> {
    // For an empty name SQLite creates a temporary file and removes it with the connection. Truth
    // tables exist only in the attached ledger, so their names mean the ledger's. Projection tables
    // are created in the temporary file, so their names mean the new ones.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags("", flags)?;
    set_up(&conn)?;
    conn.pragma_update(None, "journal_mode", "OFF")?;
    conn.pragma_update(None, "synchronous", "OFF")?;
    // A ledger that is open as immutable is attached as immutable: SQLite may be unable to create a
    // log beside it.
    let parameters = if ledger.is_immutable() { "mode=ro&immutable=1" } else { "mode=ro" };
    conn.execute("ATTACH ?1 AS ledger_file", [sqlite_uri(ledger.path(), parameters)])?;
    let tx = conn.transaction()?;
    let (projected_to, last_record): (i64, i64) = tx.query_row(
        "SELECT projected_to, (SELECT coalesce(max(seq), 0) FROM ledger_file.records)
           FROM ledger_file.ledger",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let is_behind = projected_to < last_record;
    if projected_to > last_record
        || (is_behind && rebuild::has_other_than_appended(&tx, projected_to)?)
    {
        return Ok(false);
    }
    schema::create_projection(&tx)?;
    tx.execute_batch(
        "CREATE TABLE ledger AS SELECT * FROM ledger_file.ledger;
         UPDATE ledger SET projected_to = 0",
    )?;
    rebuild::replay(&tx, projected_to, &mut |done, total| {
        progress(DoctorProgress { doing: "deriving", done, total });
    })?;
    tx.execute_batch(
        "CREATE VIRTUAL TABLE temp.new_terms USING fts5vocab(main, search, instance);
         CREATE VIRTUAL TABLE temp.stored_terms USING fts5vocab(ledger_file, search, instance)",
    )?;
    // A projection that is behind is either complete up to that record, or a rebuild has not
    // finished it.
    if is_behind && differing(&tx, ledger.conn())?.is_none() {
        return Ok(true);
    }
    rebuild::finish(&tx)?;
    let Some((tables, is_index)) = differing(&tx, ledger.conn())? else { return Ok(true) };
    let what = "tables that differ from the stored raw data";
    findings.tally(Severity::Error, tables, what, REBUILD);
    if is_index {
        findings.error("the search index differs from the stored raw data", REBUILD);
    }
    Ok(true)
}

/// Returns the tables that differ, and whether the search index does; `None` if nothing differs.
fn differing(tx: &Transaction<'_>, stored: &Connection) -> Result<Option<(Tally, bool)>> {
    let mut tables = Tally::default();
    let mut is_same = true;
    for table in schema::projection_tables(tx)? {
        if table != "search" && !has_same_rows(tx, &table, &columns(stored, &table)?)? {
            tables.add(|| table.clone());
            is_same = false;
        }
    }
    let terms = |table: &str| format!("SELECT term, doc, col, offset FROM temp.{table}");
    let sizes = |schema: &str| format!("SELECT id, sz FROM {schema}.search_docsize ORDER BY id");
    let is_index = !same_results(tx, &terms("new_terms"), &terms("stored_terms"))?
        || !same_results(tx, &sizes("main"), &sizes("ledger_file"))?;
    Ok((is_index || !is_same).then_some((tables, is_index)))
}

/// Returns the columns of a table for a `SELECT`, the primary key first. Empty if the table does
/// not exist.
fn columns(conn: &Connection, table: &str) -> Result<String> {
    let mut statement = conn.prepare(
        "SELECT name, pk FROM pragma_table_info(?1) ORDER BY CASE pk WHEN 0 THEN 1000 ELSE pk END",
    )?;
    let names = statement.query_map([table], |row| row.get::<_, String>(0))?;
    let names: Vec<String> = names.collect::<Result<_, _>>()?;
    Ok(names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", "))
}

/// Returns whether a table has the same rows in both databases. A table that the ledger lacks
/// differs.
fn has_same_rows(conn: &Connection, table: &str, columns: &str) -> Result<bool> {
    if columns.is_empty() {
        return Ok(false);
    }
    let rows =
        |schema: &str| format!("SELECT {columns} FROM {schema}.\"{table}\" ORDER BY {columns}");
    same_results(conn, &rows("main"), &rows("ledger_file"))
}

/// Returns whether two queries return the same rows in the same order.
fn same_results(conn: &Connection, one: &str, other: &str) -> Result<bool> {
    let (mut one, mut other) = (conn.prepare(one)?, conn.prepare(other)?);
    let width = one.column_count();
    let (mut one, mut other) = (one.query([])?, other.query([])?);
    loop {
        match (next_row(&mut one, width)?, next_row(&mut other, width)?) {
            (None, None) => return Ok(true),
            (a, b) if a == b => {}
            _ => return Ok(false),
        }
    }
}

fn next_row(rows: &mut Rows<'_>, width: usize) -> Result<Option<Vec<Value>>> {
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some((0..width).map(|column| row.get(column)).collect::<rusqlite::Result<_>>()?))
}
