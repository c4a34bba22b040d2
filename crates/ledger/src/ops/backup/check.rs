//! Checks a copy before it gets its name, and before it replaces a ledger.
//!
//! SQLite's quick check finds inconsistent pages; opening every chunk finds flipped bits in
//! collected bytes. Both read the whole file once, which costs about as much as copying it.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::copy;
use crate::file::ledger_path::{FoundAtPath, inspect};
use crate::file::schema::{self, Derived};
use crate::ops::doctor::brief;
use crate::project::family::is_subagent;
use crate::truth::chunks::verify;
use crate::truth::sums;
use crate::{Error, Result};

/// The contents of a copy.
#[derive(Debug, Clone)]
pub(super) struct Summary {
    pub(super) bytes: u64,
    pub(super) records: u64,
    pub(super) sessions: u64,
    pub(super) subagents: u64,
    /// The id of the copied ledger.
    pub(super) ledger_id: String,
}

/// Checks the copy at `path`, which errors call `name`. `progress` gets the number of checked bytes
/// and of all bytes.
pub(super) fn check(
    path: &Path,
    name: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Summary> {
    if let FoundAtPath::Nothing = inspect(path)? {
        return Err(Error::Absent { path: name.to_owned() });
    }
    let bytes = fs::metadata(path).map_err(Error::io("look at", path))?.len();
    let conn = copy::open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let unsound = |what: String| Error::Unsound { path: name.to_owned(), what };
    inspect_inside(&conn, name, bytes, progress).map_err(|error| match error {
        // A file that SQLite cannot read is damaged.
        Error::Sqlite(error) => unsound(brief(&error.to_string())),
        Error::Damaged { what } | Error::Shape { what, .. } => unsound(what),
        error => error,
    })
}

fn inspect_inside(
    conn: &Connection,
    name: &Path,
    bytes: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Summary> {
    let number = |query: &str| -> Result<i64> { Ok(conn.query_row(query, [], |row| row.get(0))?) };
    let found = number("PRAGMA user_version")?;
    if found > schema::truth_version() || found < 1 {
        let known = schema::truth_version();
        return Err(Error::Newer { path: name.to_owned(), found, known });
    }
    if let Derived::Newer { found, known } = schema::derived(conn)? {
        return Err(Error::Newer { path: name.to_owned(), found, known });
    }
    let pages = number("PRAGMA page_count")?.saturating_mul(number("PRAGMA page_size")?);
    if pages.cast_unsigned() != bytes {
        return Err(Error::damaged(format!(
            "it is {bytes} bytes long, but its header says {pages}"
        )));
    }
    progress(0, bytes);
    let first: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if first != "ok" {
        return Err(Error::damaged(brief(&first)));
    }
    schema::rehearse_migration(conn)?;
    let mut damaged = None;
    verify::open_all(conn, &mut |bad| _ = damaged.get_or_insert(bad), &mut |done| {
        progress(done.min(bytes), bytes);
    })?;
    if let Some(bad) = damaged {
        return Err(Error::damaged(format!(
            "records {} to {} cannot be read",
            bad.first_seq, bad.last_seq
        )));
    }
    let mut damaged = None;
    sums::check_all(conn, &mut |bad| _ = damaged.get_or_insert(bad))?;
    if let Some(bad) = damaged {
        return Err(Error::damaged(format!("{bad} does not match its checksum")));
    }
    progress(bytes, bytes);
    let count = |query| number(query).map(i64::cast_unsigned);
    let all_sessions = count("SELECT count(*) FROM sessions")?;
    // The tables of an older version may not say which sessions are sub-agents.
    let subagents =
        count(concat!("SELECT count(*) FROM sessions s WHERE ", is_subagent!())).unwrap_or(0);
    Ok(Summary {
        bytes,
        records: count(
            "SELECT coalesce(sum(g.records), 0)
               FROM generations g JOIN sources s ON s.id = g.source WHERE s.kind <> 'journal'",
        )?,
        sessions: all_sessions.saturating_sub(subagents),
        subagents,
        ledger_id: conn.query_row("SELECT ledger_id FROM ledger", [], |row| row.get(0))?,
    })
}
