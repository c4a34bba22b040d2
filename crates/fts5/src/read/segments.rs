//! Reads the structure record, the averages record and the tombstones of each segment.
//!
//! Never writes them; `write::structure` does.

use foldhash::HashSet;
use rusqlite::Connection;

use crate::table::{
    AVERAGES, MAX_SEGMENTS, SEGMENT_SHIFT, STRUCTURE, STRUCTURE_V2, block, malformed,
};
use crate::varint::Bytes;
use crate::{Result, RowId};

/// A segment: sorted terms with their doclists, in consecutive leaf pages.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: i64,
    pub(super) first_page: i64,
    pub(super) last_page: i64,
    /// Number of rows when it was written.
    pub(super) rows: u64,
    /// The first and the last transaction whose rows it holds.
    origins: (i64, i64),
    tombstones: HashSet<i64>,
}

impl Segment {
    /// Returns the id of a leaf page in `search_data`.
    pub(super) fn page_id(&self, page: i64) -> i64 {
        (self.id << SEGMENT_SHIFT) + page
    }

    /// Returns whether the row was deleted after the segment was written.
    #[inline]
    pub(super) fn is_deleted(&self, rowid: RowId) -> bool {
        !self.tombstones.is_empty() && self.tombstones.contains(&rowid.0)
    }
}

/// The averages record: number of rows, and of tokens in all columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) rows: u64,
    pub(crate) tokens: u64,
}

impl Totals {
    /// Returns the average number of tokens of a row.
    pub(crate) fn average(self) -> f64 {
        self.tokens as f64 / self.rows as f64
    }
}

/// Reads the segments, oldest first.
pub(super) fn read(conn: &Connection) -> Result<Vec<Segment>> {
    let Some(record) = block(conn, STRUCTURE)? else { return Err(malformed()) };
    let mut segments = Vec::new();
    for (segment, tombstone_pages) in decode(&record).ok_or_else(malformed)? {
        // While a segment is merged, FTS5 deletes its pages from the first on. `first_page` is 0
        // when all are deleted.
        if segment.first_page > 0 {
            let tombstones = tombstones(conn, segment.id, tombstone_pages)?;
            segments.push(Segment { tombstones, ..segment });
        }
    }
    // Rowids mostly ascend with time: read in this order, they nearly always need no sorting.
    segments.sort_by_key(|segment| segment.origins);
    Ok(segments)
}

/// Reads the averages record.
pub(super) fn totals(conn: &Connection) -> Result<Totals> {
    let Some(record) = block(conn, AVERAGES)? else { return Ok(Totals { rows: 0, tokens: 0 }) };
    let mut bytes = Bytes::new(&record);
    if bytes.is_empty() {
        return Ok(Totals { rows: 0, tokens: 0 });
    }
    let rows = bytes.number().ok_or_else(malformed)?;
    let mut tokens = 0_u64;
    while !bytes.is_empty() {
        tokens = tokens.saturating_add(bytes.number().ok_or_else(malformed)?);
    }
    Ok(Totals { rows, tokens })
}

/// Decodes the structure record. Returns each segment with its number of tombstone pages.
fn decode(record: &[u8]) -> Option<Vec<(Segment, i64)>> {
    // A cookie of four bytes, which changes with the settings.
    let rest = record.get(4..)?;
    let is_v2 = rest.starts_with(&STRUCTURE_V2);
    let mut bytes = Bytes::new(if is_v2 { rest.get(4..)? } else { rest });
    let levels = bytes.size()?;
    let _segments = bytes.number()?;
    let _writes = bytes.number()?;
    let mut segments = Vec::new();
    for _ in 0..levels {
        let _merging = bytes.number()?;
        for _ in 0..bytes.size()? {
            if segments.len() > MAX_SEGMENTS {
                return None;
            }
            let mut number = || bytes.number().and_then(|number| i64::try_from(number).ok());
            let (id, first_page, last_page) = (number()?, number()?, number()?);
            let (mut tombstone_pages, mut rows, mut origins) = (0, 0, (0, 0));
            if is_v2 {
                origins = (number()?, number()?);
                tombstone_pages = number()?;
                let _deleted = number()?;
                rows = number()?.unsigned_abs();
            }
            if !(1..=0xFFFF).contains(&id) || last_page < first_page || last_page > 0x7FFF_FF00 {
                return None;
            }
            let tombstones = HashSet::default();
            let segment = Segment { id, first_page, last_page, rows, origins, tombstones };
            segments.push((segment, tombstone_pages));
        }
    }
    Some(segments)
}

/// Reads the deleted rows of a segment. They are stored as a hash table over one or more pages;
/// only its filled slots matter here.
fn tombstones(conn: &Connection, segment: i64, pages: i64) -> Result<HashSet<i64>> {
    let mut tombstones = HashSet::default();
    if pages == 0 {
        return Ok(tombstones);
    }
    let first = (segment + (1 << 16)) << SEGMENT_SHIFT;
    let mut statement =
        conn.prepare_cached("SELECT block FROM search_data WHERE id BETWEEN ?1 AND ?2")?;
    let mut rows = statement.query((first, first + pages - 1))?;
    while let Some(row) = rows.next()? {
        let page = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        let (Some(&width), Some(&zero), Some(slots)) = (page.first(), page.get(1), page.get(8..))
        else {
            return Err(malformed());
        };
        if zero != 0 {
            tombstones.insert(0);
        }
        match width {
            4 => tombstones.extend(
                slots
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|slot| i64::from(u32::from_be_bytes(*slot)))
                    .filter(|rowid| *rowid != 0),
            ),
            8 => tombstones.extend(
                slots
                    .as_chunks::<8>()
                    .0
                    .iter()
                    .map(|slot| i64::from_be_bytes(*slot))
                    .filter(|rowid| *rowid != 0),
            ),
            _ => return Err(malformed()),
        }
    }
    Ok(tombstones)
}
