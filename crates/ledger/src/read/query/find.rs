//! Finds the session that a person means.

use quipu_transcript::key::SessionKey;
use rusqlite::{Connection, Params, Row};

use super::native_keys;
use super::{empty, headers, renamed};
use crate::base::ids::SessionRow;
use crate::project::family::works_for;
use crate::{Error, Result};

/// Begins a statement about the session `?1` and all that work for it, directly or not: the rows of
/// `family`.
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

/// What the newest session is called.
pub(crate) const LAST: &str = "last";

/// What a name may mean that is not all of an id, the best first; see [`meant`].
const BY_ID: &[&str] = &[
    // Sessions that no UUID names are called after their folder; the file's name is enough, and all
    // of it says more than the beginning of another id.
    "instr(session_id, '/') > 0 AND substr(session_id, instr(session_id, '/') + 1) = ?1",
    // Those of a workflow's run lie deeper.
    "substr(session_id, -length(?1) - 1) = '/' || ?1",
    // The sub-agents of a session begin with its id too; the session itself is meant.
    "substr(session_id, 1, length(?1)) = ?1 AND part <> 'subagent'",
    "substr(session_id, 1, length(?1)) = ?1",
    "instr(session_id, '/') > 0
     AND substr(session_id, instr(session_id, '/') + 1, length(?1)) = ?1",
    "?1 IN (agent || '/' || session_id, format || '/' || session_id)",
    // A beginning of the agent's or the parent's id, and all of a sub-agent's name or a beginning of
    // the session's id.
    "(substr(session_id, 1, length(?2)) = ?2 AND substr(session_id, -length(?3) - 1) = '/' || ?3)
     OR (agent = ?2 AND substr(session_id, 1, length(?3)) = ?3)",
];

/// The session that `name` means: its id or an unambiguous beginning of it, `AGENT/ID`, the key
/// that leads to it, or `last`. Where nothing else is called so, the id that the header of a
/// transcript names although its file is called otherwise, or a name that its file got later.
pub(crate) fn session(conn: &Connection, name: &str) -> Result<SessionRow> {
    if name.is_empty() {
        return Err(Error::NoMatch { what: "session", name: name.to_owned() });
    }
    // A key of our own sessions leads to one of them, however it is spelled.
    if let Some(own) = native_keys::led_to(conn, &SessionKey::parse(name))? {
        return Ok(own);
    }
    let mut found = matches(conn, "SELECT * FROM sessions WHERE session_id = ?1", [name])?;
    if found.is_empty()
        && name == LAST
        && let Some(newest) = super::sessions::newest(conn)?
    {
        return Ok(newest);
    }
    if found.is_empty() {
        found = meant(conn, BY_ID, name)?;
    }
    let by_key = format!("key = ?1 AND {OF_ITS_AGENT}");
    if found.is_empty() {
        // Of all sessions that a key led to, the one where it leads now.
        let now = "session_id IN (SELECT session_id FROM session_keys WHERE key = ?1)";
        found = meant(conn, &[&format!("{by_key} AND {now}")], name)?;
        let newest = newest(conn, name, &found)?;
        found.retain(|found| newest.contains(&found.row));
    }
    if found.is_empty() {
        // Some names end in the header's id, after a time.
        let by_end = "length(?1) > 3 AND instr(session_id, '_' || ?1) > 0";
        found = meant(conn, &[&by_key, by_end], name)?;
    }
    if found.is_empty() {
        let mut rows = headers::named(conn, name)?;
        if rows.is_empty() {
            rows = renamed::named(conn, name)?;
        }
        for row in rows {
            found.append(&mut matches(conn, "SELECT * FROM sessions WHERE id = ?1", [row])?);
        }
    }
    // What was imported and is collected too goes on here.
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

/// The sessions that are meant by a name, going through all of them once. Of several meanings the
/// first one counts that any session has: `?1` is the name, `?2` and `?3` are what stands before and
/// after its last slash.
fn meant(conn: &Connection, meanings: &[&str], name: &str) -> Result<Vec<Found>> {
    let (before, after) = name.rsplit_once('/').unzip();
    let ranks: String = meanings
        .iter()
        .enumerate()
        .map(|(rank, meaning)| format!(" WHEN {meaning} THEN {rank}"))
        .collect();
    // All three are named, so that a statement has them whatever it asks for.
    let ranked = format!(
        "SELECT id, format, agent, session_id, min(rank) OVER () AS best, rank
           FROM (SELECT id, format, agent, session_id, CASE{ranks} END AS rank
                   FROM sessions WHERE coalesce(?1, ?2, ?3) <> '')
          WHERE rank IS NOT NULL"
    );
    let best = format!("SELECT * FROM ({ranked}) WHERE rank = best");
    matches(conn, &best, (name, before, after))
}

/// The sessions that a statement selects.
fn matches(conn: &Connection, sessions: &str, params: impl Params) -> Result<Vec<Found>> {
    // Agents may use the same id; then the agent's name has to be said before it.
    let mut statement = conn.prepare(&format!(
        "SELECT id, CASE WHEN count(*) OVER (PARTITION BY session_id, agent) > 1
                         THEN format || '/' || session_id
                         WHEN count(*) OVER (PARTITION BY session_id) > 1 AND agent <> ''
                         THEN agent || '/' || session_id ELSE session_id END,
                session_id, format = 'native'
           FROM ({sessions}) ORDER BY id"
    ))?;
    Ok(statement.query_map(params, Found::from_row)?.collect::<Result<_, _>>()?)
}

/// Those of the sessions that a key leads to in several indexes where it led last. An index may be
/// left behind: OpenClaw's file beside its database.
fn newest(conn: &Connection, key: &str, found: &[Found]) -> Result<Vec<SessionRow>> {
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

/// The other sessions that a key leads to, by indexes that say so since longer.
pub(crate) fn also_led_to(conn: &Connection, key: &str, row: SessionRow) -> Result<Vec<String>> {
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

/// A key leads to sessions of its own agent only, whatever an index says.
const OF_ITS_AGENT: &str = "(instr(?1, 'agent:') <> 1
    OR lower(agent) = lower(substr(?1, 7, instr(substr(?1, 7), ':') - 1)))";

/// A session that may be meant.
struct Found {
    row: SessionRow,
    /// What tells it from the others.
    shown: String,
    id: String,
    is_native: bool,
}

impl Found {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Found> {
        Ok(Found { row: row.get(0)?, shown: row.get(1)?, id: row.get(2)?, is_native: row.get(3)? })
    }
}
