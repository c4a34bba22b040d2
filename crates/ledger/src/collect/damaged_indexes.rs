//! Indexes on disk that cannot be read, or not to their end.

use std::collections::HashMap;

use quipu_transcript::format;
use quipu_transcript::problem::ProblemKind;
use rusqlite::Connection;

use super::known::{self, Known};
use crate::Result;
use crate::base::ids::SourceId;
use crate::truth::forgotten::Forgotten;
use crate::truth::indexes::load;

/// Returns the indexes that could not be read at the last look, or not to their end, each with the
/// reason.
pub(crate) fn damaged<'k>(
    conn: &Connection,
    known: &'k [Known],
    forgotten: &Forgotten,
) -> Result<Vec<(&'k Known, String)>> {
    // Everything that was ever wrong. The newest bytes show whether it still is.
    let mut statement =
        conn.prepare("SELECT source, detail FROM problems WHERE kind = ?1 ORDER BY entry")?;
    let noted: HashMap<SourceId, String> = statement
        .query_map([ProblemKind::IndexDamaged.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut damaged = Vec::new();
    for known in known.iter().filter(|known| !known.is_gone && known.is_kept_whole()) {
        let Some(noted) = noted.get(&known.source) else { continue };
        let Some(format) = format::by_name(&known.format) else { continue };
        let Some(bytes) = load(conn, known.source)? else { continue };
        let index = format.read_index(&format.origin(&known.first_path), &bytes);
        let mut problems = index.problems.into_iter();
        let why = problems.find(|problem| problem.kind == ProblemKind::IndexDamaged);
        // Of a good index from which forgotten sessions were taken, the file is always another.
        let is_other = !forgotten.concerns(format) && !is_of(&bytes, known);
        match why {
            Some(problem) => damaged.push((known, problem.detail)),
            None if is_other => damaged.push((known, noted.clone())),
            None => {}
        }
    }
    Ok(damaged)
}

/// Returns true if these are the bytes that the file had when it was last looked at.
fn is_of(bytes: &[u8], known: &Known) -> bool {
    let head = bytes.get(..known.head_length);
    bytes.len() as u64 == known.stat.size
        && head.is_some_and(|head| known::print(head) == known.head)
}
