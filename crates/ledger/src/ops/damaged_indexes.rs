//! Finds indexes on disk that cannot be read, or only in part.
//!
//! Compares stored bytes and problems. Never opens a file.

use std::collections::HashMap;

use quipu_transcript::format;
use quipu_transcript::problem::ProblemKind;
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::SourceId;
use crate::collect::known::{self, KnownSource};
use crate::truth::forgotten::Forgotten;
use crate::truth::indexes::load;

/// Returns the indexes that could not be read to their end at the last sync, each with the reason.
pub(crate) fn damaged<'k>(
    conn: &Connection,
    known: &'k [KnownSource],
    forgotten: &Forgotten,
) -> Result<Vec<(&'k KnownSource, String)>> {
    // All problems ever recorded. The newest bytes show whether one still exists.
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
        // If forgotten sessions were removed from an index, the stored bytes always differ from the
        // file.
        let is_other = !forgotten.concerns(format) && !is_of(&bytes, known);
        match why {
            Some(problem) => damaged.push((known, problem.detail)),
            None if is_other => damaged.push((known, noted.clone())),
            None => {}
        }
    }
    Ok(damaged)
}

/// Returns whether these are the bytes that the file had at the last sync.
fn is_of(bytes: &[u8], known: &KnownSource) -> bool {
    let head = bytes.get(..known.head_length);
    bytes.len() as u64 == known.stat.size
        && head.is_some_and(|head| known::fingerprint(head) == known.head)
}
