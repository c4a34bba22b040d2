//! Sessions that were copied from another one and went on by themselves, where no line says so.
//!
//! Claude Code copies the lines of a session into a new file under a new session id; the entries keep
//! their own ids. So a copy shares its first entry with its original, and `sessions_by_first_uuid`
//! leads from one to the other. Which of them is the original follows from when they went apart:
//! whoever was the first to say something that the other does not have. That is a question about
//! all entries of two sessions, and its answer may change with every line of either; so it is asked
//! when somebody wants to know, not kept as a column that each import would have to decide again.

use rusqlite::Connection;

use super::parents::{Parent, Parents};
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};

/// A session that begins with the same entry.
struct Copy {
    row: SessionRow,
    id: String,
    /// How many entries it shares with the session that is asked about.
    shared: i64,
}

/// The session that this one was copied from: of those before it the one that it shares most with.
pub(crate) fn original(conn: &Connection, session: SessionRow) -> Result<Option<String>> {
    let mut statement = conn.prepare_cached(
        "SELECT o.id, o.session_id
           FROM sessions s
           JOIN sessions o INDEXED BY sessions_by_first_uuid ON o.first_uuid = s.first_uuid
          WHERE s.id = ?1 AND typeof(s.first_uuid) = 'blob' AND length(s.first_uuid) = 16
            AND o.id <> s.id AND o.format = s.format AND o.agent = s.agent
            AND s.part <> 'subagent' AND o.part <> 'subagent'
          ORDER BY +o.session_id LIMIT ?2",
    )?;
    let copies: Vec<(SessionRow, String)> = statement
        .query_map((session, MOST_COPIES), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    if copies.is_empty() {
        return Ok(None);
    }
    let own = conn
        .prepare_cached("SELECT session_id FROM sessions WHERE id = ?1")?
        .query_row([session], |row| row.get::<_, String>(0))?;
    let mut best: Option<Copy> = None;
    for (row, id) in copies {
        if !is_before(conn, (row, &id), (session, &own))? {
            continue;
        }
        let copy = Copy { row, id, shared: shared(conn, row, session)? };
        let is_better = match &best {
            None => true,
            // Those that share the same are copies of each other: the oldest is meant.
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

/// A session that this one was forked from, or into.
pub(crate) struct Fork {
    /// The other session.
    pub(crate) id: String,
    /// The last entry here that both have; `None` if they share none, or it is not known here.
    pub(crate) at: Option<EntryId>,
}

/// What a session was forked from, as its lines say or its entries show.
pub(crate) fn from(conn: &Connection, session: SessionRow) -> Result<Option<Fork>> {
    let said: Option<String> = conn
        .prepare_cached("SELECT fork_of FROM sessions WHERE id = ?1")?
        .query_row([session], |row| row.get(0))?;
    let Some(said) = said.map_or_else(|| original(conn, session), |said| Ok(Some(said)))? else {
        return Ok(None);
    };
    match Parents::default().find(conn, session, &said)? {
        Some(Parent { row, id }) => Ok(Some(Fork { id, at: parted(conn, session, row)? })),
        None => Ok(Some(Fork { id: said, at: None })),
    }
}

/// The sessions that were forked from this one, the oldest first.
pub(crate) fn into(conn: &Connection, session: SessionRow) -> Result<Vec<Fork>> {
    let mut said = conn.prepare_cached(
        "SELECT o.id, o.session_id, nullif(o.fork_of, s.session_id), o.fork_of IS NULL
           FROM sessions s
           JOIN sessions o ON o.id <> s.id
            AND (o.fork_of = s.session_id
                 OR (NOT EXISTS (SELECT 1 FROM sessions WHERE session_id = o.fork_of)
                     AND o.fork_of IS NOT NULL AND o.format = s.format AND o.agent = s.agent)
                 OR (o.fork_of IS NULL AND o.first_uuid = s.first_uuid
                     AND typeof(s.first_uuid) = 'blob' AND length(s.first_uuid) = 16
                     AND o.format = s.format AND o.agent = s.agent
                     AND s.part <> 'subagent' AND o.part <> 'subagent'))
          WHERE s.id = ?1
          ORDER BY o.started_at, o.id",
    )?;
    let found: Vec<(SessionRow, String, Option<String>, bool)> = said
        .query_map([session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<Result<_, _>>()?;
    let own: String = conn
        .prepare_cached("SELECT session_id FROM sessions WHERE id = ?1")?
        .query_row([session], |row| row.get(0))?;
    let mut forks = Vec::new();
    let mut asked = 0;
    let parents = Parents::default();
    for (row, id, other_name, is_silent) in found {
        if let Some(said) = other_name {
            let parent = parents.find(conn, row, &said)?;
            if parent.is_none_or(|parent| parent.row != session) {
                continue;
            }
        }
        if is_silent {
            asked += 1;
            if asked > MOST_ASKED || original(conn, row)?.as_ref() != Some(&own) {
                continue;
            }
        }
        forks.push(Fork { id, at: parted(conn, session, row)? });
    }
    Ok(forks)
}

/// The last entry of a session that another one has, too.
fn parted(conn: &Connection, session: SessionRow, other: SessionRow) -> Result<Option<EntryId>> {
    Ok(conn
        .prepare_cached(
            "SELECT max(e.id) FROM entry_rows e
              WHERE e.session = ?1 AND e.uuid IS NOT NULL AND e.superseded_by IS NULL
                AND EXISTS (SELECT 1 FROM entry_rows o WHERE o.session = ?2 AND o.uuid = e.uuid)",
        )?
        .query_row((session, other), |row| row.get(0))?)
}

/// Of more copies it is not asked whose they are: each answer compares it with all others.
const MOST_ASKED: usize = 16;

/// Of more copies only these are looked at.
const MOST_COPIES: i64 = 64;

/// Whether one session was there before the other: it has nothing that the other has not, or said it
/// earlier.
fn is_before(
    conn: &Connection,
    one: (SessionRow, &str),
    other: (SessionRow, &str),
) -> Result<bool> {
    let went_on = |of: SessionRow, without: SessionRow| -> Result<Option<i64>> {
        Ok(conn
            .prepare_cached(
                "SELECT min(e.time) FROM entry_rows e
                  WHERE e.session = ?1 AND e.uuid IS NOT NULL
                    AND NOT EXISTS (SELECT 1 FROM entry_rows o
                                     WHERE o.session = ?2 AND o.uuid = e.uuid)",
            )?
            .query_row((of, without), |row| row.get(0))?)
    };
    let parted = (went_on(one.0, other.0)?, one.1);
    let other_parted = (went_on(other.0, one.0)?, other.1);
    // No time comes first: it never went on.
    Ok(parted < other_parted)
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
