//! The list of problems: oddities of source files, each with its place.
//!
//! Reads rows only, never a record.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quipu_transcript::problem::ProblemKind;
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::{GenerationId, seq_of_entry};
use crate::file::ledger::Ledger;
use crate::truth::spans;
use crate::wire::FoundProblem;

/// Returns all problems of a kind, or of all kinds, by kind and file.
pub fn problems(ledger: &Ledger, kind: Option<ProblemKind>) -> Result<Vec<FoundProblem>> {
    let conn = ledger.conn();
    // A problem of a whole file was noted with a record of the journal.
    let mut statement = conn.prepare(concat!(
        "SELECT p.kind, p.detail, s.format, s.root, s.path, g.id, r.seq, r.start, r.length,
                t.session_id
           FROM problems p
           LEFT JOIN sources s ON s.id = p.source
           LEFT JOIN records r ON r.seq = ",
        seq_of_entry!("p.entry"),
        "  LEFT JOIN generations g ON g.id = r.generation AND g.source = p.source
           LEFT JOIN sessions t ON t.id = p.session
          WHERE ?1 IS NULL OR p.kind = ?1
          ORDER BY p.kind, s.format, s.root, s.path, r.start, p.entry",
    ))?;
    let mut rows = statement.query([kind.map(ProblemKind::as_str)])?;
    let mut lines = Lines { conn, known: HashMap::new() };
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let kind: String = row.get(0)?;
        let known = ProblemKind::ALL.iter().find(|known| known.as_str() == kind);
        let bytes = |index| row.get::<_, Option<Vec<u8>>>(index);
        let path = bytes(3)?.zip(bytes(4)?).map(|(root, path)| {
            let (root, path) = (OsStr::from_bytes(&root), OsStr::from_bytes(&path));
            Path::new(root).join(path).display().to_string()
        });
        let generation: Option<GenerationId> = row.get(5)?;
        let number = |index| -> Result<Option<i64>> {
            Ok(row.get::<_, Option<i64>>(index)?.filter(|_| generation.is_some()))
        };
        let record = number(6)?;
        let line = match generation.zip(record) {
            Some((generation, record)) => lines.of(generation, record)?,
            None => None,
        };
        found.push(FoundProblem {
            kind,
            meaning: known.map_or("", |known| known.meaning()),
            detail: row.get(1)?,
            format: row.get(2)?,
            path,
            line,
            offset: number(7)?.map(i64::cast_unsigned),
            bytes: number(8)?.map(i64::cast_unsigned),
            seq: record,
            session_id: row.get(9)?,
        });
    }
    Ok(found)
}

/// Finds the line of a record. The spans of each generation are read once.
struct Lines<'c> {
    conn: &'c Connection,
    known: HashMap<GenerationId, Option<Vec<(i64, i64)>>>,
}

impl Lines<'_> {
    fn of(&mut self, generation: GenerationId, record: i64) -> Result<Option<u64>> {
        if !self.known.contains_key(&generation) {
            self.known.insert(generation, spans::own_records(self.conn, generation)?);
        }
        let Some(Some(runs)) = self.known.get(&generation) else { return Ok(None) };
        let mut before = 0;
        for (first, last) in runs {
            if (*first..=*last).contains(&record) {
                return Ok(u64::try_from(before + record - first + 1).ok());
            }
            before += last - first + 1;
        }
        Ok(None)
    }
}
