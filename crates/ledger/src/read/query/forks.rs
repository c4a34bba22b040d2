//! Finds forks that no line records: sessions whose lines were copied from another session.
//!
//! An agent may copy the lines of a session into a new file under a new session id. The entries
//! keep their ids, so both sessions have the same first entry, and `sessions_by_first_uuid` finds
//! one from the other. Which of them is the original shows in their first lines, or else in the
//! earliest entry that the other one lacks. Each new line may change that, so it is computed by
//! each query and never stored.

use rusqlite::Connection;

use super::parents::{Parent, Parents};
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};

/// A condition: the first entry of the session `s` has a UUID. Shorter ids repeat by chance.
macro_rules! begins_with_uuid {
    () => {
        "s.first_uuid GLOB '????????-????-????-????-????????????'"
    };
}

/// A session that begins with the same entry.
struct CopiedSession {
    row: SessionRow,
    id: String,
    /// The number of entries that both sessions have.
    shared: i64,
}

/// Returns the session that this one was copied from: among the earlier ones, the one that shares
/// most entries.
pub(crate) fn original(conn: &Connection, session: SessionRow) -> Result<Option<String>> {
    let mut statement = conn.prepare_cached(concat!(
        "SELECT o.id, o.session_id
           FROM sessions s
           JOIN sessions o INDEXED BY sessions_by_first_uuid ON o.first_uuid = s.first_uuid
          WHERE s.id = ?1 AND ",
        begins_with_uuid!(),
        " AND o.id <> s.id AND o.format = s.format AND o.agent = s.agent
            AND s.part <> 'subagent' AND o.part <> 'subagent'
          ORDER BY +o.session_id LIMIT ?2",
    ))?;
    let copies: Vec<(SessionRow, String)> = statement
        .query_map((session, MAX_COPIES), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    if copies.is_empty() {
        return Ok(None);
    }
    let own = conn
        .prepare_cached("SELECT session_id FROM sessions WHERE id = ?1")?
        .query_row([session], |row| row.get::<_, String>(0))?;
    let mut best: Option<CopiedSession> = None;
    for (row, id) in copies {
        if !is_before(conn, (row, &id), (session, &own))? {
            continue;
        }
        let copy = CopiedSession { row, id, shared: shared(conn, row, session)? };
        let is_better = match &best {
            None => true,
            // Sessions that share equally many entries are copies of each other. The oldest is the
            // original.
            Some(best) if best.shared == copy.shared => {
                is_before(conn, (copy.row, &copy.id), (best.row, &best.id))?
            }
            Some(best) => copy.shared > best.shared,
        };
        if is_better {
            best = Some(copy);
        }
    }
    Ok(best.map(|copy| copy.id))
}

/// A session that this one was forked from, or a fork of this one.
pub(crate) struct Fork {
    /// The id of the other session.
    pub(crate) id: String,
    /// The last entry of this session that both have. `None` if they share none, or if it is not
    /// known.
    pub(crate) at: Option<EntryId>,
}

/// Returns the session that this one was forked from, as its lines record or its entries show.
pub(crate) fn from(conn: &Connection, session: SessionRow) -> Result<Option<Fork>> {
    let parent_name: Option<String> = conn
        .prepare_cached("SELECT fork_of FROM sessions WHERE id = ?1")?
        .query_row([session], |row| row.get(0))?;
    let Some(parent_name) =
        parent_name.map_or_else(|| original(conn, session), |parent_name| Ok(Some(parent_name)))?
    else {
        return Ok(None);
    };
    match Parents::default().find(conn, session, &parent_name)? {
        Some(Parent { row, id }) => {
            Ok(Some(Fork { id, at: last_shared_entry(conn, session, row)? }))
        }
        None => Ok(Some(Fork { id: parent_name, at: None })),
    }
}

/// Returns the forks of this session, oldest first.
pub(crate) fn into(conn: &Connection, session: SessionRow) -> Result<Vec<Fork>> {
    let mut statement = conn.prepare_cached(concat!(
        "SELECT o.id, o.session_id, nullif(o.fork_of, s.session_id), o.fork_of IS NULL
           FROM sessions s
           JOIN sessions o ON o.id <> s.id
            AND (o.fork_of = s.session_id
                 OR (NOT EXISTS (SELECT 1 FROM sessions WHERE session_id = o.fork_of)
                     AND o.fork_of IS NOT NULL AND o.format = s.format AND o.agent = s.agent)
                 OR (o.fork_of IS NULL AND o.first_uuid = s.first_uuid
                     AND ",
        begins_with_uuid!(),
        "            AND o.format = s.format AND o.agent = s.agent
                     AND s.part <> 'subagent' AND o.part <> 'subagent'))
          WHERE s.id = ?1
          ORDER BY o.started_at, o.id",
    ))?;
    let found: Vec<(SessionRow, String, Option<String>, bool)> = statement
        .query_map([session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<Result<_, _>>()?;
    let own: String = conn
        .prepare_cached("SELECT session_id FROM sessions WHERE id = ?1")?
        .query_row([session], |row| row.get(0))?;
    let mut forks = Vec::new();
    let mut checked = 0;
    let parents = Parents::default();
    for (row, id, other_name, is_unrecorded) in found {
        if let Some(parent_name) = other_name {
            let parent = parents.find(conn, row, &parent_name)?;
            if parent.is_none_or(|parent| parent.row != session) {
                continue;
            }
        }
        if is_unrecorded {
            checked += 1;
            if checked > MAX_FORK_CHECKS || original(conn, row)?.as_ref() != Some(&own) {
                continue;
            }
        }
        forks.push(Fork { id, at: last_shared_entry(conn, session, row)? });
    }
    Ok(forks)
}

/// Returns the last entry of a session that the other one also has.
fn last_shared_entry(
    conn: &Connection,
    session: SessionRow,
    other: SessionRow,
) -> Result<Option<EntryId>> {
    Ok(conn
        .prepare_cached(
            "SELECT max(e.id) FROM entry_rows e
              WHERE e.session = ?1 AND e.uuid IS NOT NULL AND e.superseded_by IS NULL
                AND EXISTS (SELECT 1 FROM entry_rows o WHERE o.session = ?2 AND o.uuid = e.uuid)",
        )?
        .query_row((session, other), |row| row.get(0))?)
}

/// The largest number of unrecorded copies that are checked for being forks of one session. Each
/// check compares one copy with many sessions.
const MAX_FORK_CHECKS: usize = 16;

/// The largest number of copies that are compared to find an original. It bounds the work.
const MAX_COPIES: i64 = 64;

/// Returns whether one session is older than the other.
///
/// A copy repeats the entries of its original, but its file begins with its own line, which is
/// later than the first entry (`is_copy`, `opened_at`). Without such a line the session that has no
/// entry of its own, or whose first own entry is earlier, is the older one.
fn is_before(
    conn: &Connection,
    one: (SessionRow, &str),
    other: (SessionRow, &str),
) -> Result<bool> {
    let beginning = |row: SessionRow| -> Result<(bool, i64)> {
        Ok(conn
            .prepare_cached("SELECT is_copy, opened_at FROM sessions WHERE id = ?1")?
            .query_row([row], |row| {
                Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.unwrap_or(i64::MAX)))
            })?)
    };
    let (one_began, other_began) = (beginning(one.0)?, beginning(other.0)?);
    if one_began != other_began {
        return Ok(one_began < other_began);
    }
    let first_own_entry = |of: SessionRow, without: SessionRow| -> Result<Option<i64>> {
        Ok(conn
            .prepare_cached(
                "SELECT min(e.time) FROM entry_rows e
                  WHERE e.session = ?1 AND e.uuid IS NOT NULL
                    AND NOT EXISTS (SELECT 1 FROM entry_rows o
                                     WHERE o.session = ?2 AND o.uuid = e.uuid)",
            )?
            .query_row((of, without), |row| row.get(0))?)
    };
    // `None` is the smallest value: that session has no own entry.
    Ok((first_own_entry(one.0, other.0)?, one.1) < (first_own_entry(other.0, one.0)?, other.1))
}

fn shared(conn: &Connection, one: SessionRow, other: SessionRow) -> Result<i64> {
    Ok(conn
        .prepare_cached(
            "SELECT count(DISTINCT e.uuid) FROM entry_rows e
              WHERE e.session = ?1 AND e.uuid IS NOT NULL
                AND EXISTS (SELECT 1 FROM entry_rows o WHERE o.session = ?2 AND o.uuid = e.uuid)",
        )?
        .query_row((one, other), |row| row.get(0))?)
}
