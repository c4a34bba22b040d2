//! Writes the two records that describe the whole index: the structure record, which lists the
//! segments by level, and the averages record, which counts rows and tokens.

use rusqlite::Connection;

use super::postings::Sizes;
use crate::table::{
    AVERAGES, COLUMNS, MAX_SEGMENTS, STRUCTURE, STRUCTURE_V2, block, has_known_version, put_block,
};
use crate::varint::{self, Bytes};
use crate::{Error, Result};

/// From this number of segments on, large ones are merged too.
const CROWDED_SEGMENTS: usize = 1000;
/// Minimum number of pages of a large segment.
const LARGE_SEGMENT_PAGES: u64 = 64;
/// The lowest level for large segments. FTS5 merges four segments of a level into one of the next,
/// so small segments reach this level only after tens of thousands of commits.
const LARGE_LEVEL: usize = 8;
/// The number of large segments on one level. FTS5 merges a level that has one more.
const LARGE_PER_LEVEL: usize = 3;

/// The structure record, decoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Structure {
    cookie: [u8; 4],
    writes: u64,
    levels: Vec<Level>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Level {
    /// Number of its segments that are being merged into the level above.
    merging: u64,
    /// In the order of writing.
    segments: Vec<SegmentInfo>,
}

/// A segment in the structure record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentInfo {
    id: u64,
    first_page: u64,
    last_page: u64,
    /// The first and the last transaction whose rows it holds.
    origins: (u64, u64),
    tombstone_pages: u64,
    deleted: u64,
    rows: u64,
}

impl SegmentInfo {
    fn pages(&self) -> u64 {
        self.last_page.saturating_sub(self.first_page) + 1
    }
}

impl Structure {
    /// Reads the structure record.
    pub(super) fn read(conn: &Connection) -> Result<Structure> {
        if !has_known_version(conn)? {
            let why = "another version of FTS5 wrote it".to_owned();
            return Err(Error::Index { why });
        }
        let bytes = block(conn, STRUCTURE)?.unwrap_or_default();
        Structure::decode(&bytes)
            .ok_or_else(|| Error::Index { why: "its list of segments is malformed".to_owned() })
    }

    fn decode(bytes: &[u8]) -> Option<Structure> {
        let (cookie, rest) = bytes.split_first_chunk::<4>()?;
        // Present from the start in a table with `contentless_delete = 1`.
        let mut bytes = Bytes::new(rest.strip_prefix(&STRUCTURE_V2)?);
        let (levels, segments, writes) = (bytes.size()?, bytes.size()?, bytes.number()?);
        if levels > MAX_SEGMENTS || segments > MAX_SEGMENTS {
            return None;
        }
        let mut structure = Structure { cookie: *cookie, writes, levels: Vec::new() };
        for _ in 0..levels {
            let mut level = Level { merging: bytes.number()?, segments: Vec::new() };
            for _ in 0..bytes.size()? {
                let mut number = || bytes.number();
                level.segments.push(SegmentInfo {
                    id: number()?,
                    first_page: number()?,
                    last_page: number()?,
                    origins: (number()?, number()?),
                    tombstone_pages: number()?,
                    deleted: number()?,
                    rows: number()?,
                });
            }
            structure.levels.push(level);
        }
        (structure.segments().count() == segments && bytes.is_empty()).then_some(structure)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = [self.cookie, STRUCTURE_V2].concat();
        let mut push = |number: u64| varint::push(&mut bytes, number);
        push(self.levels.len() as u64);
        push(self.segments().count() as u64);
        push(self.writes);
        for level in &self.levels {
            push(level.merging);
            push(level.segments.len() as u64);
            for segment in &level.segments {
                push(segment.id);
                push(segment.first_page);
                push(segment.last_page);
                push(segment.origins.0);
                push(segment.origins.1);
                push(segment.tombstone_pages);
                push(segment.deleted);
                push(segment.rows);
            }
        }
        bytes
    }

    fn segments(&self) -> impl Iterator<Item = &SegmentInfo> {
        self.levels.iter().flat_map(|level| &level.segments)
    }

