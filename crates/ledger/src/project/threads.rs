//! Joins a thread's transcript with what the agent moved of it into its database, where the
//! session's id lacks the thread.
//!
//! Equal headers show that both are one session. It keeps the id with the thread, whichever of the
//! two was collected first. Never joins two transcripts that are both in the agent's folder.

use quipu_transcript::format::{Archive, Format, Origin};
use rusqlite::{Connection, OptionalExtension, Transaction};

use super::draft::{Detail, DraftEntry};
use super::session::Name;
use super::source_state::SourceState;
use super::{Fold, RecordPosition, keys, session_sources};
use crate::Result;
use crate::base::ids::{SessionRow, SourceId};

/// The number of threads of one id that are compared with a moved transcript.
const MAX_THREADS: i64 = 1000;

/// Returns whether a transcript is in the agent's database, or is the file that the agent set aside
/// when it moved the transcript there.
fn is_moved(is_row: bool, origin: &Origin) -> bool {
    is_row || origin.archive == Some(Archive::Imported)
}

impl Fold {
    /// Returns the name of the session that a source belongs to, whose path names `name`.
    pub(super) fn joined_name(
        &mut self,
        tx: &Transaction<'_>,
        position: &RecordPosition<'_>,
        state: &SourceState,
        draft: &DraftEntry,
        name: Name,
    ) -> Result<Name> {
        let format = position.format;
        let is_moved = is_moved(position.is_row, position.origin);
        if let Some(row) = state.session.filter(|_| is_moved) {
            return Ok(self.sessions.name_of(tx, format, row)?.unwrap_or(name));
        }
        if state.session.is_some() || !matches!(draft.detail, Detail::Header) {
            return Ok(name);
        }
        let (Some(prefix), true) = (format.thread_session(&name.id, ""), is_moved) else {
            return match format.without_thread(&name.id).filter(|_| !is_moved) {
                Some(id) => self.rename_moved(tx, format, id, draft.content, &name).map(|()| name),
                None => Ok(name),
            };
        };
        self.sessions.save(tx)?;
        if let Some(row) = session_sources::find(tx, name.format, &name.agent, &name.id)?
            && has_header(tx, row, draft.content)?
        {
            return Ok(name);
        }
        let found: Option<String> = tx
            .prepare_cached(
                "SELECT session_id FROM (
                    SELECT id, session_id FROM sessions
                     WHERE format = ?1 AND agent = ?2
                       AND session_id > ?3 AND session_id < ?3 || char(0x10ffff)
                     ORDER BY session_id LIMIT ?5) s
                  WHERE EXISTS (SELECT 1 FROM entry_rows e
                                 WHERE e.session = s.id AND e.uuid IS NULL AND e.content = ?4)
                  LIMIT 1",
            )?
            .query_row((name.format, &name.agent, prefix, draft.content, MAX_THREADS), |row| {
                row.get(0)
            })
            .optional()?;
        Ok(match found {
            Some(id) => Name { id, ..name },
            None => name,
        })
    }

    /// Gives the name of a thread's session to the one that the database has under the plain `id`,
    /// if both have the same header.
    fn rename_moved(
        &mut self,
        tx: &Transaction<'_>,
        format: &dyn Format,
        id: &str,
        header: i64,
        name: &Name,
    ) -> Result<()> {
        self.sessions.save(tx)?;
        let row = |id: &str| session_sources::find(tx, name.format, &name.agent, id);
        if row(&name.id)?.is_some() {
            return Ok(());
        }
        let Some(row) = row(id)? else { return Ok(()) };
        if !has_header(tx, row, header)? || !is_all_moved(tx, format, row)? {
            return Ok(());
        }
        self.sessions.close(tx)?;
        tx.prepare_cached("UPDATE sessions SET session_id = ?2 WHERE id = ?1")?
            .execute((row, &name.id))?;
        keys::choose_again(tx, name)?;
        keys::choose_again(tx, &Name { id: id.to_owned(), ..name.clone() })
    }

    /// Returns the name of the session that a copy of `original` belongs to, whose path names
    /// `name`.
    pub(super) fn copied_name(
        &self,
        conn: &Connection,
        format: &'static dyn Format,
        origin: &Origin,
        original: SourceId,
        name: Name,
    ) -> Result<Name> {
        if !is_moved(false, origin) {
            return Ok(name);
        }
        let row: Option<SessionRow> = conn
            .prepare_cached("SELECT min(session) FROM session_sources WHERE source = ?1")?
            .query_row([original], |row| row.get(0))?;
        let original_name = match row {
            Some(row) => self.sessions.name_of(conn, format, row)?,
            None => None,
        };
        let is_thread = |original: &Name| format.without_thread(&original.id) == Some(&name.id);
        Ok(original_name.filter(is_thread).unwrap_or(name))
    }
}

/// Returns whether a file of a session begins with that header. A header has no id.
fn has_header(tx: &Transaction<'_>, session: SessionRow, header: i64) -> Result<bool> {
    Ok(tx
        .prepare_cached(
            "SELECT 1 FROM entry_rows WHERE session = ?1 AND uuid IS NULL AND content = ?2",
        )?
        .exists((session, header))?)
}

/// Returns whether every transcript of a session was moved.
fn is_all_moved(conn: &Connection, format: &dyn Format, session: SessionRow) -> Result<bool> {
    let mut statement = conn.prepare_cached(
        "SELECT f.kind = 'rows', f.first_path
           FROM session_sources ss CROSS JOIN sources f ON f.id = ss.source
          WHERE ss.session = ?1",
    )?;
    let mut rows = statement.query([session])?;
    while let Some(row) = rows.next()? {
        let path = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        if !is_moved(row.get(0)?, &format.origin(path)) {
            return Ok(false);
        }
    }
    Ok(true)
}
