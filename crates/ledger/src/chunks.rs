//! Where the bytes of records are: in compressed chunks of consecutive records, or, until there
//! are enough of them, in `pending`.
//!
//! A chunk is about 512 KiB before compression: large enough to compress well (zstd is both denser
//! and faster there than at 256 KiB), small enough to open for one record. A record longer than a
//! mebibyte spans chunks. Small chunks are absorbed by the next one, so a session that was collected
//! line by line ends up as compact as a bulk import.

pub(crate) mod verify;

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Transaction};

use crate::ids::Seq;
use crate::{Error, Result, sums};

/// A chunk is closed when it holds this much.
pub(crate) const CHUNK: usize = 512 << 10;

/// What is pending is sealed when there is this much of it.
const SEAL: usize = 256 << 10;

/// A single record is cut into chunks of at most this much.
const LONGEST: usize = 1 << 20;

/// A run of pending records is added to the chunk before it while that stays below this.
const ABSORB: usize = 768 << 10;

const LEVEL: i32 = 3;

/// A compressed run of consecutive records of one batch. Records are numbered from the batch's
/// first one, because their seq is not known before they are written.
#[derive(Debug)]
pub(crate) struct Packed {
    first: usize,
    first_offset: u64,
    last: usize,
    raw_length: usize,
    data: Vec<u8>,
}

/// Packs the records of one batch.
pub(crate) struct Packer {
    /// Made when it is first needed: one appended line needs none.
    compressor: Option<zstd::bulk::Compressor<'static>>,
    raw: Vec<u8>,
    /// Room for the compressor to work in; what stays is copied out at its size.
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
    /// The first record that is in no chunk, and the bytes of it and all after it.
    rest: Option<(usize, Vec<u8>)>,
}

impl Packer {
    pub(crate) fn new() -> Packer {
        Packer {
            compressor: None,
            raw: Vec::new(),
            scratch: Vec::new(),
            first: 0,
            first_offset: 0,
            next: 0,
            done: Vec::new(),
        }
    }

