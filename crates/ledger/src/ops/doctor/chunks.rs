//! Checks that every record's bytes are stored exactly once: in a chunk, in `pending`, or in the
//! record named by `same_as`. Walks records and chunks side by side.

use rusqlite::{Connection, Row};

use super::finding::{Findings, RESCUE, Tally};
use crate::Result;
use crate::wire::Severity;

/// The largest length of a chunk before compression, in bytes.
const MAX_CHUNK_BYTES: i64 = 16 << 20;

struct Chunk {
    first: i64,
    first_offset: i64,
    last: i64,
    /// The number of bytes that no record has claimed yet.
    left: i64,
}

impl Chunk {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Chunk> {
        Ok(Chunk {
            first: row.get(0)?,
            first_offset: row.get(1)?,
            last: row.get(2)?,
            left: row.get(3)?,
        })
    }
}

#[derive(Default)]
struct Mismatches {
    missing: Tally,
    surplus: Tally,
    pending: Tally,
}

/// Compares records, chunks and pending bytes.
pub(super) fn check(conn: &Connection, findings: &mut Findings) -> Result<()> {
    let mut found = Mismatches::default();
    let mut chunks = conn.prepare(
        "SELECT first_seq, first_offset, last_seq, raw_length FROM chunks
          ORDER BY first_seq, first_offset",
    )?;
    let mut chunks = chunks.query_map([], Chunk::from_row)?;
    let mut records = conn.prepare(
        "SELECT r.seq, r.length, r.same_as, length(p.bytes)
           FROM records r LEFT JOIN pending p ON p.seq = r.seq ORDER BY r.seq",
    )?;
    let mut records = records.query([])?;
    let mut open: Option<Chunk> = None;
    let mut next = chunks.next().transpose()?;
    while let Some(row) = records.next()? {
        let (seq, length): (i64, i64) = (row.get(0)?, row.get(1)?);
        let same_as: Option<i64> = row.get(2)?;
        let pending: Option<i64> = row.get(3)?;
        if let Some(chunk) = open.take_if(|chunk| chunk.last < seq)
            && chunk.left != 0
        {
            found.surplus.add(|| chunk.name());
        }
        if let Some(pending) = pending {
            if pending != length || same_as.is_some() || open.is_some() {
                found.pending.add(|| format!("record {seq}"));
            }
            continue;
        }
        if same_as.is_some() {
            continue;
        }
        let mut offset = 0;
        loop {
            if open.as_ref().is_none_or(|chunk| chunk.left == 0 && offset < length) {
                if let Some(chunk) = open.take().filter(|chunk| chunk.last > seq) {
                    found.surplus.add(|| chunk.name());
                }
                // A chunk that begins before this record belongs to no record.
                while let Some(early) =
                    next.take_if(|chunk| (chunk.first, chunk.first_offset) < (seq, offset))
                {
                    found.surplus.add(|| early.name());
                    next = chunks.next().transpose()?;
                }
                let fits = next.take_if(|chunk| {
                    (chunk.first, chunk.first_offset) == (seq, offset)
                        && chunk.last >= chunk.first
                        && (0..=MAX_CHUNK_BYTES).contains(&chunk.left)
                        && (chunk.left > 0 || length == 0)
                });
                match fits {
                    Some(chunk) => open = Some(chunk),
                    None => {
                        found.missing.add(|| format!("record {seq}"));
                        break;
                    }
                }
                next = chunks.next().transpose()?;
            }
            let Some(chunk) = &mut open else { break };
            // A damaged length may be negative; `truth` reports it.
            let taken = chunk.left.min(length.saturating_sub(offset)).max(0);
            chunk.left -= taken;
            offset += taken;
            if offset >= length {
                break;
            }
        }
    }
    if let Some(chunk) = open.filter(|chunk| chunk.left != 0) {
        found.surplus.add(|| chunk.name());
    }
    while let Some(chunk) = next {
        found.surplus.add(|| chunk.name());
        next = chunks.next().transpose()?;
    }
    let stray: i64 = conn.query_row(
        "SELECT count(*) FROM pending WHERE seq NOT IN (SELECT seq FROM records)",
        [],
        |row| row.get(0),
    )?;
    (0..stray).for_each(|_| found.pending.add(|| "no record".to_owned()));
    findings.tally(Severity::Error, found.missing, "records whose bytes are missing", RESCUE);
    findings.tally(
        Severity::Error,
        found.surplus,
        "chunks that do not match their records",
        RESCUE,
    );
    findings.tally(Severity::Error, found.pending, "bytes that do not match their record", RESCUE);
    Ok(())
}

impl Chunk {
    fn name(&self) -> String {
        format!("records {} to {}", self.first, self.last)
    }
}
