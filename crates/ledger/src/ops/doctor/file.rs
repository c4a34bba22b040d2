//! Checks the file: it opens as a ledger, its pages are consistent, and only its owner can read it.
//!
//! Never repairs anything.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::Connection;

use super::finding::{Findings, REBUILD, RESCUE, SYNC, Tally, brief};
use super::{Check, Examined};
use crate::base::sidecar::{beside, log_length};
use crate::file::ledger::Ledger;
use crate::file::ledger_path;
use crate::file::schema;
use crate::file::schema::Shape;
use crate::wire::Severity;
use crate::{Error, Result};

pub(super) const CHECK: Check =
    Check { name: "file", fine: "opens, and its pages are consistent", run, needs_ledger: true };

/// The length, in bytes, at which a log is reported: only a long-running reader keeps it that long.
const LARGE_LOG_BYTES: u64 = 256 << 20;

/// The size, in bytes, at which unused space is reported.
const LARGE_FREE_BYTES: i64 = 64 << 20;

/// The largest number of faults that SQLite reports.
const MAX_FAULTS: usize = 100;

/// Opens the ledger for reading. Adds a finding if it cannot be opened.
pub(super) fn open(asked: &Path, findings: &mut Findings) -> Option<Ledger> {
    let error = match Ledger::open_up_to_date(asked) {
        Ok(ledger) => return Some(ledger),
        Err(error) => error,
    };
    match error {
        Error::Absent { .. } => {
            findings.error(
                "there is no ledger",
                "run `quipu sync` to create one, or name it with --ledger",
            );
        }
        Error::Newer { .. } => {
            findings.error(error.to_string(), "use a newer quipu with this ledger")
        }
        Error::Older { .. } => findings.warning(
            error.to_string(),
            "run `quipu sync` to migrate it, then check again; for a backup, restore a copy \
             (`quipu backup --restore FILE --ledger NEW`) and check that",
        ),
        Error::NoRoom { .. } => findings.error(
            format!("the ledger cannot be checked: {error}"),
            "free some space on that disk, then check again; the ledger itself is not damaged",
        ),
        Error::Companion { .. } => findings.error(
            format!("the ledger cannot be checked: {error}"),
            "move it away or remove it, then check again",
        ),
        Error::NotALedger { .. } => findings.error(error.to_string(), RESCUE),
        Error::Io { ref path, ref source, .. } => findings.error(
            format!("the ledger cannot be opened: {error}: {source}"),
            match path == asked {
                true => "make the file readable, or name another ledger with --ledger",
                false => "give the file the owner and the mode of the ledger, then check again",
            },
        ),
        error => findings.unfinished(&error),
    }
    None
}

fn run(examined: &mut Examined<'_>, findings: &mut Findings) -> Result<()> {
    surroundings(examined.path, findings);
    let is_deep = examined.is_deep;
    let conn = examined.conn()?;
    pages(conn, is_deep, findings)?;
    length(conn, examined.path, findings)?;
    if examined.ledger.as_ref().is_some_and(|ledger| !ledger.has_log()) {
        findings.note("it is a backup or was copied by hand: it has no write-ahead log", SYNC);
    }
    shape(conn, findings)?;
    identity(conn, findings)
}

/// Checks permissions, file system and log, without opening the file.
fn surroundings(path: &Path, findings: &mut Findings) {
    let mut open_to_others = Tally::default();
    for file in ["", "-wal", "-shm"].map(|suffix| beside(path, suffix)) {
        if fs::metadata(&file).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0) {
            open_to_others.add(|| file.display().to_string());
        }
    }
    let advice = "run `chmod 600` on these files";
    let what = "files of the ledger that other users of this machine can read or change";
    findings.tally(Severity::Warning, open_to_others, what, advice);
    if let Err(error) = ledger_path::refuse_remote(path) {
        findings.warning(error.to_string(), "move the ledger to a local disk");
    }
    let log = log_length(path);
    if log > LARGE_LOG_BYTES {
        findings.note(
            format!("the write-ahead log is {} MB long", log >> 20),
            "stop the process that has been reading the ledger for a long time; then the next sync shortens the log",
        );
    }
}

/// Runs SQLite's own check: the structure of every page, and if `is_deep` every index against its
/// table.
fn pages(conn: &Connection, is_deep: bool, findings: &mut Findings) -> Result<()> {
    let check = if is_deep { "integrity_check" } else { "quick_check" };
    let mut statement = conn.prepare(&format!("PRAGMA {check}({MAX_FAULTS})"))?;
    let mut rows = statement.query([])?;
    let mut faults = Tally::default();
    let mut search = Tally::default();
    loop {
        let fault: String = match rows.next() {
            Ok(Some(row)) => row.get(0)?,
            Ok(None) => break,
            Err(error) => error.to_string(),
        };
        // One row may hold many faults; its first line names the database.
        for fault in fault.lines().filter(|line| *line != "ok" && !line.starts_with("***")) {
            match fault {
                // The search index is derived, so nothing is lost with it.
                fault if fault.contains("FTS5") => search.add(|| brief(fault)),
                fault => faults.add(|| brief(fault)),
            }
        }
        if faults.count + search.count >= MAX_FAULTS as u64 {
            break;
        }
    }
    findings.tally(Severity::Error, faults, "inconsistent pages of the file", RESCUE);
    findings.tally(Severity::Error, search, "faults of the search index", REBUILD);
    references(conn, findings)
}

