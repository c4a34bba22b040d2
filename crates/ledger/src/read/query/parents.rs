//! Finds the session that a fork names as its parent.
//!
//! A fork names a file, and mostly the file's name is the session's id. A parent may also be stored
//! under another name: some agents put the time before the id, and people rename files. Then the id
//! within that name is compared with the ids, headers and later names of all sessions. Only whole
//! ids of the same agent count. If several sessions fit, none is chosen.

use std::cell::OnceCell;

use foldhash::{HashMap, HashMapExt};
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::{headers, renamed};
use crate::Result;
use crate::base::ids::SessionRow;

/// Finds parents. The other names of sessions are read once, when the first name has no match.
#[derive(Default)]
pub(super) struct Parents(OnceCell<HashMap<Uuid, Vec<SessionRow>>>);

/// A session that a fork continues.
pub(super) struct Parent {
    pub(super) row: SessionRow,
    pub(super) id: String,
}

impl Parents {
    /// Returns the session that `child` names as its parent.
    pub(super) fn find(
        &self,
        conn: &Connection,
        child: SessionRow,
        parent_name: &str,
    ) -> Result<Option<Parent>> {
        let called = conn
            .prepare_cached(
                "SELECT o.id FROM sessions s
                   JOIN sessions o ON o.session_id = ?2
                  WHERE s.id = ?1 AND o.id <> s.id
                  ORDER BY o.format = s.format DESC, o.agent = s.agent DESC, o.id LIMIT 1",
            )?
            .query_row((child, parent_name), |row| row.get(0))
            .optional()?;
        if let Some(row) = called {
            return Ok(Some(Parent { row, id: parent_name.to_owned() }));
        }
        let Some(id) = id_in(parent_name) else { return Ok(None) };
        let by_other_ids = match self.0.get() {
            Some(by_other_ids) => by_other_ids,
            None => {
                let by_other_ids = by_other_ids(conn)?;
                self.0.get_or_init(|| by_other_ids)
            }
        };
        let mut found = None;
        for row in by_other_ids.get(&id).into_iter().flatten() {
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

    /// Returns the id of a parent if it is found, or else the recorded name.
    pub(super) fn name(
        &self,
        conn: &Connection,
        child: SessionRow,
        parent_name: String,
    ) -> Result<String> {
        Ok(self.find(conn, child, &parent_name)?.map_or(parent_name, |parent| parent.id))
    }
}

/// Returns the rows of sessions for each id in a session's name, header or later name.
fn by_other_ids(conn: &Connection) -> Result<HashMap<Uuid, Vec<SessionRow>>> {
    let mut by_other_ids: HashMap<Uuid, Vec<SessionRow>> = HashMap::new();
    let mut add = |name: &str, row: SessionRow| {
        let Some(id) = id_in(name) else { return };
        let rows = by_other_ids.entry(id).or_default();
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
    Ok(by_other_ids)
}

/// Returns the UUID in a name: the whole name, or the part after its last `_`.
fn id_in(name: &str) -> Option<Uuid> {
    let id = name.rsplit('_').next().filter(|id| id.len() == 36)?;
    Uuid::try_parse(id).ok()
}
