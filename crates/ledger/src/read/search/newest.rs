//! The newest of many entries, by the clocks of the agents.
//!
//! Entries are numbered in the order of collection, which after an import is not the order of time.
//! A few entries are looked up one by one. For many entries, sessions are read from the most
//! recently active one, until no further session can hold a newer entry.

use std::cmp::Reverse;

use quipu_fts5::RowIdSet;
use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::ids::{EntryId, SessionRow};

/// The number of entries up to which each is looked up by its id. For more, reading by session is
/// less work.
const MAX_SINGLE_LOOKUPS: usize = 4000;

/// The time of an entry, and its id. Later times are greater, and an entry without a time is the
/// oldest.
pub(crate) type Timed = (Option<i64>, EntryId);

/// Returns the `limit` newest of `items`, newest first. `items` are in the order of their entries.
pub(crate) fn newest<T>(
    conn: &Connection,
    items: &[T],
    entry_of: impl Fn(&T) -> EntryId,
    limit: usize,
) -> Result<Vec<Timed>> {
    let mut found = Vec::new();
    if items.len() <= MAX_SINGLE_LOOKUPS.max(limit) {
        for entry in items.iter().map(entry_of) {
            found.push((time(conn, entry)?, entry));
        }
    } else {
        let provisional = items.partition_point(|item| entry_of(item).seq().is_none());
        let regular = items.get(provisional..).unwrap_or_default();
        let is_wanted = |entry: EntryId| regular.binary_search_by_key(&entry, &entry_of).is_ok();
        let provisional = items.iter().take(provisional).map(&entry_of);
        found = by_session(conn, provisional, &is_wanted, limit)?;
    }
    keep_newest(&mut found, limit);
    Ok(found)
}

/// Returns the `limit` newest of a set of entries, newest first.
pub(crate) fn newest_of(conn: &Connection, entries: &RowIdSet, limit: usize) -> Result<Vec<Timed>> {
    let mut found = Vec::new();
    if entries.len() <= MAX_SINGLE_LOOKUPS.max(limit) {
        let mut all: Vec<EntryId> = entries.iter().map(EntryId::from).collect();
        add_times(conn, &mut all, &mut found)?;
    } else {
        let is_wanted = |entry: EntryId| entries.contains(entry.into());
        found = by_session(conn, entries.negative().map(EntryId::from), &is_wanted, limit)?;
    }
    keep_newest(&mut found, limit);
    Ok(found)
}

fn time(conn: &Connection, entry: EntryId) -> Result<Option<i64>> {
    Ok(conn
        .prepare_cached("SELECT time FROM entry_rows WHERE id = ?1")?
        .query_row([entry], |row| row.get(0))
        .optional()?
        .flatten())
}

fn by_session(
    conn: &Connection,
    provisional: impl Iterator<Item = EntryId>,
    is_wanted: &dyn Fn(EntryId) -> bool,
    limit: usize,
) -> Result<Vec<Timed>> {
    // Entries without a session, and provisional entries, which are not counted in their sessions.
    let mut found = Vec::new();
    for entry in provisional {
        found.push((time(conn, entry)?, entry));
    }
    add_of_session(conn, None, is_wanted, &mut found)?;
    keep_newest(&mut found, limit);
    let mut statement = conn.prepare_cached(
        "SELECT id, updated_at FROM sessions INDEXED BY sessions_by_time ORDER BY updated_at DESC",
    )?;
    let mut sessions = statement.query([])?;
    while let Some(row) = sessions.next()? {
        let (session, updated_at): (SessionRow, Option<i64>) = (row.get(0)?, row.get(1)?);
        let is_full = found.len() >= limit;
        if is_full && found.last().is_some_and(|oldest| oldest.0 > updated_at) {
            break;
        }
        let before = found.len();
        add_of_session(conn, Some(session), is_wanted, &mut found)?;
        if found.len() > before {
            keep_newest(&mut found, limit);
        }
    }
    Ok(found)
}

fn keep_newest(found: &mut Vec<Timed>, limit: usize) {
    found.sort_unstable_by_key(|timed| Reverse(*timed));
    found.truncate(limit);
}

/// Adds the wanted entries of a session.
fn add_of_session(
    conn: &Connection,
    session: Option<SessionRow>,
    is_wanted: &dyn Fn(EntryId) -> bool,
    found: &mut Vec<Timed>,
) -> Result<()> {
    // Reads only the index. The rows of the few that are wanted are read later.
    let mut statement = conn.prepare_cached(
        "SELECT id FROM entry_rows INDEXED BY entries_by_session WHERE session IS ?1",
    )?;
    let mut rows = statement.query([session])?;
    let mut wanted = Vec::new();
    while let Some(row) = rows.next()? {
        let entry = row.get(0)?;
        if is_wanted(entry) {
            wanted.push(entry);
        }
    }
    add_times(conn, &mut wanted, found)
}

/// Adds the times of entries. Entries with ids close together are read with one query.
fn add_times(conn: &Connection, entries: &mut [EntryId], found: &mut Vec<Timed>) -> Result<()> {
    /// The number of entries below which each is looked up by its id: one query for all saves
    /// nothing.
    const MIN_FOR_RANGE: usize = 16;
    /// The number of rows that may be read for each wanted entry, before lookups by id are less
    /// work.
    const MAX_ROWS_PER_ENTRY: i64 = 8;
    entries.sort_unstable();
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
    let is_dense = last.0.saturating_sub(first.0) / MAX_ROWS_PER_ENTRY < entries.len() as i64;
    if entries.len() < MIN_FOR_RANGE || !is_dense {
        for entry in entries {
            found.push((time(conn, *entry)?, *entry));
        }
        return Ok(());
    }
    let mut statement =
        conn.prepare_cached("SELECT id, time FROM entry_rows WHERE id BETWEEN ?1 AND ?2")?;
    let mut rows = statement.query((first, last))?;
    let mut wanted = entries.iter().copied().peekable();
    while let Some(row) = rows.next()? {
        let entry: EntryId = row.get(0)?;
        while let Some(absent) = wanted.next_if(|wanted| *wanted < entry) {
            found.push((None, absent));
        }
        if wanted.next_if_eq(&entry).is_some() {
            found.push((row.get(1)?, entry));
        }
    }
    found.extend(wanted.map(|absent| (None, absent)));
    Ok(())
}