    /// Adds the next record of the batch.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        let mut offset = 0;
        while self.raw.len() + bytes.len() > LONGEST {
            let (now, later) = bytes.split_at(bytes.len().min(LONGEST - self.raw.len()));
            self.raw.extend_from_slice(now);
            offset += now.len() as u64;
            bytes = later;
            if self.raw.len() >= LONGEST {
                self.close(self.next)?;
                // If the record is used up, the next chunk starts with the next record.
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
        if self.raw.len() >= CHUNK {
            self.close(self.next - 1)?;
            self.first = self.next;
            self.first_offset = 0;
        }
        Ok(())
    }

    /// The next record of the batch has its bytes elsewhere.
    pub(crate) fn skip(&mut self) {
        self.next += 1;
        if self.raw.is_empty() {
            self.first = self.next;
            self.first_offset = 0;
        }
    }

    /// Ends the batch. A rest too small for a chunk stays raw if `keep_rest_raw`.
    pub(crate) fn finish(&mut self, keep_rest_raw: bool) -> Result<PackedBatch> {
        let mut rest = None;
        if !self.raw.is_empty() {
            if keep_rest_raw && self.first_offset == 0 {
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

/// Stores the packed records of a batch whose first record is `base` and whose records have
/// these lengths. Records that are the same as others have no bytes here.
pub(crate) fn store(
    tx: &Transaction<'_>,
    batch: &PackedBatch,
    base: Seq,
    lengths: &[u64],
    same_as: &[Option<Seq>],
) -> Result<()> {
    let at = |index: usize| Seq(base.0 + index as i64);
    if !batch.chunks.is_empty() {
        // What waited so far comes before what comes now.
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
            put_pending(tx, at(index), now)?;
            rest = later;
        }
    }
    Ok(())
}

/// Stores the bytes of one record outside a batch.
pub(crate) fn put_pending(tx: &Connection, seq: Seq, bytes: &[u8]) -> Result<()> {
    tx.prepare_cached("INSERT INTO pending (seq, added_at, bytes, sum) VALUES (?1, ?2, ?3, ?4)")?
        .execute((seq, crate::clock::now_ms(), bytes, sums::of(bytes)))?;
    Ok(())
}

/// Stores one long record from its pieces, each at most a few mebibytes.
pub(crate) fn store_streamed(
    tx: &Transaction<'_>,
    seq: Seq,
    pieces: &mut dyn FnMut() -> Result<Option<Vec<u8>>>,
) -> Result<u64> {
    let mut compressor = new_compressor()?;
    let mut offset = 0_u64;
    while let Some(piece) = pieces()? {
        for part in piece.chunks(LONGEST) {
            let data = compressor.compress(part).map_err(Error::io("compress", "a chunk"))?;
            insert(tx, seq, offset, seq, part.len(), &data)?;
            offset += part.len() as u64;
        }
    }
    Ok(offset)
}

fn new_compressor() -> Result<zstd::bulk::Compressor<'static>> {
    let mut compressor =
        zstd::bulk::Compressor::new(LEVEL).map_err(Error::io("start", "the compressor"))?;
    // A flipped bit must be an error, never other bytes.
    compressor.include_checksum(true).map_err(Error::io("start", "the compressor"))?;
    Ok(compressor)
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

/// A run of records that nothing was added to for this long is sealed as it is.
const LEFT_ALONE_MS: i64 = 10 * 60 * 1000;

/// Whether what is pending should be sealed: there is enough of it, or it was left alone.
pub(crate) fn wants_sealing(conn: &Connection) -> Result<bool> {
    let (bytes, newest): (i64, Option<i64>) = conn
        .prepare_cached("SELECT coalesce(sum(length(bytes)), 0), max(added_at) FROM pending")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let is_left_alone =
        newest.is_some_and(|newest| crate::clock::now_ms().saturating_sub(newest) > LEFT_ALONE_MS);
    Ok(bytes >= SEAL as i64 || is_left_alone)
}

/// Moves everything pending into chunks. Each run of consecutive records becomes one or more
/// chunks; a small chunk just before it is opened and joined.
pub(crate) fn seal(tx: &Transaction<'_>) -> Result<()> {
    let mut packer = Packer::new();
    let mut after = -1_i64;
    loop {
        // One run of consecutive records, at most a few chunks at a time.
        let mut run: Vec<(i64, Vec<u8>)> = Vec::new();
        let mut bytes = 0;
        {
            let mut statement = tx.prepare_cached(
                "SELECT seq, bytes, sum FROM pending WHERE seq > ?1 ORDER BY seq",
            )?;
            let mut rows = statement.query([after])?;
            while let Some(row) = rows.next()? {
                let seq: i64 = row.get(0)?;
                if run.last().is_some_and(|(last, _)| last + 1 != seq) || bytes >= 4 * LONGEST {
                    break;
                }
                let record: Vec<u8> = row.get(1)?;
                sums::check(&record, row.get(2)?, || format!("record {seq}"))?;
                bytes += record.len();
                run.push((seq, record));
            }
        }
        let (Some(&(first, _)), Some(&(last, _))) = (run.first(), run.last()) else { break };
        after = last;
        let mut start = first;
        let before = tx
            .prepare_cached(
                "SELECT id, first_seq, raw_length FROM chunks
                  WHERE first_seq <= ?1 AND last_seq = ?1 AND first_offset = 0
                  ORDER BY first_seq DESC LIMIT 1",
            )?
            .query_row([first - 1], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
            })
            .optional()?;
        if let Some((id, first_seq, raw_length)) = before
            && (raw_length as usize) < CHUNK.max(ABSORB.saturating_sub(bytes))
            && holds_whole_records(tx, first_seq, first - 1, raw_length)?
        {
            let mut reader = RecordReader::new(tx);
            for seq in (first_seq..first).map(Seq) {
                match find_place(tx, seq)? {
                    Some((_, None)) => packer.push(&reader.read(seq)?)?,
                    // Its bytes are elsewhere, or it was forgotten.
                    Some((_, Some(_))) | None => packer.skip(),
                }
            }
            tx.execute("DELETE FROM chunks WHERE id = ?1", [id])?;
            start = first_seq;
        }
        for (_, record) in &run {
            packer.push(record)?;
        }
        packer.finish(false)?.insert_chunks(tx, Seq(start))?;
        tx.execute("DELETE FROM pending WHERE seq BETWEEN ?1 AND ?2", (first, last))?;
    }
    Ok(())
}

/// True if the chunk holds its records from the first byte of the first to the last byte of the last.
fn holds_whole_records(tx: &Connection, first: i64, last: i64, raw_length: i64) -> Result<bool> {
    let total: i64 = tx
        .prepare_cached(
            "SELECT coalesce(sum(length), 0) FROM records
              WHERE seq BETWEEN ?1 AND ?2 AND same_as IS NULL",
        )?
        .query_row((first, last), |row| row.get(0))?;
    Ok(total == raw_length)
}

/// Reads records back. Keeps the last few chunks open, so reading in order opens each chunk once,
/// also where lines of a rewritten file take turns with older ones.
pub(crate) struct RecordReader<'c> {
    conn: &'c Connection,
    /// The newest last.
    open: Vec<OpenChunk>,
    most_open: usize,
    decompressor: Option<zstd::bulk::Decompressor<'static>>,
}

/// So many chunks are kept open.
const MOST_OPEN: usize = 4;

struct OpenChunk {
    first: i64,
    last: i64,
    first_offset: u64,
    raw: Vec<u8>,
    /// Each record that is there, and where in `raw` it starts. Forgotten ones leave holes.
    starts: Vec<(i64, usize)>,
    /// Records in between whose bytes are those of another one.
    same_as: HashMap<i64, Seq>,
}

impl<'c> RecordReader<'c> {
    pub(crate) fn new(conn: &'c Connection) -> RecordReader<'c> {
        RecordReader { conn, open: Vec::new(), most_open: MOST_OPEN, decompressor: None }
    }

    /// For a few records here and there, in order: nothing is kept for later.
    pub(crate) fn for_few(conn: &'c Connection) -> RecordReader<'c> {
        RecordReader { most_open: 1, ..RecordReader::new(conn) }
    }

    /// The whole record.
    pub(crate) fn read(&mut self, seq: Seq) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.stream(seq, &mut |part| {
            bytes.extend_from_slice(part);
            Ok(true)
        })?;
        Ok(bytes)
    }

    /// The first `longest` bytes of a record.
    pub(crate) fn head(&mut self, seq: Seq, longest: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.stream(seq, &mut |part| {
            bytes.extend_from_slice(part);
            Ok(bytes.len() < longest)
        })?;
        bytes.truncate(longest);
        Ok(bytes)
    }

    /// Hands the record's bytes to `each`, piece by piece, until it says `false`.
    pub(crate) fn stream(
        &mut self,
        seq: Seq,
        each: &mut dyn FnMut(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        if let Some(open) = self.open.iter().rev().find(|open| open.holds_whole(seq))
            && let Some(part) = open.record(seq)
        {
            return match open.same_as.get(&seq.0) {
                Some(other) => self.stream(*other, each),
                None => each(part).map(|_| ()),
            };
        }
        let (length, same_as) = place_of(self.conn, seq)?;
        if let Some(other) = same_as {
            return self.stream(other, each);
        }
        let pending = self
            .conn
            .prepare_cached("SELECT bytes, sum FROM pending WHERE seq = ?1")?
            .query_row([seq], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get(1)?)))
            .optional()?;
        if let Some((bytes, sum)) = pending {
            sums::check(&bytes, sum, || format!("record {}", seq.0))?;
            each(&bytes)?;
            return Ok(());
        }
        let mut offset = 0_u64;
        while offset < length || (length == 0 && offset == 0) {
            let part = self.open_at(seq, offset)?.record(seq).unwrap_or_default();
            if part.is_empty() && length > 0 {
                return Err(Error::damaged(format!("record {} is cut off", seq.0)));
            }
            if length == 0 || !each(part)? {
                return Ok(());
            }
            offset += part.len() as u64;
        }
        Ok(())
    }

    /// Opens the chunk that holds byte `offset` of record `seq`.
    fn open_at(&mut self, seq: Seq, offset: u64) -> Result<&OpenChunk> {
        let opened = match self.open.iter().position(|open| open.begins_at(seq, offset)) {
            Some(index) => self.open.remove(index),
            None => self.open_new(seq, offset)?,
        };
        self.open.push(opened);
        self.open.last().ok_or_else(|| Error::damaged(format!("record {} has no bytes", seq.0)))
    }

    fn open_new(&mut self, seq: Seq, offset: u64) -> Result<OpenChunk> {
        // Memory that was used before need not be fetched again.
        let mut raw = match self.open.len() >= self.most_open {
            true => self.open.remove(0).raw,
            false => Vec::new(),
        };
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(
                zstd::bulk::Decompressor::new().map_err(Error::io("start", "the decompressor"))?,
            ),
        };
        let found = self
            .conn
            .prepare_cached(
                "SELECT first_seq, first_offset, last_seq, raw_length, data FROM chunks
                  WHERE (first_seq, first_offset) <= (?1, ?2)
                  ORDER BY first_seq DESC, first_offset DESC LIMIT 1",
            )?
            .query_row((seq, offset as i64), |row| {
                let raw_length = row.get::<_, i64>(3)? as usize;
                let data = row.get_ref(4)?.as_blob().map_err(rusqlite::Error::from)?;
                raw.clear();
                raw.reserve_exact(raw_length);
                let is_open = decompressor.decompress_to_buffer(data, &mut raw).is_ok();
                Ok((
                    row.get::<_, i64>(0)?,
                    row.get::<_, i64>(1)? as u64,
                    row.get::<_, i64>(2)?,
                    raw_length,
                    is_open,
                ))
            })
            .optional()?;
        let Some((first, first_offset, last, raw_length, is_open)) = found else {
            return Err(Error::damaged(format!("no chunk holds record {}", seq.0)));
        };
        if !is_open || raw.len() != raw_length {
            return Err(Error::damaged(format!(
                "the chunk from record {first} on cannot be opened"
            )));
        }
        if last < seq.0 {
            return Err(Error::damaged(format!("no chunk holds record {}", seq.0)));
        }
        let mut starts = Vec::new();
        let mut at = 0_usize;
        let mut same_as = HashMap::new();
        {
            let mut statement = self.conn.prepare_cached(
                "SELECT seq, length, same_as FROM records WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq",
            )?;
            let mut rows = statement.query((first, last))?;
            let mut skip = first_offset;
            while let Some(row) = rows.next()? {
                let seq = row.get(0)?;
                starts.push((seq, at.min(raw_length)));
                if let Some(other) = row.get(2)? {
                    same_as.insert(seq, other);
                    continue;
                }
                let length = row.get::<_, i64>(1)? as u64;
                at = at.saturating_add(
                    usize::try_from(length - skip.min(length)).unwrap_or(usize::MAX),
                );
                skip = 0;
            }
        }
        // Bytes of no record: one is missing that was not forgotten. (The last one may go on in the
        // next chunk, so that there can be fewer.)
        if at < raw_length {
            return Err(Error::damaged(format!("records {first} to {last} are not all there")));
        }
        Ok(OpenChunk { first, last, first_offset, raw, starts, same_as })
    }
}

impl OpenChunk {
    /// Whether all of a record is in this chunk. The last one may go on in the next.
    fn holds_whole(&self, seq: Seq) -> bool {
        (self.first..self.last).contains(&seq.0) && (seq.0 > self.first || self.first_offset == 0)
    }

