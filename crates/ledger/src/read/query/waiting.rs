//! Finds out whether a session waits for a person.
//!
//! Reads rows only, never a record.

use quipu_transcript::story::QUESTIONS;
use rusqlite::OptionalExtension;

use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::file::ledger::Ledger;

/// What a session waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// The agent works, or nothing was asked yet.
    No,
    /// The agent has ended this turn.
    TurnEnded(EntryId),
    /// This call asks a person: a question, or a plan to approve.
    Question(EntryId),
}

/// Returns the event that a session waits for.
pub fn waiting(ledger: &Ledger, session: SessionRow) -> Result<Waiting> {
    let conn = ledger.conn();
    let mut asked = conn.prepare_cached(
        "SELECT max(c.entry) FROM tool_call_rows c CROSS JOIN tools t ON t.id = c.tool
          WHERE c.session = ?1 AND c.result IS NULL AND t.name = ?2
            AND c.entry >= (SELECT max(id) FROM turns WHERE session = ?1)",
    )?;
    for tool in QUESTIONS {
        let call: Option<EntryId> = asked.query_row((session, tool), |row| row.get(0))?;
        if let Some(call) = call {
            return Ok(Waiting::Question(call));
        }
    }
    let turn = conn
        .prepare_cached("SELECT id, status FROM turns WHERE session = ?1 ORDER BY id DESC LIMIT 1")?
        .query_row([session], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    Ok(match turn {
        Some((turn, status)) if status != "open" => Waiting::TurnEnded(turn),
        _ => Waiting::No,
    })
}
