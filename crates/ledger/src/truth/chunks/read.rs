//! Reads records from chunks and from `pending`.
//!
//! Never writes, and never returns bytes that fail their checksum.

use rusqlite::{Connection, OptionalExtension};

use crate::base::ids::Seq;
use crate::truth::sums;
use crate::{Error, Result};

/// A reader of records. Keeps the last few chunks open, so that reading in order opens each chunk
/// once, even where lines of a rewritten file alternate with older ones.
pub(crate) struct RecordReader<'c> {
    conn: &'c Connection,
    /// The open chunks, the most recently used last.
    open: Vec<OpenChunk>,
    max_open: usize,
    /// More than `max_open` chunks stay open while they have fewer bytes than this.
    max_bytes: usize,
    decompressor: Option<zstd::bulk::Decompressor<'static>>,
    /// The number of chunks opened so far.
    opened: u64,
}

/// The number of chunks that stay open.
const MAX_OPEN_CHUNKS: usize = 4;

/// The number of bytes of chunks that stay open for files that share most of their bytes.
const MAX_SHARED_BYTES: usize = 32 << 20;

/// The largest number of chunks that stay open for such files, because an open chunk is found by
/// trying all of them.
const MAX_SHARED_CHUNKS: usize = 256;

struct OpenChunk {
    first: i64,
    last: i64,
    first_offset: u64,
    raw: Vec<u8>,
    /// Each record in the chunk, and its offset in `raw`. Forgotten records, and those whose bytes
    /// another record holds, leave holes.
    starts: Vec<(i64, usize)>,
}

impl<'c> RecordReader<'c> {
    pub(crate) fn new(conn: &'c Connection) -> RecordReader<'c> {
        RecordReader {
            conn,
            open: Vec::new(),
            max_open: MAX_OPEN_CHUNKS,
            max_bytes: 0,
            decompressor: None,
            opened: 0,
        }
    }

    /// Creates a reader for many whole files in a row that share bytes, such as the copies of a
    /// growing file.
    pub(crate) fn for_copies(conn: &'c Connection) -> RecordReader<'c> {
        RecordReader { max_bytes: MAX_SHARED_BYTES, ..RecordReader::new(conn) }
    }

    /// Creates a reader for a few scattered records, in order. Only one chunk stays open.
    pub(crate) fn for_few(conn: &'c Connection) -> RecordReader<'c> {
        RecordReader { max_open: 1, ..RecordReader::new(conn) }
    }

    /// Returns the connection that it reads from.
    pub(crate) fn conn(&self) -> &'c Connection {
        self.conn
    }

    /// Returns the number of chunks opened so far.
    pub(crate) fn opened(&self) -> u64 {
        self.opened
    }

    /// Returns the whole record.
    pub(crate) fn read(&mut self, seq: Seq) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.stream(seq, &mut |part| {
            bytes.extend_from_slice(part);
            Ok(true)
        })?;
        Ok(bytes)
    }

    /// Returns the first `longest` bytes of a record.
    pub(crate) fn head(&mut self, seq: Seq, longest: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.stream(seq, &mut |part| {
            bytes.extend_from_slice(part);
            Ok(bytes.len() < longest)
        })?;
        bytes.truncate(longest);
        Ok(bytes)
    }

    /// Calls `each` with the record's bytes, piece by piece, until it returns `false`.
    pub(crate) fn stream(
        &mut self,
        seq: Seq,
        each: &mut dyn FnMut(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        if let Some(open) = self.open.iter().rev().find(|open| open.holds_whole(seq))
            && let Some(part) = open.record(seq)
        {
            return each(part).map(|_| ());
        }
        let (length, same_as) = length_and_holder(self.conn, seq)?;
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

    /// Returns whether a chunk has to be closed before another one is opened.
    fn is_full(&self) -> bool {
        self.open.len() >= self.max_open
            && (self.open.len() >= MAX_SHARED_CHUNKS
                || self.open.iter().map(|open| open.raw.len()).sum::<usize>() >= self.max_bytes)
    }

    fn open_new(&mut self, seq: Seq, offset: u64) -> Result<OpenChunk> {
        // The buffer of the oldest chunk is reused.
        let mut raw = Vec::new();
        while self.is_full() {
            raw = self.open.remove(0).raw;
        }
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(
                zstd::bulk::Decompressor::new().map_err(Error::io("start", "the decompressor"))?,
            ),
        };
        self.opened += 1;
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
        {
            let mut statement = self.conn.prepare_cached(
                "SELECT seq, length FROM records
                  WHERE seq BETWEEN ?1 AND ?2 AND same_as IS NULL ORDER BY seq",
            )?;
            let mut rows = statement.query((first, last))?;
            let mut skip = first_offset;
            while let Some(row) = rows.next()? {
                starts.push((row.get(0)?, at.min(raw_length)));
                let length = row.get::<_, i64>(1)? as u64;
                at = at.saturating_add(
                    usize::try_from(length - skip.min(length)).unwrap_or(usize::MAX),
                );
                skip = 0;
            }
        }
        // Bytes that belong to no record: a record is missing that was not forgotten. There can be
        // fewer bytes than lengths, because the last record may continue in the next chunk.
        if at < raw_length {
            return Err(Error::damaged(format!("some of records {first} to {last} are missing")));
        }
        Ok(OpenChunk { first, last, first_offset, raw, starts })
    }
}

impl OpenChunk {
    /// Returns whether the whole record is in this chunk. The last one may continue in the next.
    fn holds_whole(&self, seq: Seq) -> bool {
        (self.first..self.last).contains(&seq.0) && (seq.0 > self.first || self.first_offset == 0)
    }

    /// Returns whether this chunk's part of a record begins at byte `offset` of the record.
    fn begins_at(&self, seq: Seq, offset: u64) -> bool {
        (self.first..=self.last).contains(&seq.0)
            && offset == if seq.0 == self.first { self.first_offset } else { 0 }
    }

    /// Returns this chunk's part of a record; `None` if there is no such record.
    fn record(&self, seq: Seq) -> Option<&[u8]> {
        let index = self.starts.binary_search_by_key(&seq.0, |(seq, _)| *seq).ok()?;
        let &(_, start) = self.starts.get(index)?;
        let end = self.starts.get(index + 1).map_or(self.raw.len(), |(_, end)| *end);
        Some(self.raw.get(start..end).unwrap_or_default())
    }
}

/// Returns a record's length, and the record that holds its bytes if another one does.
fn length_and_holder(conn: &Connection, seq: Seq) -> Result<(u64, Option<Seq>)> {
    find_length_and_holder(conn, seq)?
        .ok_or_else(|| Error::damaged(format!("there is no record {}", seq.0)))
}

/// Returns a record's length and the record that has its bytes; `None` if it was forgotten.
pub(super) fn find_length_and_holder(
    conn: &Connection,
    seq: Seq,
) -> Result<Option<(u64, Option<Seq>)>> {
    Ok(conn
        .prepare_cached("SELECT length, same_as FROM records WHERE seq = ?1")?
        .query_row([seq], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)))
        .optional()?)
}
