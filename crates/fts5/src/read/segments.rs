//! The pieces that the index is written in, each a sorted list of words with their entries, and
//! which entries of a piece were deleted since.

use foldhash::HashSet;
use rusqlite::{Connection, OptionalExtension};

use super::pages::unreadable;
use crate::varint::Bytes;
use crate::{Error, Result};

/// The row that lists the segments.
const STRUCTURE: i64 = 10;
/// The row that counts entries and words.
const TOTALS: i64 = 1;
/// Begins the list of segments where entries can be deleted.
const WITH_TOMBSTONES: [u8; 4] = [0xFF, 0, 0, 1];
/// The version of FTS5's format that is understood here.
const VERSION: i64 = 4;
/// More segments than this FTS5 does not make.
const MOST_SEGMENTS: usize = 2000;

/// One piece of the index.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: i64,
    pub(super) first_page: i64,
    pub(super) last_page: i64,
    /// How many entries there are in it.
    pub(super) entries: u64,
    /// The first and the last of the transactions that wrote it.
    written: (i64, i64),
    deleted: HashSet<i64>,
}

impl Segment {
    /// The row of a page.
    pub(super) fn row(&self, page: i64) -> i64 {
        (self.id << 37) + page
    }

    pub(super) fn is_deleted(&self, entry: i64) -> bool {
        !self.deleted.is_empty() && self.deleted.contains(&entry)
    }
}

/// How many entries there are, and how many words in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    pub entries: u64,
    pub words: u64,
}

/// Reads the list of segments.
pub(super) fn read(conn: &Connection) -> Result<Vec<Segment>> {
    check_version(conn)?;
    let Some(listed) = block(conn, STRUCTURE)? else { return Err(unreadable()) };
    let mut segments = Vec::new();
    for (segment, tombstone_pages) in decode(&listed).ok_or_else(unreadable)? {
        // What is merged into another one is emptied from the front.
        if segment.first_page > 0 {
            let deleted = deleted(conn, segment.id, tombstone_pages)?;
            segments.push(Segment { deleted, ..segment });
        }
    }
    // Entries are numbered in the order of writing: what they are found in is in order, nearly
    // always, without being sorted.
    segments.sort_by_key(|segment| segment.written);
    Ok(segments)
}

/// Refuses an index of a format that is not known here.
pub(crate) fn check_version(conn: &Connection) -> Result<()> {
    let version: Option<i64> = conn
        .prepare_cached("SELECT v FROM search_config WHERE k = 'version'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    match version {
        Some(VERSION) => Ok(()),
        _ => Err(Error::Index { why: "another version of SQLite wrote it".to_owned() }),
    }
}

/// Reads how many entries and words there are.
pub(super) fn totals(conn: &Connection) -> Result<Totals> {
    let Some(counts) = block(conn, TOTALS)? else { return Ok(Totals { entries: 0, words: 0 }) };
    let mut bytes = Bytes::new(&counts);
    if bytes.is_empty() {
        return Ok(Totals { entries: 0, words: 0 });
    }
    let entries = bytes.number().ok_or_else(unreadable)?;
    let mut words = 0_u64;
    while !bytes.is_empty() {
        words = words.saturating_add(bytes.number().ok_or_else(unreadable)?);
    }
    Ok(Totals { entries, words })
}

fn block(conn: &Connection, id: i64) -> Result<Option<Vec<u8>>> {
    Ok(conn
        .prepare_cached("SELECT block FROM search_data WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?)
}

/// The segments of the list, with how many pages of deleted entries each has.
fn decode(listed: &[u8]) -> Option<Vec<(Segment, i64)>> {
    // Four bytes that change with the settings.
    let rest = listed.get(4..)?;
    let with_tombstones = rest.starts_with(&WITH_TOMBSTONES);
    let mut bytes = Bytes::new(if with_tombstones { rest.get(4..)? } else { rest });
    let levels = bytes.size()?;
    let _segments = bytes.number()?;
    let _writes = bytes.number()?;
    let mut segments = Vec::new();
    for _ in 0..levels {
        let _merging = bytes.number()?;
        for _ in 0..bytes.size()? {
            if segments.len() > MOST_SEGMENTS {
                return None;
            }
            let mut number = || bytes.number().and_then(|number| i64::try_from(number).ok());
            let (id, first_page, last_page) = (number()?, number()?, number()?);
            let (mut tombstone_pages, mut entries, mut written) = (0, 0, (0, 0));
            if with_tombstones {
                // Since when and until when it was written; which and how many were deleted; how many.
                written = (number()?, number()?);
                tombstone_pages = number()?;
                let _deleted = number()?;
                entries = number()?.unsigned_abs();
            }
            if !(1..=0xFFFF).contains(&id) || last_page < first_page || last_page > 0x7FFF_FF00 {
                return None;
            }
            let deleted = HashSet::default();
            let segment = Segment { id, first_page, last_page, entries, written, deleted };
            segments.push((segment, tombstone_pages));
        }
    }
    Some(segments)
}

/// The entries of a segment that were deleted: a hash table over some pages, of which only the
/// filled slots matter.
fn deleted(conn: &Connection, segment: i64, pages: i64) -> Result<HashSet<i64>> {
    let mut deleted = HashSet::default();
    if pages == 0 {
        return Ok(deleted);
    }
    let first = (segment + (1 << 16)) << 37;
    let mut statement =
        conn.prepare_cached("SELECT block FROM search_data WHERE id BETWEEN ?1 AND ?2")?;
    let mut rows = statement.query((first, first + pages - 1))?;
    while let Some(row) = rows.next()? {
        let page = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        let (Some(&width), Some(&zero), Some(slots)) = (page.first(), page.get(1), page.get(8..))
        else {
            return Err(unreadable());
        };
        if zero != 0 {
            deleted.insert(0);
        }
        match width {
            4 => deleted.extend(
                slots
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|slot| i64::from(u32::from_be_bytes(*slot)))
                    .filter(|entry| *entry != 0),
            ),
            8 => deleted.extend(
                slots
                    .as_chunks::<8>()
                    .0
                    .iter()
                    .map(|slot| i64::from_be_bytes(*slot))
                    .filter(|entry| *entry != 0),
            ),
            _ => return Err(unreadable()),
        }
    }
    Ok(deleted)
}
