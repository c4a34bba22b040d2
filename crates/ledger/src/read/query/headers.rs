//! Sessions whose header names another id than their file.

use quipu_transcript::record;
use rusqlite::{Connection, OptionalExtension};

use quipu_transcript::entry::Says;
use quipu_transcript::problem::ProblemKind;

use crate::Result;
use crate::base::ids::{EntryId, GenerationId, SessionRow};
use crate::project::rebuild::Home;
use crate::truth::chunks::RecordReader;

/// The sessions whose headers name this id, or one that begins so.
pub(super) fn named(conn: &Connection, name: &str) -> Result<Vec<SessionRow>> {
    Ok(best(all(conn)?, name))
}

/// Of sessions by their names those with this one, or else with one that begins so.
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

/// All sessions whose headers name another id, with that id. The file's name is a session's id, and
/// nothing else is kept of the header; but that they differ is noted, so few have to be read.
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
        let Some(home) = generation.map(|id| Home::of(conn, id)).transpose()?.flatten() else {
            continue;
        };
        let bytes = reader.read(seq)?;
        record::read(home.format(), home.origin(), &bytes, &mut |entry| {
            for said in &entry.says {
                if let Says::SessionId(id) = said {
                    found.push((id.to_string(), session));
                }
            }
        });
    }
    Ok(found)
}
