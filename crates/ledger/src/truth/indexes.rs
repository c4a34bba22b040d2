//! The newest bytes of each index. Unlike records they are replaced: the journal keeps the facts
//! that have to stay.

use rusqlite::{Connection, OptionalExtension};

use crate::base::ids::SourceId;
use crate::{Error, Result};

/// The compression level. It is low because an index is written every few seconds.
const COMPRESSION_LEVEL: i32 = 3;

/// Compressed bytes of an index.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) length: u64,
    pub(crate) data: Vec<u8>,
}

/// Compresses an index.
pub(crate) fn pack(bytes: &[u8]) -> Result<Packed> {
    let packed = zstd::bulk::Compressor::new(COMPRESSION_LEVEL).and_then(|mut compressor| {
        compressor.include_checksum(true)?;
        compressor.compress(bytes)
    });
    let data = packed
        .map_err(|error| Error::damaged(format!("an index cannot be compressed: {error}")))?;
    Ok(Packed { length: bytes.len() as u64, data })
}

/// Replaces the bytes of an index.
pub(crate) fn store(tx: &Connection, source: SourceId, packed: &Packed) -> Result<()> {
    tx.prepare_cached("INSERT OR REPLACE INTO indexes (source, length, data) VALUES (?1, ?2, ?3)")?
        .execute((source, packed.length as i64, &packed.data))?;
    Ok(())
}

/// Returns the bytes of an index.
pub(crate) fn load(conn: &Connection, source: SourceId) -> Result<Option<Vec<u8>>> {
    let found: Option<(i64, Vec<u8>)> = conn
        .prepare_cached("SELECT length, data FROM indexes WHERE source = ?1")?
        .query_row([source], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((length, data)) = found else { return Ok(None) };
    let length = usize::try_from(length).unwrap_or(0);
    let bytes = zstd::bulk::decompress(&data, length)
        .ok()
        .filter(|bytes| bytes.len() == length)
        .ok_or_else(|| Error::damaged(format!("index {} cannot be read", source.0)))?;
    Ok(Some(bytes))
}
