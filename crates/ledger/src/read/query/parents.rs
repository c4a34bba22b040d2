//! The session that a fork says it goes on from.
//!
//! A fork names a file, and mostly the file's name is the session's id. But a parent may be kept
//! under another name than the one that was written down: pi puts the time before the id, OpenClaw
//! does not, and people rename files. Then the id in that name decides: whoever is called so, has it
//! in its header, or was called so later. Only whole ids count, and only of the same agent; where
//! that leaves a doubt, the name stays as it was written.

use std::cell::OnceCell;

use foldhash::{HashMap, HashMapExt};
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::{headers, renamed};
use crate::Result;
use crate::base::ids::SessionRow;

/// Finds parents. What other names sessions have is read once, when a name leads nowhere.
#[derive(Default)]
pub(super) struct Parents(OnceCell<HashMap<Uuid, Vec<SessionRow>>>);

/// A session.
pub(super) struct Parent {
    pub(super) row: SessionRow,
    pub(super) id: String,
}

impl Parents {
    /// The session that `child` means by the name of its parent.
    pub(super) fn find(
        &self,
        conn: &Connection,
        child: SessionRow,
        said: &str,
    ) -> Result<Option<Parent>> {
        let called = conn
            .prepare_cached(
                "SELECT o.id FROM sessions s
                   JOIN sessions o ON o.session_id = ?2
                  WHERE s.id = ?1 AND o.id <> s.id
                  ORDER BY o.format = s.format DESC, o.agent = s.agent DESC, o.id LIMIT 1",
            )?
            .query_row((child, said), |row| row.get(0))
            .optional()?;
        if let Some(row) = called {
            return Ok(Some(Parent { row, id: said.to_owned() }));
        }
        let Some(id) = id_in(said) else { return Ok(None) };
        let others = match self.0.get() {
            Some(others) => others,
            None => {
                let others = others(conn)?;
                self.0.get_or_init(|| others)
            }
        };
        let mut found = None;
        for row in others.get(&id).into_iter().flatten() {
            let relative = conn
                .prepare_cached(
                    "SELECT o.session_id FROM sessions s
                       JOIN sessions o ON o.format = s.format AND o.agent = s.agent
                      WHERE s.id = ?1 AND o.id = ?2 AND o.id <> s.id",
                )?
                .query_row((child, row), |row| row.get(0))
                .optional()?;
            let Some(id) = relative else { continue };
            if found.replace(Parent { row: *row, id }).is_some() {
                return Ok(None);
            }
        }
        Ok(found)
    }

    /// What a parent is called: its own id where it is known, or what was written.
    pub(super) fn name(
        &self,
        conn: &Connection,
        child: SessionRow,
        said: String,
    ) -> Result<String> {
        Ok(self.find(conn, child, &said)?.map_or(said, |parent| parent.id))
    }
}

/// The sessions by the ids that are in their names, their headers and their later names.
fn others(conn: &Connection) -> Result<HashMap<Uuid, Vec<SessionRow>>> {
    let mut others: HashMap<Uuid, Vec<SessionRow>> = HashMap::new();
    let mut add = |name: &str, row: SessionRow| {
        let Some(id) = id_in(name) else { return };
        let rows = others.entry(id).or_default();
        if !rows.contains(&row) {
            rows.push(row);
        }
    };
    let mut statement = conn.prepare_cached("SELECT session_id, id FROM sessions")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        add(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?, row.get(1)?);
    }
    headers::all(conn)?.into_iter().for_each(|(id, row)| add(&id, row));
    renamed::all(conn)?.into_iter().for_each(|(id, row)| add(&id, row));
    Ok(others)
}

/// The id that a name is, or ends in after a time.
fn id_in(name: &str) -> Option<Uuid> {
    let id = name.rsplit('_').next().filter(|id| id.len() == 36)?;
    Uuid::try_parse(id).ok()
}
