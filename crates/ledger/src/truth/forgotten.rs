//! Marks of forgotten sessions, which must never be collected again from any source.
//!
//! Discovery, reading and writing all check them here. A mark is never removed.

pub(crate) mod clean;
pub(crate) mod shared_lines;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use quipu_transcript::format::{Format, Origin};
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::{Seq, SourceId};

/// The reason stored with a source of a forgotten session, from which nothing is collected.
pub(crate) const FORGOTTEN: &str = "forgotten";

/// The sessions that were forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Forgotten {
    /// The ids by format and agent.
    ids: HashMap<String, HashMap<String, HashSet<String>>>,
}

impl Forgotten {
    /// Loads all marks of a ledger.
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

    /// Returns whether a session was forgotten. `agent` is empty where a format has no agents.
    pub(crate) fn has(&self, format: &str, agent: &str, session_id: &str) -> bool {
        self.ids
            .get(format)
            .and_then(|agents| agents.get(agent))
            .is_some_and(|ids| ids.contains(session_id))
    }

    /// Returns whether a session with that id was forgotten, of any agent.
    pub(crate) fn has_id(&self, format: &str, session_id: &str) -> bool {
        let mut agents = self.ids.get(format).into_iter().flat_map(HashMap::values);
        // A thread's session is marked with its full name; cron runs name only its id.
        let is_thread = |id: &String| {
            id.strip_prefix(session_id).is_some_and(|rest| rest.starts_with("-topic-"))
        };
        agents.any(|ids| ids.contains(session_id) || ids.iter().any(is_thread))
    }

    /// Returns whether a file of that origin belongs to a forgotten session or to one of its
    /// sub-agents.
    pub(crate) fn claims(&self, format: &dyn Format, origin: &Origin) -> bool {
        let agent = origin.agent.as_deref().unwrap_or_default();
        let is_forgotten = |id: &Option<String>| {
            id.as_deref().is_some_and(|id| self.has(format.name(), agent, id))
        };
        is_forgotten(&origin.session) || is_forgotten(&origin.parent)
    }

    /// Returns whether any session of that format was forgotten.
    pub(crate) fn concerns(&self, format: &dyn Format) -> bool {
        self.ids.contains_key(format.name())
    }

    /// Returns the bytes of an index without its entries about forgotten sessions.
    pub(crate) fn shorten_index<'b>(
        &self,
        format: &dyn Format,
        origin: &Origin,
        bytes: &'b [u8],
    ) -> Cow<'b, [u8]> {
        if !self.concerns(format) {
            return Cow::Borrowed(bytes);
        }
        let agent = origin.agent.as_deref().unwrap_or_default();
        let is_forgotten = |session: &str| self.has(format.name(), agent, session);
        match format.index_without(origin, bytes, &is_forgotten) {
            Some(bytes) => Cow::Owned(bytes),
            None => Cow::Borrowed(bytes),
        }
    }

    /// Returns the ids of all forgotten sessions of a format.
    pub(crate) fn ids(&self, format: &str) -> impl Iterator<Item = &str> {
        let agents = self.ids.get(format).into_iter().flat_map(HashMap::values);
        agents.flatten().map(String::as_str)
    }
}

/// Marks a session. The mark's seq is negative until [`mark_cleaned`]: the file still has to be
/// cleaned of the removed bytes.
pub(crate) fn mark(
    conn: &Connection,
    format: &str,
    agent: &str,
    session_id: &str,
    event_seq: Seq,
) -> Result<()> {
    conn.execute(
        "INSERT INTO forgotten (format, agent, session_id, seq) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET seq = ?4",
        (format, agent, session_id, -event_seq.0),
    )?;
    Ok(())
}

/// Returns whether the file may still hold bytes that were removed from its tables.
pub(crate) fn needs_cleaning(conn: &Connection) -> Result<bool> {
    Ok(conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM forgotten WHERE seq < 0)")?
        .query_row([], |row| row.get(0))?)
}

/// Records that the file no longer holds anything of the forgotten sessions.
pub(crate) fn mark_cleaned(conn: &Connection) -> Result<()> {
    conn.execute("UPDATE forgotten SET seq = -seq WHERE seq < 0", [])?;
    Ok(())
}

/// Returns whether a source belongs to a forgotten session.
pub(crate) fn is_forgotten(conn: &Connection, source: SourceId) -> Result<bool> {
    Ok(conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM sources WHERE id = ?1 AND refused = ?2)")?
        .query_row((source, FORGOTTEN), |row| row.get(0))?)
}
