//! Finds the newest of many entries, by the times that agents recorded.
//!
//! Entry ids follow the order of collection. After an import that is not the order of time. The
//! times of a few entries are looked up one by one. For many entries, sessions are read by their
//! last activity, the newest first, until no later session can hold a newer entry.

use std::cmp::Reverse;

use quipu_fts5::RowIdSet;
use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::ids::{EntryId, SessionRow};

/// The largest number of entries that are looked up by id. For more entries, reading by session is
/// faster.
const MAX_SINGLE_LOOKUPS: usize = 4000;

/// The time of an entry, and its id. Later times are greater, and an entry without a time is the
/// oldest.
pub(crate) type Timed = (Option<i64>, EntryId);

/// Returns the `limit` newest of `items`, newest first. `items` must be sorted by entry.
pub(crate) fn newest_of_list<T>(
    conn: &Connection,
    items: &[T],
    entry_of: impl Fn(&T) -> EntryId,
    limit: usize,
) -> Result<Vec<Timed>> {
    let mut found = Vec::new();
    if items.len() <= MAX_SINGLE_LOOKUPS.max(limit) {
        for entry in items.iter().map(entry_of) {
            found.push((time_of(conn, entry)?, entry));
        }
    } else {
        let n_provisional = items.partition_point(|item| entry_of(item).seq().is_none());
        let regular = items.get(n_provisional..).unwrap_or_default();
        let is_wanted = |entry: EntryId| regular.binary_search_by_key(&entry, &entry_of).is_ok();
        let provisional = items.iter().take(n_provisional).map(&entry_of);
        found = by_session(conn, provisional, &is_wanted, limit)?;
    }
    keep_newest(&mut found, limit);
    Ok(found)
}

/// Returns the `limit` newest of a set of entries, newest first.
pub(crate) fn newest_of_set(
    conn: &Connection,
    entries: &RowIdSet,
    limit: usize,
) -> Result<Vec<Timed>> {
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

/// Returns the recorded time of an entry.
fn time_of(conn: &Connection, entry: EntryId) -> Result<Option<i64>> {
    Ok(conn
        .prepare_cached("SELECT time FROM entry_rows WHERE id = ?1")?
        .query_row([entry], |row| row.get(0))
        .optional()?
        .flatten())
}

/// Reads sessions, the most recently active first, until no later session can hold a newer entry.
fn by_session(
    conn: &Connection,
    provisional: impl Iterator<Item = EntryId>,
    is_wanted: &dyn Fn(EntryId) -> bool,
    limit: usize,
) -> Result<Vec<Timed>> {
    // The time of a session's last activity does not cover provisional entries, and some entries
    // have no session. Both are read first.
    let mut found = Vec::new();
    for entry in provisional {
        found.push((time_of(conn, entry)?, entry));
    }
    add_entries_of_session(conn, None, is_wanted, &mut found)?;
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
        add_entries_of_session(conn, Some(session), is_wanted, &mut found)?;
        if found.len() > before {
            keep_newest(&mut found, limit);
        }
    }
    Ok(found)
}

/// Sorts by time, newest first, and drops all but `limit`.
fn keep_newest(found: &mut Vec<Timed>, limit: usize) {
    found.sort_unstable_by_key(|timed| Reverse(*timed));
    found.truncate(limit);
}

/// Adds the wanted entries of a session.
fn add_entries_of_session(
    conn: &Connection,
    session: Option<SessionRow>,
    is_wanted: &dyn Fn(EntryId) -> bool,
    found: &mut Vec<Timed>,
) -> Result<()> {
    // Reads only the index. `add_times` reads the rows of the wanted entries.
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

/// Adds entries with their times. Reads them with one query if their ids are close together.
fn add_times(conn: &Connection, entries: &mut [EntryId], found: &mut Vec<Timed>) -> Result<()> {
    /// The smallest number of entries for one query over a range of ids.
    const MIN_FOR_RANGE: usize = 16;
    /// The largest number of rows to read per wanted entry. Above it, lookups by id are faster.
    const MAX_ROWS_PER_ENTRY: i64 = 8;
    entries.sort_unstable();
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
    let is_dense = last.0.saturating_sub(first.0) / MAX_ROWS_PER_ENTRY < entries.len() as i64;
    if entries.len() < MIN_FOR_RANGE || !is_dense {
        for entry in entries {
            found.push((time_of(conn, *entry)?, *entry));
        }
        return Ok(());
    }
    let mut statement =
        conn.prepare_cached("SELECT id, time FROM entry_rows WHERE id BETWEEN ?1 AND ?2")?;
    let mut rows = statement.query((first, last))?;
    let mut wanted = entries.iter().copied().peekable();
    while let Some(row) = rows.next()? {
        let entry: EntryId = row.get(0)?;
        while let Some(unknown) = wanted.next_if(|next| *next < entry) {
            found.push((None, unknown));
        }
        if wanted.next_if_eq(&entry).is_some() {
            found.push((row.get(1)?, entry));
        }
    }
    found.extend(wanted.map(|unknown| (None, unknown)));
    Ok(())
}
