//! How many turns a session has, and who began them.

use rusqlite::OptionalExtension;

use crate::Result;
use crate::base::ids::SessionRow;
use crate::file::ledger::Ledger;

/// The turns of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnCounts {
    /// The number of turns.
    pub all: u64,
    /// The number of those that no person began: heartbeats, scheduled jobs.
    pub automatic: u64,
}

/// Returns how many turns a session has.
pub fn turn_counts(ledger: &Ledger, session: SessionRow) -> Result<TurnCounts> {
    let counts = ledger
        .conn()
        .prepare_cached("SELECT turns, automatic_turns FROM sessions WHERE id = ?1")?
        .query_row([session], |row| {
            let number = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
            Ok(TurnCounts { all: number(0)?, automatic: number(1)? })
        })
        .optional()?;
    Ok(counts.unwrap_or_default())
}

/// Returns the session whose agent made this call, if it is one of the newest sessions. Calls are
/// indexed by their session only.
pub fn session_of_call(ledger: &Ledger, call_id: &str) -> Result<Option<String>> {
    const NEWEST: i64 = 100;
    let mut statement = ledger.conn().prepare_cached(
        "SELECT s.session_id
           FROM (SELECT id, session_id FROM sessions ORDER BY updated_at DESC LIMIT ?2) s
          WHERE EXISTS (SELECT 1 FROM tool_call_rows c
                         WHERE c.session = s.id AND substr(c.call, -4) = substr(?1, -4)
                           AND c.call = ?1)
          LIMIT 1",
    )?;
    Ok(statement.query_row((call_id, NEWEST), |row| row.get(0)).optional()?)
}
