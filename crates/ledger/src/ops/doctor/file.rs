//! The file: does it open as ours, do its pages fit together, who can read it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::Connection;

use super::finding::{Findings, REBUILD, RESCUE, SYNC, Tally, brief};
use super::{Check, Patient};
use crate::base::sidecar::{beside, log_length};
use crate::file::ledger::Ledger;
use crate::file::ledger_path;
use crate::file::schema;
use crate::file::schema::Shape;
use crate::wire::Severity;
use crate::{Error, Result};

pub(super) const CHECK: Check =
    Check { name: "file", fine: "opens, and its pages fit together", run, needs_ledger: true };

/// A log longer than this is kept from being written back by somebody who reads.
const LONG_LOG: u64 = 256 << 20;

/// Free space that is worth a word.
const MUCH_FREE: i64 = 64 << 20;

/// SQLite reports at most this many faults.
const FAULTS: usize = 100;

/// Opens the ledger for reading, or says why it cannot be opened.
pub(super) fn open(path: &Path, findings: &mut Findings) -> Option<Ledger> {
    let error = match Ledger::open_up_to_date(path) {
        Ok(ledger) => return Some(ledger),
        Err(error) => error,
    };
    match error {
        Error::Absent { .. } => {
            findings.error(
                "there is no ledger: nothing is kept",
                "run `quipu sync` to make one, or say where it is with --ledger",
            );
        }
        Error::Newer { .. } => {
            findings.error(error.to_string(), "use the newest quipu with this ledger")
        }
        Error::Older { .. } => findings.warning(
            error.to_string(),
            "run `quipu sync` to bring it up to date, then check again; of a backup, restore a copy \
             (`quipu backup --restore FILE --ledger NEW`) and check that",
        ),
        Error::NoRoom { .. } => findings.error(
            format!("the ledger cannot be checked: {error}"),
            "make room on that disk, then check again; nothing is wrong with what is in the ledger",
        ),
        Error::NotALedger { .. } => findings.error(error.to_string(), RESCUE),
        Error::Io { source, .. } => findings.error(
            format!("the ledger cannot be opened: {source}"),
            "make the file readable for you, or name another with --ledger",
        ),
        error => findings.unfinished(&error),
    }
    None
}

fn run(patient: &mut Patient<'_>, findings: &mut Findings) -> Result<()> {
    surroundings(patient.path, findings);
    let is_deep = patient.is_deep;
    let conn = patient.conn()?;
    pages(conn, is_deep, findings)?;
    length(conn, patient.path, findings)?;
    shape(conn, findings)?;
    identity(conn, findings)
}

/// What can be said without opening it.
fn surroundings(path: &Path, findings: &mut Findings) {
    let mut open_to_others = Tally::default();
    for file in ["", "-wal", "-shm"].map(|suffix| beside(path, suffix)) {
        if fs::metadata(&file).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0) {
            open_to_others.add(|| file.display().to_string());
        }
    }
    let advice = "run `chmod 600` on these files";
    let what = "other users of this machine may read or change the ledger";
    findings.tally(Severity::Warning, open_to_others, what, advice);
    if let Err(error) = ledger_path::refuse_remote(path) {
        findings.warning(error.to_string(), "move the ledger to a disk of this machine");
    }
    let log = log_length(path);
    if log > LONG_LOG {
        findings.note(
            format!("the write-ahead log is {} MB long", log >> 20),
            "end what has been reading the ledger for long; the next sync then shortens the log",
        );
    }
}

/// SQLite's own check: structure of every page, and with `is_deep` every index against its table.
fn pages(conn: &Connection, is_deep: bool, findings: &mut Findings) -> Result<()> {
    let check = if is_deep { "integrity_check" } else { "quick_check" };
    let mut statement = conn.prepare(&format!("PRAGMA {check}({FAULTS})"))?;
    let mut rows = statement.query([])?;
    let mut faults = Tally::default();
    let mut search = Tally::default();
    loop {
        let fault: String = match rows.next() {
            Ok(Some(row)) => row.get(0)?,
            Ok(None) => break,
            Err(error) => error.to_string(),
        };
        // One answer may hold many faults, and says first which database it speaks of.
        for fault in fault.lines().filter(|line| *line != "ok" && !line.starts_with("***")) {
            match fault {
                // The search index is derived; nothing is lost with it.
                fault if fault.contains("FTS5") => search.add(|| brief(fault)),
                fault => faults.add(|| brief(fault)),
            }
        }
        if faults.count + search.count >= FAULTS as u64 {
            break;
        }
    }
    findings.tally(Severity::Error, faults, "pages of the file do not fit together", RESCUE);
    findings.tally(Severity::Error, search, "the search index is damaged", REBUILD);
    let mut broken = Tally::default();
    let mut statement = conn.prepare("PRAGMA foreign_key_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (table, row): (String, Option<i64>) = (row.get(0)?, row.get(1)?);
        broken.add(|| format!("{table} {}", row.unwrap_or_default()));
    }
    findings.tally(Severity::Error, broken, "rows refer to rows that are not there", RESCUE);
    Ok(())
}

/// Is the file as long as it says? And how much of that is unused?
fn length(conn: &Connection, path: &Path, findings: &mut Findings) -> Result<()> {
    let number =
        |name: &str| -> Result<i64> { Ok(conn.pragma_query_value(None, name, |row| row.get(0))?) };
    let (pages, size, free) =
        (number("page_count")?, number("page_size")?, number("freelist_count")?);
    let says = pages.saturating_mul(size);
    let has_log = log_length(path) > 0;
    let is = fs::metadata(path).map_err(Error::io("look at", path))?.len();
    // What is still in the log has not reached the file.
    if !has_log && says.cast_unsigned() != is {
        findings.error(format!("the file is {is} bytes long, and says {says}"), RESCUE);
    }
    let unused = free.saturating_mul(size);
    if unused > MUCH_FREE && unused > says / 4 {
        findings.note(
            format!("{} MB of the file are unused", unused >> 20),
            "nothing need be done; the next sync that changes something gives them back",
        );
    }
    let mode: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        findings.note("it is a backup, or was restored by hand: it has no write-ahead log", SYNC);
    }
    Ok(())
}

/// Are the tables those of this version?
fn shape(conn: &Connection, findings: &mut Findings) -> Result<()> {
    let version: i64 =
        conn.query_row("SELECT projection_version FROM ledger", [], |row| row.get(0))?;
    let is_current = version == schema::projection_version();
    if version < schema::projection_version() {
        let what = "another version of quipu derived what is readable";
        findings.note(what, "nothing need be done; the next sync derives it again");
    } else if !is_current {
        let what = "a newer quipu derived what is readable, or the number that says so is damaged";
        findings.error(what, "use the newest quipu with this ledger, or `quipu rebuild`");
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
    let mut other = Tally::default();
    // Tables of truth may have been altered on their way here: what they are counts.
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
        // The tables of another version look otherwise, and are made anew.
        if is_current || !derived.contains(&object.table) {
            other.add(|| object.name.clone());
        }
    }
    findings.tally(Severity::Error, other, "tables are not those that quipu made", RESCUE);
    Ok(())
}

#[derive(PartialEq, Eq)]
struct Object {
    name: String,
    table: String,
    sql: Option<String>,
    /// A table of truth, or an index of one.
    is_truth: bool,
}

fn objects(conn: &Connection) -> Result<Vec<Object>> {
    // What a person's own tools added (Datasette's, ANALYZE's) is none of our business.
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

/// Does it say who it is?
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
        findings.error("the ledger does not say who it is", RESCUE);
    }
    Ok(())
}
