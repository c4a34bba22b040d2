//! The marks that forgetting leaves: which sessions must not be collected again, from whatever
//! source. Discovery, reading and writing all ask here.

pub(crate) mod clean;
pub(crate) mod shared_lines;

use std::collections::{HashMap, HashSet};

use quipu_transcript::format::{Format, Origin};
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::{Seq, SourceId};

/// Why nothing is collected from a source of a forgotten session.
pub(crate) const FORGOTTEN: &str = "forgotten";

/// The sessions that were forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Forgotten {
    /// By format and agent.
    ids: HashMap<String, HashMap<String, HashSet<String>>>,
}

impl Forgotten {
    /// All marks in a ledger.
    pub(crate) fn load(conn: &Connection) -> Result<Forgotten> {
        let mut forgotten = Forgotten::default();
        let mut statement =
            conn.prepare_cached("SELECT format, agent, session_id FROM forgotten")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (format, agent, id): (String, String, String) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            forgotten.add(format, agent, id);
        }
        Ok(forgotten)
    }

    /// Returns marks of these sessions alone: format, agent and id of each.
    pub(crate) fn of<'s>(sessions: impl IntoIterator<Item = [&'s str; 3]>) -> Forgotten {
        let mut forgotten = Forgotten::default();
        for [format, agent, id] in sessions {
            forgotten.add(format.to_owned(), agent.to_owned(), id.to_owned());
        }
        forgotten
    }

    fn add(&mut self, format: String, agent: String, id: String) {
        self.ids.entry(format).or_default().entry(agent).or_default().insert(id);
    }

    /// Whether a session was forgotten. `agent` is empty where a format has no agents.
    pub(crate) fn has(&self, format: &str, agent: &str, session_id: &str) -> bool {
        self.ids
            .get(format)
            .and_then(|agents| agents.get(agent))
            .is_some_and(|ids| ids.contains(session_id))
    }

    /// Whether a session of that id was forgotten, whichever agent's it was.
    pub(crate) fn has_id(&self, format: &str, session_id: &str) -> bool {
        let mut agents = self.ids.get(format).into_iter().flat_map(HashMap::values);
        // A thread's session is forgotten under its whole name; others only know its id.
        let is_thread = |id: &String| {
            id.strip_prefix(session_id).is_some_and(|rest| rest.starts_with("-topic-"))
        };
        agents.any(|ids| ids.contains(session_id) || ids.iter().any(is_thread))
    }

    /// Whether a file of that origin belongs to a forgotten session, or to one that works for it.
    pub(crate) fn claims(&self, format: &dyn Format, origin: &Origin) -> bool {
        let agent = origin.agent.as_deref().unwrap_or_default();
        let is_forgotten = |id: &Option<String>| {
            id.as_deref().is_some_and(|id| self.has(format.name(), agent, id))
        };
        is_forgotten(&origin.session) || is_forgotten(&origin.parent)
    }

    /// Whether any session of that format was forgotten.
    pub(crate) fn concerns(&self, format: &dyn Format) -> bool {
        self.ids.contains_key(format.name())
    }

    /// The ids of all forgotten sessions of a format.
    pub(crate) fn ids(&self, format: &str) -> impl Iterator<Item = &str> {
        let agents = self.ids.get(format).into_iter().flat_map(HashMap::values);
        agents.flatten().map(String::as_str)
    }
}

/// Marks a session. Until [`settle`] the mark says that the file still has to be cleaned of what
/// was removed from it: its seq is negative.
pub(crate) fn mark(
    conn: &Connection,
    format: &str,
    agent: &str,
    session_id: &str,
    told_by: Seq,
) -> Result<()> {
    conn.execute(
        "INSERT INTO forgotten (format, agent, session_id, seq) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET seq = ?4",
        (format, agent, session_id, -told_by.0),
    )?;
    Ok(())
}

/// Whether something was removed from the ledger's tables that may still be found in its file.
pub(crate) fn is_unsettled(conn: &Connection) -> Result<bool> {
    Ok(conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM forgotten WHERE seq < 0)")?
        .query_row([], |row| row.get(0))?)
}

/// Notes that nothing of the forgotten sessions is left in the file.
pub(crate) fn settle(conn: &Connection) -> Result<()> {
    conn.execute("UPDATE forgotten SET seq = -seq WHERE seq < 0", [])?;
    Ok(())
}

/// Returns true if a source belongs to a forgotten session.
pub(crate) fn is_forgotten(conn: &Connection, source: SourceId) -> Result<bool> {
    Ok(conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM sources WHERE id = ?1 AND refused = ?2)")?
        .query_row((source, FORGOTTEN), |row| row.get(0))?)
}