    /// Returns the number of the transaction that writes the next segment. `search_docsize` keeps
    /// it with each row, so that a deletion finds the segment of the row.
    pub(super) fn origin(&self) -> u64 {
        self.segments().map(|segment| segment.origins.1).max().unwrap_or(0) + 1
    }

    /// Returns an id for a new segment.
    pub(super) fn free_id(&self) -> Result<u64> {
        let used: Vec<u64> = self.segments().map(|segment| segment.id).collect();
        (1..=MAX_SEGMENTS as u64)
            .find(|id| !used.contains(id))
            .ok_or_else(|| Error::Index { why: "it has too many segments".to_owned() })
    }

    /// Returns whether the number of segments is too high to leave large ones unmerged.
    pub(super) fn is_crowded(&self) -> bool {
        self.segments().count() >= CROWDED_SEGMENTS
    }

    /// Adds a segment.
    pub(super) fn add(&mut self, id: u64, pages: u64, rows: u64) {
        let origin = self.origin();
        let segment = SegmentInfo {
            id,
            first_page: 1,
            last_page: pages,
            origins: (origin, origin),
            tombstone_pages: 0,
            deleted: 0,
            rows,
        };
        if pages >= LARGE_SEGMENT_PAGES { self.add_large(segment) } else { self.add_small(segment) }
    }

    /// Adds a large segment above all small ones, with few on a level. Otherwise FTS5 would merge
    /// them, a little with each later commit, and adding a row would cost more after a larger
    /// import. A search reads every segment either way.
    ///
    /// The level of a segment determines only its age relative to others and which segments are
    /// merged together, so the existing levels can move up. A level that is being merged stays
    /// below the one it is merged into: that one is not empty, and only empty levels are dropped.
    fn add_large(&mut self, segment: SegmentInfo) {
        let max_segments = if self.is_crowded() { usize::MAX } else { LARGE_PER_LEVEL };
        let empty = self.levels.iter().take_while(|level| level.segments.is_empty()).count();
        if let Some(newest) = self.levels.get_mut(empty)
            && empty >= LARGE_LEVEL
            && newest.merging == 0
            && newest.segments.len() < max_segments
        {
            newest.segments.push(segment);
            return;
        }
        let above = std::mem::take(&mut self.levels);
        self.levels.resize_with(LARGE_LEVEL, Level::default);
        self.levels.push(Level { merging: 0, segments: vec![segment] });
        self.levels.extend(above.into_iter().filter(|level| !level.segments.is_empty()));
    }

    /// Adds a small segment where FTS5 would add it. Segments of upper levels that are no larger
    /// move down to its level, so that segments of about the same size are merged.
    fn add_small(&mut self, segment: SegmentInfo) {
        let pages = segment.pages();
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let Some((lowest, above)) = self.levels.split_first_mut() else { return };
        lowest.segments.push(segment);
        if lowest.merging > 0 {
            return;
        }
        for level in above {
            if level.merging > 0 {
                return;
            }
            while let Some(newest) = level.segments.last() {
                if newest.pages() > pages {
                    return;
                }
                lowest.segments.insert(0, *newest);
                level.segments.pop();
            }
        }
    }

    /// Writes the structure record.
    pub(super) fn write(&self, conn: &Connection) -> Result<()> {
        put_block(conn, STRUCTURE, &self.encode())
    }
}

/// Adds rows and their tokens to the averages record.
pub(super) fn add_to_averages(conn: &Connection, rows: u64, tokens: [u64; COLUMNS]) -> Result<()> {
    let record = block(conn, AVERAGES)?.unwrap_or_default();
    let mut record = Bytes::new(&record);
    let mut bytes = Vec::new();
    for added in [rows].into_iter().chain(tokens) {
        varint::push(&mut bytes, record.number().unwrap_or(0) + added);
    }
    put_block(conn, AVERAGES, &bytes)
}

/// Encodes the `sz` of a row in `search_docsize`.
pub(super) fn encode_sizes(sizes: &Sizes, bytes: &mut Vec<u8>) {
    bytes.clear();
    for size in sizes {
        varint::push(bytes, u64::from(*size));
    }
}
