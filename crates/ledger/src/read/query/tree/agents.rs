//! The sub-agents of a session, and the entries that started them.
//!
//! Reads rows only, never a record.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::project::family::agent_ids;
use crate::read::query::find::FAMILY;

/// A sub-agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) row: SessionRow,
    pub(super) session_id: String,
    key: Option<String>,
    pub(super) agent_type: Option<String>,
    pub(super) text: Option<String>,
    pub(super) started_at: Option<i64>,
    pub(super) entries: u64,
    pub(super) turns: u64,
    pub(super) tool_calls: u64,
}

/// Sub-agents by the entry or session that started them.
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
                    s.started_at, s.entries, s.turns, s.tool_calls, s.parent_call, s.session_key
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
                key: row.get(9)?,
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
        let mut callers = Callers::of(conn, &family)?;
        for (agent, call) in &found {
            callers.add_wanted(agent, call.as_deref());
        }
        callers.read_wanted(conn, &family)?;
        let mut agents = Agents::default();
        for (agent, call) in found {
            match callers.caller_of(&agent, call.as_deref()) {
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

    /// Removes and returns the sub-agents that an entry of the session started.
    pub(super) fn take(&mut self, entry: EntryId) -> Vec<Agent> {
        self.by_entry.remove(&entry).unwrap_or_default()
    }

    /// Removes and returns the sub-agents that a sub-agent started.
    pub(super) fn take_of(&mut self, session: SessionRow) -> Vec<Agent> {
        self.by_session.remove(&session).unwrap_or_default()
    }

    /// Removes and returns the sub-agents without a known starter, and all that are left.
    pub(super) fn take_rest(&mut self) -> Vec<Agent> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend(std::mem::take(&mut self.by_entry).into_values().flatten());
        rest.sort_by_key(|agent| agent.row);
        rest
    }
}

/// Finds the calls that started sub-agents. The files of nested sub-agents are all in one folder,
/// so only the call shows which session started one. Each session of the family is read once for
/// all of them.
struct Callers {
    /// The recorded starts by agent id: the session that recorded it, and the call.
    spawned: HashMap<String, Vec<(SessionRow, String)>>,
    /// The wanted calls, with the sessions and entries that made them, the preferred one first.
    calls: HashMap<String, Vec<(SessionRow, EntryId)>>,
    /// The calls that were not found yet, with the session that must have made each, if it is
    /// known.
    missing: HashSet<(Option<SessionRow>, String)>,
}

impl Callers {
    fn of(conn: &Connection, family: &[SessionRow]) -> Result<Callers> {
        let mut spawned: HashMap<String, Vec<(SessionRow, String)>> = HashMap::new();
        let mut statement =
            conn.prepare_cached("SELECT agent_id, call_id FROM spawned_agents WHERE session = ?1")?;
        for owner in family {
            let mut rows = statement.query([owner])?;
            while let Some(row) = rows.next()? {
                spawned.entry(row.get(0)?).or_default().push((*owner, row.get(1)?));
            }
        }
        Ok(Callers { spawned, calls: HashMap::new(), missing: HashSet::new() })
    }

    /// Adds the calls that may have started an agent to the wanted ones.
    fn add_wanted(&mut self, agent: &Agent, call: Option<&str>) {
        let calls: Vec<(Option<SessionRow>, String)> = match call {
            Some(call) => vec![(None, call.to_owned())],
            None => self
                .recorded_starts(agent)
                .map(|(owner, call)| (Some(*owner), call.clone()))
                .collect(),
        };
        self.calls.extend(calls.iter().map(|(_, call)| (call.clone(), Vec::new())));
        self.missing.extend(calls);
    }

    /// Reads the entries of the wanted calls, until all are found.
    fn read_wanted(&mut self, conn: &Connection, family: &[SessionRow]) -> Result<()> {
        let mut statement = conn.prepare_cached(
            "SELECT call, entry FROM tool_call_rows WHERE session = ?1 AND call IS NOT NULL",
        )?;
        for owner in family {
            if self.missing.is_empty() {
                break;
            }
            let mut rows = statement.query([owner])?;
            while let Some(row) = rows.next()? {
                let call = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
                if let Some(found) = self.calls.get_mut(call) {
                    let entry: EntryId = row.get(1)?;
                    match found.last_mut() {
                        Some((last, first)) if last == owner => *first = entry.min(*first),
                        _ => found.push((*owner, entry)),
                    }
                    self.missing.remove(&(None, call.to_owned()));
                    self.missing.remove(&(Some(*owner), call.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Returns the session and the entry that started a sub-agent.
    fn caller_of(&self, agent: &Agent, call: Option<&str>) -> Option<(SessionRow, EntryId)> {
        let made = |call: &str| self.calls.get(call).into_iter().flatten();
        match call {
            Some(call) => made(call).next().copied(),
            None => self
                .recorded_starts(agent)
                .filter_map(|(owner, call)| made(call).find(|(session, _)| session == owner))
                .next()
                .copied(),
        }
    }

    /// Returns the recorded starts of an agent.
    fn recorded_starts(&self, agent: &Agent) -> impl Iterator<Item = &(SessionRow, String)> {
        let ids = agent_ids(&agent.session_id, agent.key.as_deref());
        ids.filter_map(|id| self.spawned.get(id)).flatten()
    }
}