    /// Whether what this chunk holds of a record begins at byte `offset` of it.
    fn begins_at(&self, seq: Seq, offset: u64) -> bool {
        (self.first..=self.last).contains(&seq.0)
            && offset == if seq.0 == self.first { self.first_offset } else { 0 }
    }

    /// What this chunk holds of a record; `None` if there is no such record.
    fn record(&self, seq: Seq) -> Option<&[u8]> {
        let index = self.starts.binary_search_by_key(&seq.0, |(seq, _)| *seq).ok()?;
        let &(_, start) = self.starts.get(index)?;
        let end = self.starts.get(index + 1).map_or(self.raw.len(), |(_, end)| *end);
        Some(self.raw.get(start..end).unwrap_or_default())
    }
}

/// A record's length, and the record that holds its bytes if it does not itself.
fn place_of(conn: &Connection, seq: Seq) -> Result<(u64, Option<Seq>)> {
    find_place(conn, seq)?.ok_or_else(|| Error::damaged(format!("there is no record {}", seq.0)))
}

/// The same, where the record may have been forgotten.
fn find_place(conn: &Connection, seq: Seq) -> Result<Option<(u64, Option<Seq>)>> {
    Ok(conn
        .prepare_cached("SELECT length, same_as FROM records WHERE seq = ?1")?
        .query_row([seq], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)))
        .optional()?)
}
