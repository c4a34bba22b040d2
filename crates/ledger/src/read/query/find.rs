//! Finds the session that a name refers to: an id, a prefix of one, a key, or `last`.
//!
//! Never guesses: a name with several meanings is an error that lists them.

use quipu_transcript::key::SessionKey;
use rusqlite::{Connection, Params, Row};

use super::native_keys;
use super::{empty, headers, renamed};
use crate::base::ids::SessionRow;
use crate::project::family::works_for;
use crate::{Error, Result};

/// The beginning of a statement about the session `?1` and all sessions that work for it, directly
/// or not. They are the rows of `family`.
pub(crate) const FAMILY: &str = concat!(
    "WITH family (id) AS (
        SELECT ?1
         UNION
        SELECT child.id
          FROM family
          JOIN sessions parent ON parent.id = family.id
          JOIN sessions child ON ",
    works_for!(),
    ")",
);

/// The name of the newest session.
pub(crate) const LAST: &str = "last";

/// A condition: a slash in the id separates a folder and a file, or a session and its sub-agent. The
/// id of a thread's transcript may hold a slash too, as part of the thread.
macro_rules! has_folder {
    () => {
        "(slug IS NOT NULL OR part <> 'transcript')"
    };
}

/// Conditions for a name that is not a whole id, the best first; see [`candidates_by_meaning`].
const BY_ID: &[&str] = &[
    // Sessions without a UUID are named after their folder and file. The file's name is enough. A
    // whole file name is a better match than a prefix of another id.
    concat!(
        has_folder!(),
        " AND instr(session_id, '/') > 0 AND substr(session_id, instr(session_id, '/') + 1) = ?1"
    ),
    // Sessions of a workflow's run are in deeper folders.
    concat!(has_folder!(), " AND substr(session_id, -length(?1) - 1) = '/' || ?1"),
    // The ids of sub-agents also begin with the id of their session. The session itself is meant.
    "substr(session_id, 1, length(?1)) = ?1 AND part <> 'subagent'",
    "substr(session_id, 1, length(?1)) = ?1",
    concat!(
        has_folder!(),
        " AND instr(session_id, '/') > 0
          AND substr(session_id, instr(session_id, '/') + 1, length(?1)) = ?1"
    ),
    "?1 IN (agent || '/' || session_id, format || '/' || session_id)",
    // A prefix of the agent's or the parent's id, then the whole name of a sub-agent or a prefix of
    // the session's id.
    "(substr(session_id, 1, length(?2)) = ?2 AND substr(session_id, -length(?3) - 1) = '/' || ?3)
     OR (agent = ?2 AND substr(session_id, 1, length(?3)) = ?3)",
];

/// Returns the session with this name: its id or an unambiguous prefix of it, `AGENT/ID`, the key
/// that leads to it, or `last`. If none fits, the name may be the id in a transcript's header,
/// where that differs from the file's name, or a later name of the file.
pub(crate) fn session(conn: &Connection, name: &str) -> Result<SessionRow> {
    if name.is_empty() {
        return Err(Error::NoMatch { what: "session", name: name.to_owned() });
    }
    // A key of a native session leads to it in any spelling.
    if let Some(own) = native_keys::led_to(conn, &SessionKey::parse(name))? {
        return Ok(own);
    }
    let mut found = candidates_of(conn, "SELECT * FROM sessions WHERE session_id = ?1", [name])?;
    if found.is_empty()
        && name == LAST
        && let Some(newest) = super::sessions::newest(conn)?
    {
        return Ok(newest);
    }
    if found.is_empty() {
        found = candidates_by_meaning(conn, BY_ID, name)?;
    }
    let by_key = format!("session_key = ?1 AND {OF_ITS_AGENT}");
    if found.is_empty() {
        // A key may have led to several sessions. The one that it leads to now is meant.
        let now = "session_id IN (SELECT session_id FROM session_keys WHERE key = ?1)";
        found = candidates_by_meaning(conn, &[&format!("{by_key} AND {now}")], name)?;
        let newest = led_to_by_newest_index(conn, name, &found)?;
        found.retain(|found| newest.contains(&found.row));
    }
    if found.is_empty() {
        // Some files are named after a time, an underscore and the id in their header.
        let by_end = "length(?1) > 3 AND instr(session_id, '_' || ?1) > 0";
        found = candidates_by_meaning(conn, &[&by_key, by_end], name)?;
    }
    if found.is_empty() {
        let mut rows = headers::named(conn, name)?;
        if rows.is_empty() {
            rows = renamed::named(conn, name)?;
        }
        for row in rows {
            found.append(&mut candidates_of(conn, "SELECT * FROM sessions WHERE id = ?1", [row])?);
        }
    }
    // If a session was both collected and imported, the native one is meant.
    let is_one = found.windows(2).all(|pair| match pair {
        [one, other] => one.id == other.id,
        _ => true,
    });
    let own = found.iter().filter(|found| found.is_native).count();
    if found.len() > 1 && is_one && own == 1 {
        found.retain(|found| found.is_native);
    }
    match found.as_slice() {
        [] => {
            let nothing = Error::NoMatch { what: "session", name: name.to_owned() };
            Err(empty::error(conn, name)?.unwrap_or(nothing))
        }
        [found] => Ok(found.row),
        several => {
            let candidates = several.iter().map(|found| found.shown.clone()).collect();
            Err(Error::ambiguous("sessions", name, candidates))
        }
    }
}

