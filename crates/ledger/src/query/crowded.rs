//! Which sessions cannot be told by the first letters of their ids: ids that begin with the time
//! (UUIDv7) are alike for as long as a minute.

use crate::Result;
use crate::ledger::Ledger;

/// Ids that begin like another one, sorted: each shares its first `letters` with a neighbour.
/// Sub-agents are called after their session, and are told by their own names.
pub fn crowded_ids(ledger: &Ledger, letters: usize) -> Result<Vec<String>> {
    // In the order of the index, ids that begin alike stand together.
    let mut statement = ledger
        .conn()
        .prepare("SELECT session_id FROM sessions INDEXED BY sessions_by_id ORDER BY session_id")?;
    let mut rows = statement.query([])?;
    let begin_alike =
        |one: &str, other: &str| one.chars().take(letters).eq(other.chars().take(letters));
    let mut crowded = Vec::new();
    let mut last = String::new();
    let mut is_told = false;
    while let Some(row) = rows.next()? {
        let id = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        if id.contains('/') || id == last {
            continue;
        }
        let is_crowded = !last.is_empty() && begin_alike(&last, id);
        if is_crowded {
            if !is_told {
                crowded.push(last.clone());
            }
            crowded.push(id.to_owned());
        }
        is_told = is_crowded;
        last.clear();
        last.push_str(id);
    }
    Ok(crowded)
}
