//! Sessions whose header has another id than the name of their file.
//!
//! The session keeps the id of its file. Here the id of the header only leads to the session.

use quipu_transcript::record;
use rusqlite::{Connection, OptionalExtension};

use quipu_transcript::entry::SessionFact;
use quipu_transcript::problem::ProblemKind;

use crate::Result;
use crate::base::ids::{EntryId, GenerationId, SessionRow};
use crate::project::rebuild::GenerationInfo;
use crate::truth::chunks::RecordReader;

/// Returns the sessions whose headers have this id, or one that begins with it.
pub(super) fn named(conn: &Connection, name: &str) -> Result<Vec<SessionRow>> {
    Ok(best(all(conn)?, name))
}

/// Returns the sessions with exactly this name, or else those whose name begins with it.
pub(super) fn best(named: Vec<(String, SessionRow)>, name: &str) -> Vec<SessionRow> {
    let mut found: Vec<(bool, SessionRow)> = named
        .into_iter()
        .filter(|(id, _)| id.starts_with(name))
        .map(|(id, session)| (id == name, session))
        .collect();
    if found.iter().any(|(is_exact, _)| *is_exact) {
        found.retain(|(is_exact, _)| *is_exact);
    }
    let mut sessions: Vec<SessionRow> = found.into_iter().map(|(_, session)| session).collect();
    sessions.sort_unstable();
    sessions.dedup();
    sessions
}

/// Returns all sessions whose headers have another id, with that id. The projection does not store
/// the header's id. It stores a problem for each mismatch, so only few headers are read.
pub(super) fn all(conn: &Connection) -> Result<Vec<(String, SessionRow)>> {
    let mismatches: Vec<(EntryId, SessionRow)> = conn
        .prepare("SELECT entry, session FROM problems WHERE kind = ?1 AND session IS NOT NULL")?
        .query_map([ProblemKind::HeaderMismatch.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut reader = RecordReader::for_few(conn);
    let mut found = Vec::new();
    for (entry, session) in mismatches {
        let Some(seq) = entry.seq() else { continue };
        let generation: Option<GenerationId> = conn
            .prepare_cached("SELECT generation FROM records WHERE seq = ?1 AND length < 65536")?
            .query_row([seq], |row| row.get(0))
            .optional()?;
        let Some(info) = generation.map(|id| GenerationInfo::of(conn, id)).transpose()?.flatten()
        else {
            continue;
        };
        let bytes = reader.read(seq)?;
        record::read(info.format(), info.origin(), &bytes, &mut |entry| {
            for fact in &entry.facts {
                if let SessionFact::SessionId(id) = fact {
                    found.push((id.to_string(), session));
                }
            }
        });
    }
    Ok(found)
}
