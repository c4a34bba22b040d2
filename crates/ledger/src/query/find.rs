//! Finds the session that a person means.

use rusqlite::Connection;

use crate::ids::SessionRow;
use crate::{Error, Result};

/// Begins a statement about the session `?1` and all that work for it, directly or not: the rows of
/// `family`.
pub(crate) const FAMILY: &str = "
    WITH family (id) AS (
        SELECT ?1
         UNION
        SELECT child.id
          FROM family
          JOIN sessions parent ON parent.id = family.id
          JOIN sessions child
            ON child.parent_id = parent.session_id
           AND child.format = parent.format
           AND coalesce(child.parent_agent, child.agent) = parent.agent
    )";

/// What the newest session is called.
const LAST: &str = "last";

/// The session that `name` means: its id or an unambiguous beginning of it, `AGENT/ID`, the key
/// that leads to it, or `last`.
pub(crate) fn session(conn: &Connection, name: &str) -> Result<SessionRow> {
    let matches = |condition: &str, name: &str| -> Result<Vec<(SessionRow, String)>> {
        // Agents may use the same id; then the agent's name has to be said before it.
        let mut statement = conn.prepare(&format!(
            "SELECT id, CASE WHEN count(*) OVER (PARTITION BY session_id) > 1 AND agent <> ''
                             THEN agent || '/' || session_id ELSE session_id END
               FROM sessions WHERE {condition} ORDER BY id LIMIT 20"
        ))?;
        Ok(statement
            .query_map([name], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?)
    };
    if name.is_empty() {
        return Err(Error::NoMatch { what: "session", name: name.to_owned() });
    }
    let mut found = matches("session_id = ?1", name)?;
    if found.is_empty()
        && name == LAST
        && let Some(newest) = super::sessions::newest(conn)?
    {
        return Ok(newest);
    }
    if found.is_empty() {
        // The sub-agents of a session begin with its id too; the session itself is meant.
        found = matches("substr(session_id, 1, length(?1)) = ?1 AND part <> 'subagent'", name)?;
    }
    if found.is_empty() {
        found = matches("substr(session_id, 1, length(?1)) = ?1", name)?;
    }
    if found.is_empty() {
        // Sessions that no UUID names are called after their folder; the file's name is enough.
        let stem = "substr(session_id, instr(session_id, '/') + 1, length(?1)) = ?1";
        found = matches(&format!("instr(session_id, '/') > 0 AND {stem}"), name)?;
    }
    if found.is_empty() {
        found = matches("agent || '/' || session_id = ?1", name)?;
    }
    if found.is_empty()
        && let Some((parent, own)) = name.rsplit_once('/')
    {
        // A beginning of the agent's or the parent's id, and all of a sub-agent's name or a
        // beginning of the session's id.
        let mut statement = conn.prepare(
            "SELECT id, session_id FROM sessions
              WHERE (substr(session_id, 1, length(?1)) = ?1
                     AND substr(session_id, -length(?2) - 1) = '/' || ?2)
                 OR (agent = ?1 AND substr(session_id, 1, length(?2)) = ?2)
              ORDER BY id LIMIT 20",
        )?;
        found = statement
            .query_map([parent, own], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
    }
    if found.is_empty() {
        // Of all sessions that a key led to, the one where it leads now.
        let now = "session_id IN (SELECT session_id FROM session_keys WHERE key = ?1)";
        found = matches(&format!("key = ?1 AND {now}"), name)?;
    }
    if found.is_empty() {
        found = matches("key = ?1", name)?;
    }
    match found.as_slice() {
        [] => Err(Error::NoMatch { what: "session", name: name.to_owned() }),
        [(row, _)] => Ok(*row),
        several => Err(Error::Ambiguous {
            name: name.to_owned(),
            candidates: several.iter().map(|(_, id)| id.clone()).collect(),
        }),
    }
}
