//! Finds the lines of an earlier generation in a rewritten file, so that only new lines are stored.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::ids::GenerationId;
use crate::{Result, spans};

/// Lines are compared by 128 bits of BLAKE3: transcripts are hostile, and a collision would give
/// back other bytes than were collected.
type LineHash = [u8; 16];

/// The lines of a generation.
pub(crate) struct OldLines {
    pub(crate) generation: GenerationId,
    /// Start, length and hash of each line.
    lines: Vec<(u64, u64, LineHash)>,
    by_hash: HashMap<LineHash, usize>,
    /// The line that would follow the last one found.
    next: usize,
}

impl OldLines {
    /// Reads the lines of a generation's records. Memory: about 64 bytes a line.
    pub(crate) fn read(conn: &Connection, generation: GenerationId) -> Result<OldLines> {
        let mut lines = Vec::new();
        let mut hasher = blake3::Hasher::new();
        let (mut start, mut at) = (0_u64, 0_u64);
        spans::stream(conn, generation, &mut |mut bytes| {
            while let Some(newline) = memchr::memchr(b'\n', bytes) {
                let (line, rest) = bytes.split_at(newline + 1);
                hasher.update(line);
                at += line.len() as u64;
                lines.push((start, at - start, finish(&mut hasher)));
                start = at;
                bytes = rest;
            }
            hasher.update(bytes);
            at += bytes.len() as u64;
            Ok(())
        })?;
        if at > start {
            lines.push((start, at - start, finish(&mut hasher)));
        }
        let mut by_hash = HashMap::with_capacity(lines.len());
        for (index, (_, _, hash)) in lines.iter().enumerate() {
            by_hash.entry(*hash).or_insert(index);
        }
        Ok(OldLines { generation, lines, by_hash, next: 0 })
    }

    /// Where a line (with its newline) stood in the old generation.
    pub(crate) fn find(&mut self, line: &[u8]) -> Option<(u64, u64)> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(line);
        self.find_hashed(&mut hasher, line.len() as u64)
    }

    /// Where a line of that length stood whose bytes the hasher has seen.
    pub(crate) fn find_hashed(
        &mut self,
        hasher: &mut blake3::Hasher,
        line: u64,
    ) -> Option<(u64, u64)> {
        let hash = finish(hasher);
        let index = match self.lines.get(self.next) {
            // Runs of lines that stay in order become one span.
            Some((_, _, next)) if *next == hash => self.next,
            _ => *self.by_hash.get(&hash)?,
        };
        let (start, length, _) = self.lines.get(index)?;
        if *length != line {
            return None;
        }
        self.next = index + 1;
        Some((*start, *length))
    }
}

fn finish(hasher: &mut blake3::Hasher) -> LineHash {
    let mut hash = [0; 16];
    hasher.finalize_xof().fill(&mut hash);
    hasher.reset();
    hash
}
