//! The states of sessions, derived from the paths of their files and from their keys.
//!
//! Never looks at the disk: the ledger stores the last path of each file.

use std::collections::BTreeSet;

use quipu_transcript::format;
use quipu_transcript::formats::native;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql};

use crate::Result;
use crate::base::ids::{SessionRow, SourceId};
use crate::project::session::Name;
use crate::project::session_sources::{self, holds_transcript};
use crate::wire::SessionState;

impl ToSql for SessionState {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.as_str()))
    }
}

impl FromSql for SessionState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<SessionState> {
        SessionState::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}

/// Returns the state of a session's files.
fn state(conn: &Connection, session: SessionRow) -> Result<SessionState> {
    let mut statement = conn.prepare_cached(concat!(
        "SELECT s.format, s.path, s.is_gone
           FROM session_sources ss JOIN sources s ON s.id = ss.source
          WHERE ss.session = ?1 AND ",
        holds_transcript!("ss.part")
    ))?;
    let mut rows = statement.query([session])?;
    let mut best = SessionState::Lost;
    while best != SessionState::Live
        && let Some(row) = rows.next()?
    {
        let (format, is_gone) = (row.get_ref(0)?.as_str().unwrap_or_default(), row.get(2)?);
        best = best.max(match format == native::NAME && is_gone {
            // A native session has no file that could be gone. The mark means that an import found
            // the session deleted.
            true => SessionState::Deleted,
            false => {
                let archive = format::by_name(format)
                    .and_then(|format| format.origin(row.get_ref(1).ok()?.as_blob().ok()?).archive);
                SessionState::of_file(is_gone, archive)
            }
        });
    }
    match best == SessionState::Live && is_archived(conn, session)? {
        true => Ok(SessionState::Archived),
        false => Ok(best),
    }
}

/// Returns whether a person archived a session: all keys that lead to it are archived.
fn is_archived(conn: &Connection, session: SessionRow) -> Result<bool> {
    let is_archived: Option<bool> = conn
        .prepare_cached(
            "SELECT min(k.is_archived)
               FROM sessions s CROSS JOIN session_keys k ON k.session_id = s.session_id
              WHERE s.id = ?1 AND k.format = s.format AND k.agent = s.agent",
        )?
        .query_row([session], |row| row.get(0))?;
    Ok(is_archived.unwrap_or(false))
}

/// Updates the state in the row of a session.
fn update(conn: &Connection, session: SessionRow) -> Result<()> {
    let state = state(conn, session)?;
    conn.prepare_cached("UPDATE sessions SET state = ?2 WHERE id = ?1 AND state <> ?2")?
        .execute((session, state))?;
    Ok(())
}

/// Updates the state in the row of a session, if it has a row.
pub(super) fn update_named(conn: &Connection, name: &Name) -> Result<()> {
    match session_sources::find(conn, name.format, &name.agent, &name.id)? {
        Some(session) => update(conn, session),
        None => Ok(()),
    }
}

/// The sessions whose states may differ from their rows. Each is checked once per transaction, for
/// any number of changed files.
#[derive(Debug, Default)]
pub(super) struct States {
    due: BTreeSet<SessionRow>,
}

impl States {
    /// Adds a session that has a new file.
    pub(super) fn add(&mut self, session: SessionRow) {
        self.due.insert(session);
    }

    /// Adds all sessions of a file that changed.
    pub(super) fn add_all_of(&mut self, conn: &Connection, source: SourceId) -> Result<()> {
        let mut statement =
            conn.prepare_cached("SELECT session FROM session_sources WHERE source = ?1")?;
        let mut rows = statement.query([source])?;
        while let Some(row) = rows.next()? {
            self.due.insert(row.get(0)?);
        }
        Ok(())
    }

    /// Updates the rows of the sessions, which must exist.
    pub(super) fn save(&mut self, conn: &Connection) -> Result<()> {
        for session in std::mem::take(&mut self.due) {
            update(conn, session)?;
        }
        Ok(())
    }
}
