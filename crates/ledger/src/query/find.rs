//! Finds the session that a person means.

use quipu_transcript::key::SessionKey;
use rusqlite::{Connection, Row};

use super::{empty, headers, renamed};
use crate::ids::SessionRow;
use crate::project::family::works_for;
use crate::{Error, Result, store};

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

/// The session that `name` means: its id or an unambiguous beginning of it, `AGENT/ID`, the key
/// that leads to it, or `last`. Where nothing else is called so, the id that the header of a
/// transcript names although its file is called otherwise, or a name that its file got later.
pub(crate) fn session(conn: &Connection, name: &str) -> Result<SessionRow> {
    let matches = |condition: &str, name: &str| -> Result<Vec<Found>> {
        // Agents may use the same id; then the agent's name has to be said before it.
        let mut statement = conn.prepare(&format!(
            "SELECT id, CASE WHEN count(*) OVER (PARTITION BY session_id, agent) > 1
                             THEN format || '/' || session_id
                             WHEN count(*) OVER (PARTITION BY session_id) > 1 AND agent <> ''
                             THEN agent || '/' || session_id ELSE session_id END,
                    session_id, format = 'native'
               FROM sessions WHERE {condition} ORDER BY id LIMIT 20"
        ))?;
        Ok(statement.query_map([name], Found::from_row)?.collect::<Result<_, _>>()?)
    };
    if name.is_empty() {
        return Err(Error::NoMatch { what: "session", name: name.to_owned() });
    }
    // A key of our own sessions leads to one of them, however it is spelled.
    if let Some(own) = store::by_key(conn, &SessionKey::parse(name))? {
        return Ok(own.row);
    }
    let mut found = matches("session_id = ?1", name)?;
    if found.is_empty()
        && name == LAST
        && let Some(newest) = super::sessions::newest(conn)?
    {
        return Ok(newest);
    }
    // Sessions that no UUID names are called after their folder; the file's name is enough, and all
    // of it says more than the beginning of another id.
    if found.is_empty() {
        let stem = "substr(session_id, instr(session_id, '/') + 1) = ?1";
        found = matches(&format!("instr(session_id, '/') > 0 AND {stem}"), name)?;
    }
    if found.is_empty() {
        // Those of a workflow's run lie deeper.
        found = matches("substr(session_id, -length(?1) - 1) = '/' || ?1", name)?;
    }
    if found.is_empty() {
        // The sub-agents of a session begin with its id too; the session itself is meant.
        found = matches("substr(session_id, 1, length(?1)) = ?1 AND part <> 'subagent'", name)?;
    }
    if found.is_empty() {
        found = matches("substr(session_id, 1, length(?1)) = ?1", name)?;
    }
    if found.is_empty() {
        let stem = "substr(session_id, instr(session_id, '/') + 1, length(?1)) = ?1";
        found = matches(&format!("instr(session_id, '/') > 0 AND {stem}"), name)?;
    }
    if found.is_empty() {
        found = matches("?1 IN (agent || '/' || session_id, format || '/' || session_id)", name)?;
    }
    if found.is_empty()
        && let Some((parent, own)) = name.rsplit_once('/')
    {
        // A beginning of the agent's or the parent's id, and all of a sub-agent's name or a
        // beginning of the session's id.
        let mut statement = conn.prepare(
            "SELECT id, session_id, session_id, format = 'native' FROM sessions
              WHERE (substr(session_id, 1, length(?1)) = ?1
                     AND substr(session_id, -length(?2) - 1) = '/' || ?2)
                 OR (agent = ?1 AND substr(session_id, 1, length(?2)) = ?2)
              ORDER BY id LIMIT 20",
        )?;
        found = statement.query_map([parent, own], Found::from_row)?.collect::<Result<_, _>>()?;
    }
    if found.is_empty() {
        // Of all sessions that a key led to, the one where it leads now.
        let now = "session_id IN (SELECT session_id FROM session_keys WHERE key = ?1)";
        found = matches(&format!("key = ?1 AND {OF_ITS_AGENT} AND {now}"), name)?;
        let newest = newest(conn, name, &found)?;
        found.retain(|found| newest.contains(&found.row));
    }
    if found.is_empty() {
        found = matches(&format!("key = ?1 AND {OF_ITS_AGENT}"), name)?;
    }
    if found.is_empty() {
        // Some names end in the header's id, after a time.
        found = matches("length(?1) > 3 AND instr(session_id, '_' || ?1) > 0", name)?;
    }
    if found.is_empty() {
        let mut rows = headers::named(conn, name)?;
        if rows.is_empty() {
            rows = renamed::named(conn, name)?;
        }
        for row in rows {
            found.extend(matches("id = CAST(?1 AS INTEGER)", &row.0.to_string())?);
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
        several => Err(Error::Ambiguous {
            what: "sessions",
            name: name.to_owned(),
            candidates: several.iter().map(|found| found.shown.clone()).collect(),
        }),
    }
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
