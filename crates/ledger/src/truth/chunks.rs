//! The bytes of records: in compressed chunks of consecutive records or, until there are enough of
//! them, in `pending`.
//!
//! A chunk holds about 1.25 MiB before compression. That is large enough to compress well: chunks
//! of half the size take 10 % more space. It is small enough to open a chunk for one record. A
//! record longer than 2 MiB spans several chunks. The next chunk absorbs a small one before it, so
//! a session that was collected line by line ends up as compact as a bulk import.

mod read;
mod seal;
pub(crate) mod verify;

use rusqlite::{Connection, Transaction};
use zstd::zstd_safe::{CParameter, Strategy};

use crate::base::ids::Seq;
use crate::truth::sums;
use crate::{Error, Result};
pub(crate) use read::RecordReader;
pub(crate) use seal::{seal, seal_if_wanted};

/// The size, in bytes before compression, at which a chunk is closed.
pub(crate) const FULL_CHUNK_BYTES: usize = 5 << 18;

/// The largest size of a chunk, in bytes before compression. Longer records are split.
const MAX_CHUNK_BYTES: usize = 2 << 20;

/// The size, in bytes, below which the end of a batch stays uncompressed. A larger end becomes a
/// chunk that the next one absorbs.
const MAX_RAW_BYTES: usize = 64 << 10;

/// The parameters of zstd. The tables are a quarter of the size of level 3's, so they stay in a
/// core's cache beside those of the index. Compression is a seventh faster, and its output is 1 %
/// larger.
const PARAMETERS: &[CParameter] = &[
    CParameter::Strategy(Strategy::ZSTD_dfast),
    CParameter::WindowLog(21),
    CParameter::HashLog(16),
    CParameter::ChainLog(14),
    CParameter::MinMatch(6),
    // A flipped bit has to be an error, never other bytes.
    CParameter::ChecksumFlag(true),
];

/// A compressed run of consecutive records of one batch. Records are counted from the batch's first
/// one, because seqs are known only when the batch is written.
#[derive(Debug)]
pub(crate) struct Packed {
    first: usize,
    first_offset: u64,
    last: usize,
    raw_length: usize,
    data: Vec<u8>,
}

/// Compresses the records of one batch after another.
#[derive(Default)]
pub(crate) struct Packer {
    /// Created when first needed: appending one line needs none.
    compressor: Option<zstd::bulk::Compressor<'static>>,
    raw: Vec<u8>,
    /// The compressor's output buffer, reused between chunks.
    scratch: Vec<u8>,
    first: usize,
    first_offset: u64,
    next: usize,
    done: Vec<Packed>,
}

/// The records of one batch, packed.
#[derive(Debug, Default)]
pub(crate) struct PackedBatch {
    chunks: Vec<Packed>,
    /// The first record that is in no chunk, and the bytes from it on.
    rest: Option<(usize, Vec<u8>)>,
}

impl Packer {
    /// Adds the next record of the batch.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        let mut offset = 0;
        while self.raw.len() + bytes.len() > MAX_CHUNK_BYTES {
            let (now, later) = bytes.split_at(bytes.len().min(MAX_CHUNK_BYTES - self.raw.len()));
            self.raw.extend_from_slice(now);
            offset += now.len() as u64;
            bytes = later;
            if self.raw.len() >= MAX_CHUNK_BYTES {
                self.close(self.next)?;
                // The record ends here, so the next chunk starts with the next record.
                if bytes.is_empty() {
                    self.next += 1;
                    self.first = self.next;
                    self.first_offset = 0;
                    return Ok(());
                }
                self.first = self.next;
                self.first_offset = offset;
            }
        }
        self.raw.extend_from_slice(bytes);
        self.next += 1;
        if self.raw.len() >= FULL_CHUNK_BYTES {
            self.close(self.next - 1)?;
            self.first = self.next;
            self.first_offset = 0;
        }
        Ok(())
    }

    /// Skips the next record of the batch: another record holds its bytes.
    pub(crate) fn skip(&mut self) {
        self.next += 1;
        if self.raw.is_empty() {
            self.first = self.next;
            self.first_offset = 0;
        }
    }

    /// Returns whether the next record begins a chunk.
    pub(crate) fn is_between(&self) -> bool {
        self.raw.is_empty()
    }

    /// Ends the batch. An end too small for a chunk stays raw if `keep_rest_raw`.
    pub(crate) fn finish(&mut self, keep_rest_raw: bool) -> Result<PackedBatch> {
        let mut rest = None;
        if !self.raw.is_empty() {
            if keep_rest_raw && self.first_offset == 0 && self.raw.len() < MAX_RAW_BYTES {
                rest = Some((self.first, std::mem::take(&mut self.raw)));
            } else {
                self.close(self.next.saturating_sub(1))?;
            }
        }
        self.raw.clear();
        self.first = 0;
        self.first_offset = 0;
        self.next = 0;
        Ok(PackedBatch { chunks: std::mem::take(&mut self.done), rest })
    }

    fn close(&mut self, last: usize) -> Result<()> {
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            none => none.insert(new_compressor()?),
        };
        self.scratch.clear();
        self.scratch.reserve(zstd::zstd_safe::compress_bound(self.raw.len()));
        compressor
            .compress_to_buffer(&self.raw, &mut self.scratch)
            .map_err(Error::io("compress", "a chunk"))?;
        let data = self.scratch.as_slice().to_vec();
        self.done.push(Packed {
            first: self.first,
            first_offset: self.first_offset,
            last,
            raw_length: self.raw.len(),
            data,
        });
        self.raw.clear();
        Ok(())
    }
}

