//! The sessions of a fold: a few are kept in memory, the rest are rows.
//!
//! Never holds more than a bounded number of sessions between two commits.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashMap;
use quipu_transcript::format::Format;
use rusqlite::{Connection, OptionalExtension};

use super::session::{Name, Session};
use super::states::States;
use super::usage;
use crate::Result;
use crate::base::ids::{SessionRow, SourceId};
use crate::project::usage_rollup::UsageRollup;

/// The sessions of a fold, by name and by row.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    rows: HashMap<Name, SessionRow>,
    /// The session of the last call; most records belong to the same session as the one before.
    last: Option<(Name, SessionRow)>,
    /// The open sessions in the order of their rows, so that their data is written in order.
    open: BTreeMap<SessionRow, (Name, Session)>,
    /// Responses whose usage was written and must be compared with their copies.
    changed_responses: BTreeSet<i64>,
    /// The changes of the usage sums.
    rollup: UsageRollup,
    states: States,
}

/// The largest number of open sessions between two commits, to bound memory.
const MAX_OPEN_SESSIONS: usize = 16;

/// The approximate largest number of entries in all open sessions, to bound memory.
const MAX_OPEN_ENTRIES: usize = 32 << 10;

impl Sessions {
    /// Returns the session with that name. If there is none, creates it with the row number `seq`.
    pub(crate) fn get(
        &mut self,
        conn: &Connection,
        name: &Name,
        seq: SessionRow,
    ) -> Result<&mut Session> {
        let last = self.last.as_ref().filter(|(last, _)| last == name).map(|(_, row)| *row);
        let row = match last.or_else(|| self.rows.get(name).copied()) {
            Some(row) => row,
            None => {
                let entries: usize =
                    self.open.values().map(|(_, session)| session.tree.len()).sum();
                if self.open.len() >= MAX_OPEN_SESSIONS || entries >= MAX_OPEN_ENTRIES {
                    self.close(conn)?;
                }
                let session = match Session::load(conn, name)? {
                    Some(session) => session,
                    None => Session::new(seq),
                };
                let row = session.row;
                self.rows.insert(name.clone(), row);
                self.open.insert(row, (name.clone(), session));
                row
            }
        };
        if last.is_none() {
            self.last = Some((name.clone(), row));
        }
        self.open
            .get_mut(&row)
            .map(|(_, session)| session)
            .ok_or_else(|| crate::Error::damaged("a session lost its row".to_owned()))
    }

    /// Returns the name of the session with that row.
    pub(crate) fn name_of(
        &self,
        conn: &Connection,
        format: &'static dyn Format,
        row: SessionRow,
    ) -> Result<Option<Name>> {
        if let Some((name, _)) = self.open.get(&row) {
            return Ok(Some(name.clone()));
        }
        Ok(conn
            .prepare_cached("SELECT agent, session_id FROM sessions WHERE id = ?1")?
            .query_row([row], |row| {
                Ok(Name { format: format.name(), agent: row.get(0)?, id: row.get(1)? })
            })
            .optional()?)
    }

    /// Writes all rows that changed.
    pub(crate) fn save(&mut self, conn: &Connection) -> Result<()> {
        for (name, session) in self.open.values_mut() {
            session.save(conn, name)?;
            if std::mem::take(&mut session.has_new_source) {
                self.states.add(session.row);
            }
            session.calls.save(conn, session.row)?;
            let (changed_responses, rollup) = (&mut self.changed_responses, &mut self.rollup);
            session.usage.save(
                conn,
                session.row,
                session.is_complete,
                changed_responses,
                rollup,
            )?;
        }
        Ok(())
    }

    /// Marks the sessions of a source whose file changed.
    pub(crate) fn mark_source_changed(
        &mut self,
        conn: &Connection,
        source: SourceId,
    ) -> Result<()> {
        self.states.add_all_of(conn, source)
    }

    /// Updates the states of sessions. All sessions must be saved.
    pub(crate) fn save_states(&mut self, conn: &Connection) -> Result<()> {
        self.states.save(conn)
    }

    /// Selects the counted copy of each response whose usage changed since the last commit, and
    /// updates the sums. All sessions must be saved.
    pub(crate) fn recount(&mut self, conn: &Connection) -> Result<()> {
        usage::recount_all(conn, std::mem::take(&mut self.changed_responses), &mut self.rollup)?;
        self.rollup.save(conn)
    }

    /// Writes all rows that changed and closes the sessions.
    pub(crate) fn close(&mut self, conn: &Connection) -> Result<()> {
        self.save(conn)?;
        self.rows.clear();
        self.last = None;
        self.open.clear();
        Ok(())
    }
}
