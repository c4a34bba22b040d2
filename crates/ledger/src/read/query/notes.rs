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
            is_gone,
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

/// Returns the notes in the folder `name`; `None` if `name` is a note.
pub fn notes_in_folder(notes: &[Note], name: &str) -> Option<Vec<Note>> {
    if matching(notes, name, &[is_exact, is_end]).len() == 1 {
        return None;
    }
    let folder = name.trim_end_matches('/').to_lowercase();
    let is_in = |note: &&Note| {
        let (agent, name) = (note.agent.to_lowercase(), note.name.to_lowercase());
        let inside =
            |path: &str| path.strip_prefix(&folder).is_some_and(|rest| rest.starts_with('/'));
        inside(&name) || inside(&format!("{agent}/{name}"))
    };
    let found: Vec<Note> = notes.iter().filter(is_in).cloned().collect();
    (!folder.is_empty() && !found.is_empty()).then_some(found)
}

/// A test whether a name matches a note: agent, note's path, name; all in lower case.
type Fit = fn(&str, &str, &str) -> bool;

fn is_exact(agent: &str, name: &str, wanted: &str) -> bool {
    name == wanted
        || wanted.strip_prefix(agent).and_then(|wanted| wanted.strip_prefix('/')) == Some(name)
}

fn is_end(_: &str, name: &str, wanted: &str) -> bool {
    name.strip_suffix(wanted).is_some_and(|before| before.ends_with('/'))
}

fn is_part(agent: &str, name: &str, wanted: &str) -> bool {
    !wanted.is_empty() && format!("{agent}/{name}").contains(wanted)
}

/// Returns the notes that a name matches: those with this path, or else those whose path ends with
/// it, or else those whose path contains it. Case is ignored.
pub fn matching_notes<'a>(notes: &'a [Note], name: &str) -> Vec<&'a Note> {
    matching(notes, name, &[is_exact, is_end, is_part])
}

/// Returns the notes that a name matches, by the first test that matches any note.
fn matching<'a>(notes: &'a [Note], wanted: &str, fits: &[Fit]) -> Vec<&'a Note> {
    let wanted = wanted.to_lowercase();
    let found = fits.iter().map(|fits| -> Vec<&'a Note> {
        notes
            .iter()
            .filter(|note| fits(&note.agent.to_lowercase(), &note.name.to_lowercase(), &wanted))
            .collect()
    });
    found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}
