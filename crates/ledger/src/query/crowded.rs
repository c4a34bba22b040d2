//! Which sessions cannot be told by the first letters of their ids: ids that begin with the time
//! (UUIDv7) are alike for as long as a minute.

use crate::Result;
use crate::ledger::Ledger;

/// Ids that begin like another one, sorted: each shares its first `letters` with a neighbour.
/// Sub-agents are called after their session, and are told by their own names.
pub fn crowded_ids(ledger: &Ledger, letters: usize) -> Result<Vec<String>> {
    let mut statement = ledger.conn().prepare(
        "SELECT session_id
           FROM (SELECT session_id, count(*) OVER (PARTITION BY substr(session_id, 1, ?1)) AS alike
                   FROM (SELECT DISTINCT session_id FROM sessions
                          WHERE instr(session_id, '/') = 0))
          WHERE alike > 1 ORDER BY session_id",
    )?;
    let ids = statement.query_map([letters as i64], |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}
