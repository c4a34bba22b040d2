//! Finds the lines of an earlier generation in a rewritten or copied file, so that only new lines
//! are stored.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::chunks::RecordReader;
use crate::ids::{GenerationId, Seq};
use crate::{Result, spans};

/// Lines are compared by 128 bits of BLAKE3: transcripts are hostile, and a collision would give
/// back other bytes than were collected.
type LineHash = [u8; 16];

/// The lines of a generation.
pub(crate) struct OldLines {
    pub(crate) generation: GenerationId,
    lines: Vec<OldLine>,
    by_hash: HashMap<LineHash, usize>,
    /// The line that would follow the last one found.
    next: usize,
}

/// A line of a generation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OldLine {
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// The record that holds its bytes.
    pub(crate) seq: Seq,
    hash: LineHash,
}

impl OldLines {
    /// Reads the lines of a generation, at most about `most` bytes of them. Memory: about 80 bytes
    /// a line.
    pub(crate) fn read(conn: &Connection, generation: GenerationId, most: u64) -> Result<OldLines> {
        let mut lines = Vec::new();
        // One snapshot: otherwise each of some thousand questions would take and give back a lock.
        let snapshot = conn.unchecked_transaction()?;
        let conn = &*snapshot;
        let mut reader = RecordReader::new(conn);
        let mut holder_of =
            conn.prepare_cached("SELECT coalesce(same_as, seq) FROM records WHERE seq = ?1")?;
        'runs: for run in spans::runs(conn, generation)? {
            let (mut seq, mut start, end) = (run.first_seq, run.start, run.start + run.length);
            while start < end {
                if start > most {
                    break 'runs;
                }
                let mut hasher = blake3::Hasher::new();
                let mut length = 0;
                reader.stream(seq, &mut |part| {
                    hasher.update(part);
                    length += part.len() as u64;
                    Ok(true)
                })?;
                let holder = holder_of.query_row([seq], |row| row.get(0))?;
                lines.push(OldLine { start, length, seq: holder, hash: finish(&hasher) });
                start += length;
                seq = Seq(seq.0 + 1);
            }
        }
        let mut by_hash = HashMap::with_capacity(lines.len());
        for (index, line) in lines.iter().enumerate() {
            by_hash.entry(line.hash).or_insert(index);
        }
        Ok(OldLines { generation, lines, by_hash, next: 0 })
    }

    /// Finds a line (with its newline) in the old generation.
    pub(crate) fn find(&mut self, line: &[u8]) -> Option<OldLine> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(line);
        self.find_hashed(&hasher, line.len() as u64)
    }

    /// Finds a line of that length whose bytes the hasher has seen.
    pub(crate) fn find_hashed(&mut self, hasher: &blake3::Hasher, length: u64) -> Option<OldLine> {
        let hash = finish(hasher);
        let index = match self.lines.get(self.next) {
            // Runs of lines that stay in order become one span.
            Some(next) if next.hash == hash => self.next,
            _ => *self.by_hash.get(&hash)?,
        };
        let line = self.lines.get(index).filter(|line| line.length == length)?;
        self.next = index + 1;
        Some(*line)
    }
}

fn finish(hasher: &blake3::Hasher) -> LineHash {
    let mut hash = [0; 16];
    hasher.finalize_xof().fill(&mut hash);
    hash
}
