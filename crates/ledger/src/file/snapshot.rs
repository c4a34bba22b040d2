//! One read transaction for several queries.
//!
//! Every query on its own takes and releases a lock, which costs more than a small query itself.
//! Callers never hold a snapshot while a person reads the output: the log grows as long as it is
//! held.

use rusqlite::Connection;

use crate::Result;

/// A read transaction. All queries while it exists see one state of the ledger.
pub(crate) struct Snapshot<'c> {
    conn: &'c Connection,
}

impl<'c> Snapshot<'c> {
    /// Begins a read transaction; `None` if one is open already.
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
        // Nothing was written, so an error loses nothing.
        let _ = self.conn.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
    }
}
