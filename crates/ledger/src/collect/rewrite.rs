//! Finds the lines of an earlier generation in a rewritten or copied file, so that only new lines
//! are stored. Never writes.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::read::Work;
use crate::Result;
use crate::base::ids::{GenerationId, Seq};
use crate::truth::chunks::RecordReader;
use crate::truth::spans;

/// A 128-bit BLAKE3 hash of a line. Transcripts are hostile input, and a collision would restore
/// wrong bytes.
type LineHash = [u8; 16];

/// The lines of a generation, or of all files of a session.
#[derive(Default)]
pub(crate) struct OldLines {
    lines: Vec<OldLine>,
    by_hash: HashMap<LineHash, usize>,
    /// The records that hold them, where they were added one by one.
    holders: HashSet<Seq>,
    /// The index of the line after the last one found.
    next: usize,
}

/// A line of a generation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OldLine {
    /// The generation that the line is in.
    pub(crate) generation: GenerationId,
    /// The offset of the line in that generation.
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// The record that holds its bytes.
    pub(crate) seq: Seq,
    hash: LineHash,
}

impl OldLines {
    /// Reads all lines of one generation.
    pub(crate) fn of(
        conn: &Connection,
        generation: GenerationId,
        work: &mut Work,
    ) -> Result<OldLines> {
        let mut lines = OldLines::default();
        lines.read(conn, generation, u64::MAX, work)?;
        Ok(lines)
    }

    /// Adds the lines of a generation, up to about `max_bytes` bytes of them. Takes about 100 bytes
    /// of memory per line.
    pub(crate) fn read(
        &mut self,
        conn: &Connection,
        generation: GenerationId,
        max_bytes: u64,
        work: &mut Work,
    ) -> Result<()> {
        // One snapshot for all: each of thousands of queries would otherwise take and release a
        // lock.
        let snapshot = conn.unchecked_transaction()?;
        let conn = &*snapshot;
        let mut reader = RecordReader::new(conn);
        'runs: for run in spans::runs(conn, generation)? {
            let (mut seq, mut start, end) = (run.first_seq, run.start, run.start + run.length);
            while start < end {
                if start > max_bytes {
                    break 'runs;
                }
                work.old_lines += 1;
                let (holder, length) = holder_and_length(conn, seq)?;
                self.add(&mut reader, generation, start, seq, holder)?;
                start += length;
                seq = Seq(seq.0 + 1);
            }
        }
        Ok(())
    }

    /// Adds the line of a record at a generation and offset, unless an equal line is present. Lines
    /// added this way are found by their bytes, not by their order.
    pub(crate) fn add_new(
        &mut self,
        reader: &mut RecordReader<'_>,
        (generation, start): (GenerationId, u64),
        seq: Seq,
        holder: Seq,
    ) -> Result<()> {
        // A copy of a copy is skipped without reading its bytes.
        if holder != seq && self.holders.contains(&holder) {
            return Ok(());
        }
        self.holders.insert(holder);
        let (hash, length) = hash_of(reader, seq)?;
        if let Entry::Vacant(vacant) = self.by_hash.entry(hash) {
            vacant.insert(self.lines.len());
            self.lines.push(OldLine { generation, start, length, seq: holder, hash });
        }
        Ok(())
    }

    /// Starts the search again at the first line, for another file.
    pub(crate) fn start_over(&mut self) {
        self.next = 0;
    }

    /// Adds the line of a record.
    fn add(
        &mut self,
        reader: &mut RecordReader<'_>,
        generation: GenerationId,
        start: u64,
        seq: Seq,
        holder: Seq,
    ) -> Result<()> {
        let (hash, length) = hash_of(reader, seq)?;
        self.by_hash.entry(hash).or_insert(self.lines.len());
        self.lines.push(OldLine { generation, start, length, seq: holder, hash });
        Ok(())
    }

    /// Returns whether there are no lines.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Finds a line, including its newline, in the old generation.
    pub(crate) fn find(&mut self, line: &[u8]) -> Option<OldLine> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(line);
        self.find_hashed(&hasher, line.len() as u64)
    }

    /// Finds a line by its length and by a hasher that has seen its bytes.
    pub(crate) fn find_hashed(&mut self, hasher: &blake3::Hasher, length: u64) -> Option<OldLine> {
        let hash = finish(hasher);
        let index = match self.lines.get(self.next) {
            // The next line in order is preferred, so that lines in order become one span.
            Some(next) if next.hash == hash => self.next,
            _ => *self.by_hash.get(&hash)?,
        };
        let line = self.lines.get(index).filter(|line| line.length == length)?;
        self.next = index + 1;
        Some(*line)
    }
}

/// Returns the hash and the length of a record's line.
fn hash_of(reader: &mut RecordReader<'_>, seq: Seq) -> Result<(LineHash, u64)> {
    let mut hasher = blake3::Hasher::new();
    let mut length = 0;
    reader.stream(seq, &mut |part| {
        hasher.update(part);
        length += part.len() as u64;
        Ok(true)
    })?;
    Ok((finish(&hasher), length))
}

/// Returns the record that holds a record's bytes, and their number.
fn holder_and_length(conn: &Connection, seq: Seq) -> Result<(Seq, u64)> {
    Ok(conn
        .prepare_cached("SELECT coalesce(same_as, seq), length FROM records WHERE seq = ?1")?
        .query_row([seq], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?)
}

fn finish(hasher: &blake3::Hasher) -> LineHash {
    let mut hash = [0; 16];
    hasher.finalize_xof().fill(&mut hash);
    hash
}