/// Checks that every row to which another one refers exists.
fn references(conn: &Connection, findings: &mut Findings) -> Result<()> {
    let derived = schema::projection_tables(conn)?;
    let (mut in_truth, mut in_projection) = (Tally::default(), Tally::default());
    let mut statement = conn.prepare("PRAGMA foreign_key_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (table, row): (String, Option<i64>) = (row.get(0)?, row.get(1)?);
        let is_derived = derived.contains(&table);
        let broken = if is_derived { &mut in_projection } else { &mut in_truth };
        broken.add(|| format!("{table} {}", row.unwrap_or_default()));
    }
    findings.tally(Severity::Error, in_truth, "rows that refer to missing rows", RESCUE);
    let what = "derived rows that refer to missing rows";
    findings.tally(Severity::Error, in_projection, what, REBUILD);
    Ok(())
}

/// Checks the length of the file against its header, and reports unused space.
fn length(conn: &Connection, path: &Path, findings: &mut Findings) -> Result<()> {
    let number =
        |name: &str| -> Result<i64> { Ok(conn.pragma_query_value(None, name, |row| row.get(0))?) };
    let (pages, size, free) =
        (number("page_count")?, number("page_size")?, number("freelist_count")?);
    let in_header = pages.saturating_mul(size);
    let has_log = log_length(path) > 0;
    let on_disk = fs::metadata(path).map_err(Error::io("look at", path))?.len();
    // Pages in the log are not in the file yet.
    if !has_log && in_header.cast_unsigned() != on_disk {
        findings.error(
            format!("the file is {on_disk} bytes long, but its header says {in_header}"),
            RESCUE,
        );
    }
    let unused = free.saturating_mul(size);
    if unused > LARGE_FREE_BYTES && unused > in_header / 4 {
        findings.note(
            format!("{} MB of the file are unused", unused >> 20),
            "nothing to do; the next sync that changes something frees them",
        );
    }
    Ok(())
}

/// Checks that the tables are those of this version.
fn shape(conn: &Connection, findings: &mut Findings) -> Result<()> {
    let version: i64 =
        conn.query_row("SELECT projection_version FROM ledger", [], |row| row.get(0))?;
    let is_current = version == schema::projection_version();
    if version < schema::projection_version() {
        let what = "the readable tables are from another version of quipu";
        findings.note(what, "nothing to do; the next sync rebuilds them");
    } else if !is_current {
        let what = "the readable tables are from a newer quipu, or their version number is damaged";
        findings.error(what, "use a newer quipu with this ledger, or run `quipu rebuild`");
    }
    let truth: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if truth != schema::truth_version() {
        return Ok(());
    }
    let mut fresh = Connection::open_in_memory()?;
    let tx = fresh.transaction()?;
    schema::create_truth(&tx)?;
    schema::create_projection(&tx)?;
    tx.commit()?;
    let (expected, found) = (objects(&fresh)?, objects(conn)?);
    let derived = schema::projection_tables(conn)?;
    let (mut other, mut foreign) = (Tally::default(), Tally::default());
    let is_ours = |table: &String| expected.iter().any(|object| object.table == *table);
    // Migrations alter tables of truth, so their shape is compared and not their SQL.
    let truth = |conn| Shape::of(conn, schema::TRUTH_TABLES);
    if let Some(difference) = truth(&fresh)?.difference(&truth(conn)?) {
        other.add(|| difference);
    }
    for object in expected
        .iter()
        .filter(|object| !found.contains(object))
        .chain(found.iter().filter(|object| !expected.contains(object)))
        .filter(|object| !object.is_truth)
    {
        // Projection tables of another version differ, and are replaced by the next sync.
        if !is_current && derived.contains(&object.table) {
            continue;
        }
        let tally = if is_ours(&object.table) { &mut other } else { &mut foreign };
        tally.add(|| object.name.clone());
    }
    findings.tally(
        Severity::Error,
        other,
        "tables that differ from those that quipu creates",
        RESCUE,
    );
    findings.tally(
        Severity::Warning,
        foreign,
        "tables that quipu did not create",
        "keep your own tables in another file: the next rebuild removes them",
    );
    Ok(())
}

#[derive(PartialEq, Eq)]
struct Object {
    name: String,
    table: String,
    sql: Option<String>,
    /// True for a table of truth, or an index of one.
    is_truth: bool,
}

fn objects(conn: &Connection) -> Result<Vec<Object>> {
    // SQLite's own tables are ignored, such as those that ANALYZE adds.
    let mut statement = conn.prepare(
        "SELECT name, tbl_name, sql, type IN ('table', 'index') FROM sqlite_schema
          WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )?;
    let objects = statement.query_map([], |row| {
        let table: String = row.get(1)?;
        let is_truth = row.get(3)? && schema::TRUTH_TABLES.contains(&table.as_str());
        Ok(Object { name: row.get(0)?, table, sql: row.get(2)?, is_truth })
    })?;
    Ok(objects.collect::<Result<_, _>>()?)
}

/// Checks the ledger's ids.
fn identity(conn: &Connection, findings: &mut Findings) -> Result<()> {
    let mut statement = conn.prepare("SELECT ledger_id, epoch, created_at FROM ledger")?;
    let rows = statement.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
    })?;
    let rows: Vec<_> = rows.collect::<Result<_, _>>()?;
    let is_uuid = |id: &str| uuid::Uuid::try_parse(id).is_ok();
    let is_fine = match rows.as_slice() {
        [(id, epoch, created)] => is_uuid(id) && is_uuid(epoch) && *created > 0,
        _ => false,
    };
    if !is_fine {
        findings.error("the ledger has no id", RESCUE);
    }
    Ok(())
}
