//! The sub-agents of a session, and which entry started each.

use foldhash::HashMap;
use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::ids::{EntryId, SessionRow};
use crate::project::toolbox::CallId;
use crate::query::find::FAMILY;

/// A sub-agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) row: SessionRow,
    pub(super) session_id: String,
    pub(super) agent_type: Option<String>,
    pub(super) text: Option<String>,
    pub(super) started_at: Option<i64>,
    pub(super) entries: u64,
    pub(super) turns: u64,
    pub(super) tool_calls: u64,
}

/// Sub-agents by who started them.
#[derive(Debug, Default)]
pub(super) struct Agents {
    by_entry: HashMap<EntryId, Vec<Agent>>,
    by_session: HashMap<SessionRow, Vec<Agent>>,
    rest: Vec<Agent>,
}

impl Agents {
    pub(super) fn load(conn: &Connection, session: SessionRow) -> Result<Agents> {
        let mut statement = conn.prepare_cached(&format!(
            "{FAMILY}
             SELECT s.id, s.session_id, s.agent_type, coalesce(s.title, s.first_prompt),
                    s.started_at, s.entries, s.turns, s.tool_calls, s.parent_call
               FROM sessions s
              WHERE s.id IN family AND s.id <> ?1
              ORDER BY s.id"
        ))?;
        let mut rows = statement.query([session])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let count = |index| row.get::<_, i64>(index).map(|count| count.max(0).cast_unsigned());
            let agent = Agent {
                row: row.get(0)?,
                session_id: row.get(1)?,
                agent_type: row.get(2)?,
                text: row.get(3)?,
                started_at: row.get(4)?,
                entries: count(5)?,
                turns: count(6)?,
                tool_calls: count(7)?,
            };
            found.push((agent, row.get::<_, Option<String>>(8)?));
        }
        let family: Vec<SessionRow> =
            std::iter::once(session).chain(found.iter().map(|(agent, _)| agent.row)).collect();
        let mut agents = Agents::default();
        for (agent, call) in found {
            match caller(conn, &family, &agent, call)? {
                Some((owner, entry)) if owner == session => {
                    agents.by_entry.entry(entry).or_default().push(agent);
                }
                Some((owner, _)) if owner != agent.row => {
                    agents.by_session.entry(owner).or_default().push(agent);
                }
                _ => agents.rest.push(agent),
            }
        }
        Ok(agents)
    }

    /// Those that an entry of the session started.
    pub(super) fn take(&mut self, entry: EntryId) -> Vec<Agent> {
        self.by_entry.remove(&entry).unwrap_or_default()
    }

    /// Those that a sub-agent started.
    pub(super) fn take_of(&mut self, session: SessionRow) -> Vec<Agent> {
        self.by_session.remove(&session).unwrap_or_default()
    }

    /// Those of whom nobody knows who started them; also what was not taken.
    pub(super) fn take_rest(&mut self) -> Vec<Agent> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend(std::mem::take(&mut self.by_entry).into_values().flatten());
        rest.sort_by_key(|agent| agent.row);
        rest
    }
}

/// The session and the entry that started a sub-agent. Sub-agents of sub-agents lie beside them, so
/// only the call tells whose they are.
fn caller(
    conn: &Connection,
    family: &[SessionRow],
    agent: &Agent,
    call: Option<String>,
) -> Result<Option<(SessionRow, EntryId)>> {
    let mut of_call = conn.prepare_cached(
        "SELECT c.entry FROM tool_call_rows c CROSS JOIN tools t ON t.id = c.tool
          WHERE c.session = ?1 AND substr(c.call, -4) = substr(?2, -4) AND c.call = ?2
            AND t.call_begins = ?3
          ORDER BY c.entry LIMIT 1",
    )?;
    let mut spawned = conn.prepare_cached(
        "SELECT call_id FROM spawned_agents
          WHERE session = ?1 AND ?2 LIKE '%agent-' || agent_id LIMIT 1",
    )?;
    for owner in family {
        let call = match &call {
            Some(call) => Some(call.clone()),
            None => spawned
                .query_row((owner, &agent.session_id), |row| row.get::<_, String>(0))
                .optional()?,
        };
        let Some(call) = call else { continue };
        let call = CallId::of(&call);
        let found = of_call.query_row((owner, call.rest, call.beginning), |row| row.get(0));
        if let Some(entry) = found.optional()? {
            return Ok(Some((*owner, entry)));
        }
    }
    Ok(None)
}
