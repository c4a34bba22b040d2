//! Removes the bytes of some records from chunks that also hold other records.
//!
//! New chunks are first written under seqs that no record has, because the rows of `records` give
//! the offsets inside a chunk: old chunks are readable only while the rows are unchanged. Then the
//! rows are changed, and then the chunks are swapped. All of it is one transaction.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Transaction;

use super::ranges::SeqSet;
use crate::base::ids::Seq;
use crate::truth::chunks::{self, Packer, RecordReader};
use crate::truth::forgotten::shared_lines;
use crate::{Error, Result};

/// The offset of the seqs for new chunks, far above the seq of any record.
const ASIDE_OFFSET: i64 = 1 << 60;

/// The number of bytes of a blanked record that are written at once.
const PIECE_BYTES: usize = 1 << 20;

/// The changes of records' bytes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Records that are removed.
    pub(super) deleted: SeqSet,
    /// Records that become blanks. A record that shared its bytes gets separate blanks.
    pub(super) blanked: BTreeSet<i64>,
    /// Records that take over bytes, with the record that held them so far.
    pub(super) taken_over: BTreeMap<i64, i64>,
}

impl Changes {
    fn touch(&self, first: i64, last: i64) -> bool {
        self.deleted.overlaps(first, last)
            || self.blanked.range(first..=last).next().is_some()
            || self.taken_over.range(first..=last).next().is_some()
    }
}

/// The state between [`aside`] and [`swap`].
pub(super) struct Repacked {
    /// The chunks to delete.
    old: Vec<i64>,
    /// The hashes that remaining and blanked records must have afterwards.
    expected: Vec<(i64, blake3::Hash)>,
}

/// Writes the new chunks under unused seqs. Must come before any row of `records` changes.
pub(super) fn aside(tx: &Transaction<'_>, changes: &Changes) -> Result<Repacked> {
    let mut repacked = Repacked { old: Vec::new(), expected: Vec::new() };
    let mut covered = Vec::new();
    for cluster in clusters(tx)? {
        let (first, last) = (cluster.first, cluster.last);
        if !changes.touch(first, last) {
            continue;
        }
        covered.push((first, last));
        repacked.old.extend(&cluster.chunks);
        if first == last && changes.blanked.contains(&first) {
            repacked.blank_one(tx, first)?;
        } else {
            repacked.pack(tx, changes, first, last)?;
        }
    }
    // Adds bytes of records that were in no chunk.
    let covered = SeqSet::from_ranges(covered);
    let mut new: Vec<(i64, i64)> = Vec::new();
    let given = changes.taken_over.keys().chain(&changes.blanked);
    for seq in given.filter(|seq| !covered.contains(**seq)) {
        if changes.blanked.contains(seq) && is_pending(tx, *seq)? {
            continue;
        }
        new.push((*seq, *seq));
    }
    for (first, last) in SeqSet::from_ranges(new).ranges() {
        repacked.pack(tx, changes, first, last)?;
    }
    Ok(repacked)
}

/// Replaces the old chunks by the new ones, and reads them back before the transaction commits.
pub(super) fn swap(tx: &Transaction<'_>, repacked: &Repacked) -> Result<()> {
    let mut delete = tx.prepare("DELETE FROM chunks WHERE id = ?1")?;
    for id in &repacked.old {
        delete.execute([id])?;
    }
    tx.execute(
        "UPDATE chunks SET first_seq = first_seq - ?1, last_seq = last_seq - ?1
          WHERE first_seq >= ?1",
        [ASIDE_OFFSET],
    )?;
    let mut reader = RecordReader::new(tx);
    for (seq, expected) in &repacked.expected {
        if hash(&mut reader, *seq)? != *expected {
            return Err(Error::damaged(format!("record {seq} would not survive being repacked")));
        }
    }
    Ok(())
}

impl Repacked {
    /// Packs the remaining records from `first` to `last`.
    fn pack(
        &mut self,
        tx: &Transaction<'_>,
        changes: &Changes,
        first: i64,
        last: i64,
    ) -> Result<()> {
        let mut packer = Packer::default();
        let mut reader = RecordReader::new(tx);
        let mut statement = tx.prepare_cached(
            "SELECT seq, length, same_as FROM records WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq",
        )?;
        let mut rows = statement.query((first, last))?;
        let mut next = first;
        while let Some(row) = rows.next()? {
            let seq: i64 = row.get(0)?;
            // Earlier forgotten records left holes.
            while next < seq {
                packer.skip();
                next += 1;
            }
            next += 1;
            let bytes = if changes.deleted.contains(seq) {
                None
            } else if changes.blanked.contains(&seq) {
                let length = usize::try_from(row.get::<_, i64>(1)?).unwrap_or_default();
                Some(shared_lines::blanks(length, ends_with_newline(&reader.read(Seq(seq))?)))
            } else if let Some(holder) = changes.taken_over.get(&seq) {
                Some(reader.read(Seq(*holder))?)
            } else if row.get::<_, Option<i64>>(2)?.is_some() {
                None
            } else {
                Some(reader.read(Seq(seq))?)
            };
            match bytes {
                Some(bytes) => {
                    self.expected.push((seq, blake3::hash(&bytes)));
                    packer.push(&bytes)?;
                }
                None => packer.skip(),
            }
        }
        packer.finish(false)?.insert_chunks(tx, Seq(first + ASIDE_OFFSET))
    }

    /// Blanks a record of any length that has its own chunks.
    fn blank_one(&mut self, tx: &Transaction<'_>, seq: i64) -> Result<()> {
        let (mut left, mut last_byte) = (0_usize, None);
        RecordReader::new(tx).stream(Seq(seq), &mut |part| {
            left += part.len();
            last_byte = part.last().copied();
            Ok(true)
        })?;
        let mut hasher = blake3::Hasher::new();
        chunks::store_streamed(tx, Seq(seq + ASIDE_OFFSET), &mut || {
            let length = left.min(PIECE_BYTES);
            left -= length;
            let piece = shared_lines::blanks(length, left == 0 && last_byte == Some(b'\n'));
            hasher.update(&piece);
            Ok(Some(piece).filter(|piece| !piece.is_empty()))
        })?;
        self.expected.push((seq, hasher.finalize()));
        Ok(())
    }
}

/// Chunks that have to be repacked together, because a record continues from one into the next.
struct Cluster {
    first: i64,
    last: i64,
    chunks: Vec<i64>,
}

fn clusters(tx: &Transaction<'_>) -> Result<Vec<Cluster>> {
    let mut clusters: Vec<Cluster> = Vec::new();
    let mut statement = tx.prepare(
        "SELECT id, first_seq, first_offset, last_seq FROM chunks ORDER BY first_seq, first_offset",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, first, offset, last): (i64, i64, i64, i64) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        match clusters.last_mut() {
            Some(before) if offset > 0 && before.last == first => {
                before.last = last;
                before.chunks.push(id);
            }
            _ => clusters.push(Cluster { first, last, chunks: vec![id] }),
        }
    }
    Ok(clusters)
}

fn is_pending(tx: &Transaction<'_>, seq: i64) -> Result<bool> {
    Ok(tx
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM pending WHERE seq = ?1)")?
        .query_row([seq], |row| row.get(0))?)
}

fn ends_with_newline(bytes: &[u8]) -> bool {
    bytes.last() == Some(&b'\n')
}

fn hash(reader: &mut RecordReader<'_>, seq: i64) -> Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    reader.stream(Seq(seq), &mut |part| {
        hasher.update(part);
        Ok(true)
    })?;
    Ok(hasher.finalize())
}
