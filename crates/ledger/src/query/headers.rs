//! Sessions whose header names another id than their file.

use quipu_transcript::record;
use rusqlite::{Connection, OptionalExtension};

use quipu_transcript::entry::Says;
use quipu_transcript::problem::ProblemKind;

use super::find::Named;
use crate::Result;
use crate::chunks::RecordReader;
use crate::ids::{EntryId, GenerationId, SessionRow};
use crate::project::rebuild::Home;

/// The sessions whose headers name this id, or one that begins so. The file's name is a session's id,
/// and nothing else is kept of the header; but that they differ is noted, so few have to be read.
pub(super) fn named(conn: &Connection, name: &str) -> Result<Vec<SessionRow>> {
    let mismatches: Vec<(EntryId, SessionRow)> = conn
        .prepare("SELECT entry, session FROM problems WHERE kind = ?1 AND session IS NOT NULL")?
        .query_map([ProblemKind::HeaderMismatch.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut reader = RecordReader::for_few(conn);
    let mut found = Named::new(name);
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
                    found.add(id, session);
                }
            }
        });
    }
    Ok(found.sessions())
}
