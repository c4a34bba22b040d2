//! One state of the ledger for several questions.
//!
//! Each question on its own takes and gives back a lock, which for small ones costs more than the
//! answer. Nobody should hold a state while somebody else reads what was printed, though: as long as
//! it is held, the write-ahead log grows.

use rusqlite::Connection;

use crate::Result;

/// What is asked while it lives is answered from one state.
pub(crate) struct Snapshot<'c> {
    conn: &'c Connection,
}

impl<'c> Snapshot<'c> {
    /// `None` if there is one already.
    pub(crate) fn of(conn: &'c Connection) -> Result<Option<Snapshot<'c>>> {
        if !conn.is_autocommit() {
            return Ok(None);
        }
        conn.prepare_cached("BEGIN")?.execute([])?;
        Ok(Some(Snapshot { conn }))
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // Nothing was written: there is nothing to lose.
        let _ = self.conn.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
    }
}
