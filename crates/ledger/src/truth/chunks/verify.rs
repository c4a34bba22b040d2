//! Opens every chunk and compares its checksum. No other check finds a flipped bit in stored bytes:
//! SQLite has no checksums.

use rusqlite::Connection;

use crate::Result;

/// A damaged chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bad {
    pub(crate) first_seq: i64,
    pub(crate) last_seq: i64,
}

/// Opens every chunk. Calls `bad` for each damaged one, and `done` with the compressed bytes so
/// far.
pub(crate) fn open_all(
    conn: &Connection,
    bad: &mut dyn FnMut(Bad),
    done: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut statement = conn.prepare(
        "SELECT first_seq, last_seq, raw_length, data FROM chunks ORDER BY first_seq, first_offset",
    )?;
    let mut rows = statement.query([])?;
    let mut decompressor =
        zstd::bulk::Decompressor::new().map_err(crate::Error::io("start", "the decompressor"))?;
    let mut raw = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let data = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        let length =
            usize::try_from(row.get::<_, i64>(2)?).unwrap_or(0).min(MAX_READABLE_CHUNK_BYTES);
        raw.clear();
        raw.reserve(length);
        let opened = decompressor.decompress_to_buffer(data, &mut raw);
        if !opened.is_ok_and(|got| got == length) {
            bad(Bad { first_seq: row.get(0)?, last_seq: row.get(1)? });
        }
        bytes += data.len() as u64;
        done(bytes);
    }
    Ok(())
}

/// The limit of a chunk's length before compression, so that a damaged number cannot take all
/// memory.
const MAX_READABLE_CHUNK_BYTES: usize = 16 << 20;