impl PackedBatch {
    /// Stores the chunks of a batch whose first record is `base`.
    pub(crate) fn insert_chunks(&self, tx: &Connection, base: Seq) -> Result<()> {
        let at = |index: usize| Seq(base.0 + index as i64);
        for chunk in &self.chunks {
            let (first, last) = (at(chunk.first), at(chunk.last));
            insert(tx, first, chunk.first_offset, last, chunk.raw_length, &chunk.data)?;
        }
        Ok(())
    }
}

/// Stores the packed records of a batch whose first record is `base` and whose records have these
/// lengths. A record with `same_as` has no bytes itself.
pub(crate) fn store(
    tx: &Transaction<'_>,
    batch: &PackedBatch,
    base: Seq,
    lengths: &[u64],
    same_as: &[Option<Seq>],
) -> Result<()> {
    let at = |index: usize| Seq(base.0 + index as i64);
    if !batch.chunks.is_empty() {
        // Pending records come before these, so they are sealed first.
        seal(tx)?;
        batch.insert_chunks(tx, base)?;
    }
    if let Some((first, bytes)) = &batch.rest {
        let mut rest = bytes.as_slice();
        for (index, (length, same_as)) in lengths.iter().zip(same_as).enumerate().skip(*first) {
            if same_as.is_some() {
                continue;
            }
            let length = usize::try_from(*length).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at(length);
            insert_pending(tx, at(index), now)?;
            rest = later;
        }
    }
    Ok(())
}

/// Stores the bytes of one record outside a batch.
pub(crate) fn insert_pending(tx: &Connection, seq: Seq, bytes: &[u8]) -> Result<()> {
    tx.prepare_cached("INSERT INTO pending (seq, added_at, bytes, sum) VALUES (?1, ?2, ?3, ?4)")?
        .execute((seq, crate::base::clock::now_ms(), bytes, sums::of(bytes)))?;
    Ok(())
}

/// Stores one long record from its pieces, each of a few mebibytes at most.
pub(crate) fn store_streamed(
    tx: &Transaction<'_>,
    seq: Seq,
    pieces: &mut dyn FnMut() -> Result<Option<Vec<u8>>>,
) -> Result<u64> {
    let mut compressor = new_compressor()?;
    let mut offset = 0_u64;
    while let Some(piece) = pieces()? {
        for part in piece.chunks(MAX_CHUNK_BYTES) {
            let data = compressor.compress(part).map_err(Error::io("compress", "a chunk"))?;
            insert(tx, seq, offset, seq, part.len(), &data)?;
            offset += part.len() as u64;
        }
    }
    Ok(offset)
}

fn new_compressor() -> Result<zstd::bulk::Compressor<'static>> {
    let start = || -> std::io::Result<_> {
        let mut compressor = zstd::bulk::Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL)?;
        for parameter in PARAMETERS {
            compressor.set_parameter(*parameter)?;
        }
        Ok(compressor)
    };
    start().map_err(Error::io("start", "the compressor"))
}

fn insert(
    tx: &Connection,
    first: Seq,
    first_offset: u64,
    last: Seq,
    raw_length: usize,
    data: &[u8],
) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO chunks (first_seq, first_offset, last_seq, raw_length, data)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((first, first_offset as i64, last, raw_length as i64, data))?;
    Ok(())
}
