//! Notes: memory and personality files, in every collected version.
//!
//! Reads the ledger. Never opens the files themselves.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::Result;
use crate::base::ids::{Seq, SourceId};
use crate::file::ledger::Ledger;
use crate::truth::chunks::RecordReader;
use crate::wire::{Note, NoteVersion};

/// Returns all notes, by agent and name.
pub fn notes(ledger: &Ledger) -> Result<Vec<Note>> {
    let conn = ledger.conn();
    let mut notes: BTreeMap<(String, String, SourceId), Note> = BTreeMap::new();
    for version in versions(conn)? {
        let Version { source, format, agent, name, is_gone, time, bytes, .. } = version;
        let note = notes.entry((agent.clone(), name.clone(), source)).or_insert_with(|| Note {
            format,
            agent,
            name,
            versions: 0,
            bytes: 0,
            updated_at: None,
            gone: is_gone,
        });
        note.versions += 1;
        note.bytes = bytes;
        note.updated_at = time;
    }
    Ok(notes.into_values().collect())
}

/// Returns every version of one note with its text, oldest first.
pub fn note_versions(ledger: &Ledger, agent: &str, name: &str) -> Result<Vec<NoteVersion>> {
    let conn = ledger.conn();
    let mut reader = RecordReader::new(conn);
    let mut found: Vec<NoteVersion> = Vec::new();
    for version in versions(conn)? {
        if version.agent != agent || version.name != name {
            continue;
        }
        let text = match version.seq {
            Some(seq) => String::from_utf8_lossy(&reader.read(seq)?).into_owned(),
            None => String::new(),
        };
        found.push(NoteVersion {
            agent: version.agent,
            name: version.name,
            version: found.len() as u64 + 1,
            time: version.time,
            bytes: version.bytes,
            text,
        });
    }
    Ok(found)
}

struct Version {
    source: SourceId,
    format: String,
    agent: String,
    name: String,
    is_gone: bool,
    /// The time when the file last changed while it held this version, milliseconds UTC.
    time: Option<i64>,
    bytes: u64,
    /// The record of the version. `None` for an empty file, which has no record.
    seq: Option<Seq>,
}

/// Returns every version of every note, by source and number.
fn versions(conn: &Connection) -> Result<Vec<Version>> {
    let mut statement = conn.prepare_cached(
        "WITH noted (source, agent, name) AS (
             SELECT DISTINCT source, coalesce(agent, ''), name FROM documents WHERE part = 'note'
         )
         SELECT n.source, s.format, n.agent, n.name, s.is_gone, g.mtime_ns, g.cursor,
                (SELECT max(p.first_seq) FROM spans p WHERE p.generation = g.id)
           FROM noted n
           JOIN sources s ON s.id = n.source
           JOIN generations g ON g.source = s.id
          ORDER BY n.source, g.number",
    )?;
    let versions = statement
        .query_map([], |row| {
            Ok(Version {
                source: row.get(0)?,
                format: row.get(1)?,
                agent: row.get(2)?,
                name: row.get(3)?,
                is_gone: row.get(4)?,
                time: Some(row.get::<_, i64>(5)? / 1_000_000).filter(|time| *time > 0),
                bytes: row.get::<_, i64>(6)?.cast_unsigned(),
                seq: row.get(7)?,
            })
        })?
        .collect::<Result<_, _>>()?;
    Ok(versions)
}
