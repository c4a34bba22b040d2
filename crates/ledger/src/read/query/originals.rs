//! Originals: collected sessions that were also imported. Lists and searches show the native
//! session instead.
//!
//! The original stays in the ledger. Lists show it with `all`, and `FORMAT/ID` names it.

use foldhash::{HashMap, HashMapExt};
use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::wire::Session;

/// A condition on the session `s`: it is the original of an imported session.
macro_rules! is_original {
    () => {
        "(s.format <> 'native'
          AND EXISTS (SELECT 1 FROM sessions n WHERE n.format = 'native' AND n.agent = s.agent
                                                 AND n.session_id = s.session_id))"
    };
}
pub(crate) use is_original;

/// The originals, each with the native sessions that its files became: the session itself, and
/// those of its archives.
#[derive(Debug, Default)]
pub(crate) struct Originals(HashMap<SessionRow, Vec<SessionRow>>);

impl Originals {
    pub(crate) fn read(conn: &Connection) -> Result<Originals> {
        let mut statement = conn.prepare_cached(
            "SELECT original.id, imported.id
               FROM sessions native
               JOIN sessions original ON original.session_id = native.session_id
                                     AND original.agent = native.agent
                                     AND original.format <> native.format
               JOIN sessions imported ON imported.format = native.format
                                     AND imported.agent = native.agent
                                     AND imported.session_id >= native.session_id
                                     AND imported.session_id < native.session_id || '/'
              WHERE native.format = 'native'
                AND (imported.session_id = native.session_id
                     OR instr(imported.session_id, native.session_id || '.') = 1)",
        )?;
        let mut originals: HashMap<SessionRow, Vec<SessionRow>> = HashMap::new();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            originals.entry(row.get(0)?).or_default().push(row.get(1)?);
        }
        Ok(Originals(originals))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, session: SessionRow) -> bool {
        self.0.contains_key(&session)
    }

    /// Gives originals the names by which they are found.
    pub(super) fn name(&self, rows: &[Option<SessionRow>], sessions: &mut [Session]) {
        for (row, session) in rows.iter().zip(sessions) {
            if row.is_some_and(|row| self.contains(row)) {
                session.session_id = format!("{}/{}", session.format, session.session_id);
            }
        }
    }

    /// Returns whether a native session has the entry of an original, too.
    pub(crate) fn has_copy(
        &self,
        conn: &Connection,
        session: SessionRow,
        entry: EntryId,
    ) -> Result<bool> {
        let mut statement = conn.prepare_cached(
            "SELECT 1 FROM entry_rows e JOIN entry_rows copy ON copy.uuid = e.uuid
              WHERE e.id = ?1 AND copy.session = ?2 LIMIT 1",
        )?;
        for native in self.0.get(&session).into_iter().flatten() {
            if statement.query_row((entry, native), |_| Ok(())).optional()?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
