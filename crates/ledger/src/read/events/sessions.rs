//! The sessions that frames name, with the fields that filters need.

use std::sync::Arc;

use foldhash::HashMap;
use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::ids::{SessionRow, SourceId};
use crate::read::query::listed::project_folder;
use crate::read::query::project_name;

/// The session of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSession {
    /// Its row in the ledger; `None` if it has none now.
    pub row: Option<SessionRow>,
    /// The format.
    pub format: String,
    /// The agent; empty where the format has none.
    pub agent: String,
    /// The id that the agent gave it.
    pub session_id: String,
    /// The name of its project.
    pub project: String,
    /// The agent's name of the project's folder.
    pub slug: Option<String>,
    /// The folder in which it worked.
    pub path: Option<String>,
}

/// The sessions of one read.
pub(super) struct Sessions<'c> {
    conn: &'c Connection,
    known: HashMap<SessionRow, Option<Arc<EventSession>>>,
}

impl<'c> Sessions<'c> {
    pub(super) fn new(conn: &'c Connection) -> Sessions<'c> {
        Sessions { conn, known: HashMap::default() }
    }

    /// Returns the session with that row.
    pub(super) fn get(&mut self, row: SessionRow) -> Result<Option<Arc<EventSession>>> {
        if let Some(known) = self.known.get(&row) {
            return Ok(known.clone());
        }
        let read = by_row(self.conn, row)?.map(Arc::new);
        self.known.insert(row, read.clone());
        Ok(read)
    }

    /// Returns the only session of a source; `None` if it has several or none.
    pub(super) fn of_source(&mut self, source: SourceId) -> Result<Option<Arc<EventSession>>> {
        let rows: Vec<SessionRow> = self
            .conn
            .prepare_cached("SELECT session FROM session_sources WHERE source = ?1 LIMIT 2")?
            .query_map([source], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        match rows.as_slice() {
            [only] => self.get(*only),
            _ => Ok(None),
        }
    }

    /// Returns the session with that name. One without a row is known by its name only.
    pub(super) fn named(
        &mut self,
        format: &str,
        agent: &str,
        session_id: &str,
    ) -> Result<Arc<EventSession>> {
        let row = self
            .conn
            .prepare_cached(
                "SELECT id FROM sessions WHERE format = ?1 AND agent = ?2 AND session_id = ?3",
            )?
            .query_row((format, agent, session_id), |row| row.get(0))
            .optional()?;
        if let Some(row) = row
            && let Some(session) = self.get(row)?
        {
            return Ok(session);
        }
        Ok(Arc::new(EventSession {
            row: None,
            format: format.to_owned(),
            agent: agent.to_owned(),
            session_id: session_id.to_owned(),
            project: String::new(),
            slug: None,
            path: None,
        }))
    }
}

pub(super) fn by_row(conn: &Connection, row: SessionRow) -> Result<Option<EventSession>> {
    type Columns = (String, String, String, Option<String>, Option<String>);
    let found: Option<Columns> = conn
        .prepare_cached("SELECT format, agent, session_id, slug, cwd FROM sessions WHERE id = ?1")?
        .query_row([row], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        })
        .optional()?;
    let Some((format, agent, session_id, slug, cwd)) = found else { return Ok(None) };
    let path = project_folder(conn, slug.as_deref(), cwd.as_deref())?;
    let project = project_name(path.as_deref(), slug.as_deref()).to_owned();
    Ok(Some(EventSession { row: Some(row), format, agent, session_id, project, slug, path }))
}

/// Returns the native session with that id, if there is exactly one.
pub(super) fn native(conn: &Connection, session_id: &str) -> Result<Option<Arc<EventSession>>> {
    let rows: Vec<SessionRow> = conn
        .prepare_cached(
            "SELECT id FROM sessions WHERE session_id = ?1 AND format = 'native' LIMIT 2",
        )?
        .query_map([session_id], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    match rows.as_slice() {
        [only] => Ok(by_row(conn, *only)?.map(Arc::new)),
        _ => Ok(None),
    }
}
