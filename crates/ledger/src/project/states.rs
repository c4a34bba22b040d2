//! The states of sessions, derived from the places of their files.
//!
//! Never looks at the disk: the ledger knows the last place of each file.

use std::collections::BTreeSet;

use quipu_transcript::format::{self, Archive};
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::{SessionRow, SourceId};

/// The state of a session without files.
pub(super) const WITHOUT_FILES: &str = "lost";

/// Returns the state of a session's files: `live`, `archived`, `deleted`, `gone`, or `lost` if
/// there never was a transcript to collect.
fn state(conn: &Connection, session: SessionRow) -> Result<&'static str> {
    let mut statement = conn.prepare_cached(
        "SELECT s.kind, s.format, s.path, s.is_gone
           FROM session_sources ss JOIN sources s ON s.id = ss.source
          WHERE ss.session = ?1 AND ss.part IN ('transcript', 'agent', 'subagent')",
    )?;
    let mut rows = statement.query([session])?;
    let mut best: Option<&'static str> = None;
    while let Some(row) = rows.next()? {
        let archive = format::by_name(row.get_ref(1)?.as_str().unwrap_or_default())
            .and_then(|format| format.origin(row.get_ref(2).ok()?.as_blob().ok()?).archive);
        let state = match (row.get::<_, bool>(3)?, archive) {
            (true, _) => "gone",
            (false, Some(Archive::Deleted)) => "deleted",
            (false, Some(Archive::Reset | Archive::Backup | Archive::Imported | Archive::Cold)) => {
                "archived"
            }
            (false, None) => "live",
        };
        // The order of precedence: the last of these that any file has is the session's state.
        let order = ["gone", "deleted", "archived", "live"];
        let rank = |state| order.iter().position(|other| *other == state);
        if best.is_none_or(|best| rank(state) > rank(best)) {
            best = Some(state);
        }
        if best == order.last().copied() {
            break;
        }
    }
    Ok(best.unwrap_or(WITHOUT_FILES))
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
            let state = state(conn, session)?;
            conn.prepare_cached("UPDATE sessions SET state = ?2 WHERE id = ?1 AND state <> ?2")?
                .execute((session, state))?;
        }
        Ok(())
    }
}