/// Returns the sessions that a name may mean, with one pass over all sessions. Only the first
/// meaning that fits any session counts. `?1` is the name. `?2` and `?3` are the parts before and
/// after its last slash.
fn candidates_by_meaning(
    conn: &Connection,
    meanings: &[&str],
    name: &str,
) -> Result<Vec<Candidate>> {
    let (before, after) = name.rsplit_once('/').unzip();
    let ranks: String = meanings
        .iter()
        .enumerate()
        .map(|(rank, meaning)| format!(" WHEN {meaning} THEN {rank}"))
        .collect();
    // Every statement names all three parameters, so that all of them can be bound.
    let ranked = format!(
        "SELECT id, format, agent, session_id, min(rank) OVER () AS best, rank
           FROM (SELECT id, format, agent, session_id, CASE{ranks} END AS rank
                   FROM sessions WHERE coalesce(?1, ?2, ?3) <> '')
          WHERE rank IS NOT NULL"
    );
    let best = format!("SELECT * FROM ({ranked}) WHERE rank = best");
    candidates_of(conn, &best, (name, before, after))
}

/// Returns the sessions that a statement selects.
fn candidates_of(conn: &Connection, sessions: &str, params: impl Params) -> Result<Vec<Candidate>> {
    // Two agents may use the same id. Then the agent's name must precede it.
    let mut statement = conn.prepare(&format!(
        "SELECT id, CASE WHEN count(*) OVER (PARTITION BY session_id, agent) > 1
                         THEN format || '/' || session_id
                         WHEN count(*) OVER (PARTITION BY session_id) > 1 AND agent <> ''
                         THEN agent || '/' || session_id ELSE session_id END,
                session_id, format = 'native'
           FROM ({sessions}) ORDER BY id"
    ))?;
    Ok(statement.query_map(params, Candidate::from_row)?.collect::<Result<_, _>>()?)
}

/// Returns the sessions to which the most recently written index leads. An old index may remain: a
/// file next to the database that replaced it.
fn led_to_by_newest_index(
    conn: &Connection,
    key: &str,
    found: &[Candidate],
) -> Result<Vec<SessionRow>> {
    let mut led_at = Vec::with_capacity(found.len());
    for session in found {
        let time: Option<i64> = conn
            .prepare_cached(
                "SELECT max(k.updated_at) FROM session_keys k
                   JOIN sessions s ON s.session_id = k.session_id AND s.format = k.format
                                  AND s.agent = k.agent
                  WHERE k.key = ?1 AND s.id = ?2",
            )?
            .query_row((key, session.row), |row| row.get(0))?;
        led_at.push((time, session.row));
    }
    let last = led_at.iter().map(|(time, _)| *time).max();
    Ok(led_at.into_iter().filter(|(time, _)| Some(*time) == last).map(|(_, row)| row).collect())
}

/// Returns the other sessions that a key leads to in older indexes.
pub(crate) fn other_sessions_of_key(
    conn: &Connection,
    key: &str,
    row: SessionRow,
) -> Result<Vec<String>> {
    let mut statement = conn.prepare_cached(
        "SELECT DISTINCT s.session_id
           FROM session_keys k
           JOIN sessions s
             ON s.session_id = k.session_id AND s.format = k.format AND s.agent = k.agent
          WHERE k.key = ?1 AND s.id <> ?2 AND s.format <> 'native'
            AND s.format = (SELECT format FROM sessions WHERE id = ?2)
            AND (instr(?1, 'agent:') <> 1
                 OR lower(s.agent) = lower(substr(?1, 7, instr(substr(?1, 7), ':') - 1)))
          ORDER BY 1",
    )?;
    Ok(statement.query_map((key, row), |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// A condition: the session belongs to the agent in the key. An index cannot lead to a session of
/// another agent.
const OF_ITS_AGENT: &str = "(instr(?1, 'agent:') <> 1
    OR lower(agent) = lower(substr(?1, 7, instr(substr(?1, 7), ':') - 1)))";

/// A session that the name may mean.
struct Candidate {
    row: SessionRow,
    /// The name that distinguishes it from the other candidates.
    shown: String,
    id: String,
    is_native: bool,
}

impl Candidate {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Candidate> {
        Ok(Candidate {
            row: row.get(0)?,
            shown: row.get(1)?,
            id: row.get(2)?,
            is_native: row.get(3)?,
        })
    }
}
