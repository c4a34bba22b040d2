//! The two rows in which FTS5 keeps the whole together: which segments there are, and how many
//! entries and words.

use rusqlite::{Connection, OptionalExtension};

use super::postings::{COLUMNS, Sizes};
use crate::read::check_version;
use crate::varint::{self, Bytes};
use crate::{Error, Result};

const STRUCTURE: i64 = 10;
const TOTALS: i64 = 1;
/// Begins the list of segments where entries can be deleted, after a number that changes with the
/// settings.
const WITH_TOMBSTONES: [u8; 4] = [0xFF, 0, 0, 1];
/// More segments FTS5 does not make.
const MOST_SEGMENTS: usize = 2000;
/// With so many segments, large ones are merged too.
const CROWDED: usize = 1000;
/// A segment of so many pages is large.
const LARGE: u64 = 64;
/// Large segments stand on this level and those above it. FTS5 merges four levels into one, so small
/// ones get here by the ten-thousands.
const SHELVES: usize = 8;
/// FTS5 merges a level that has one more.
const ON_A_SHELF: usize = 3;

/// Which segments there are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Structure {
    cookie: [u8; 4],
    writes: u64,
    levels: Vec<Level>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Level {
    /// So many of its segments are being merged into the level above.
    merging: u64,
    /// The newest last.
    segments: Vec<Listed>,
}

/// A segment in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed {
    id: u64,
    first_page: u64,
    last_page: u64,
    /// The transactions that it was written in.
    origins: (u64, u64),
    tombstone_pages: u64,
    deleted: u64,
    entries: u64,
}

impl Listed {
    fn pages(&self) -> u64 {
        self.last_page.saturating_sub(self.first_page) + 1
    }
}

impl Structure {
    pub(super) fn read(conn: &Connection) -> Result<Structure> {
        check_version(conn)?;
        let bytes = block(conn, STRUCTURE)?.unwrap_or_default();
        Structure::decode(&bytes).ok_or_else(|| Error::Index {
            why: "the list of its segments makes no sense".to_owned(),
        })
    }

    fn decode(bytes: &[u8]) -> Option<Structure> {
        let (cookie, rest) = bytes.split_first_chunk::<4>()?;
        // All our tables allow to delete, and FTS5 marks them as soon as they are made.
        let mut bytes = Bytes::new(rest.strip_prefix(&WITH_TOMBSTONES)?);
        let (levels, segments, writes) = (bytes.size()?, bytes.size()?, bytes.number()?);
        if levels > MOST_SEGMENTS || segments > MOST_SEGMENTS {
            return None;
        }
        let mut structure = Structure { cookie: *cookie, writes, levels: Vec::new() };
        for _ in 0..levels {
            let mut level = Level { merging: bytes.number()?, segments: Vec::new() };
            for _ in 0..bytes.size()? {
                let mut number = || bytes.number();
                level.segments.push(Listed {
                    id: number()?,
                    first_page: number()?,
                    last_page: number()?,
                    origins: (number()?, number()?),
                    tombstone_pages: number()?,
                    deleted: number()?,
                    entries: number()?,
                });
            }
            structure.levels.push(level);
        }
        (structure.segments().count() == segments && bytes.is_empty()).then_some(structure)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = [self.cookie, WITH_TOMBSTONES].concat();
        let mut push = |number: u64| varint::push(&mut bytes, number);
        push(self.levels.len() as u64);
        push(self.segments().count() as u64);
        push(self.writes);
        for level in &self.levels {
            push(level.merging);
            push(level.segments.len() as u64);
            for listed in &level.segments {
                push(listed.id);
                push(listed.first_page);
                push(listed.last_page);
                push(listed.origins.0);
                push(listed.origins.1);
                push(listed.tombstone_pages);
                push(listed.deleted);
                push(listed.entries);
            }
        }
        bytes
    }

    fn segments(&self) -> impl Iterator<Item = &Listed> {
        self.levels.iter().flat_map(|level| &level.segments)
    }

    /// The number of the transaction that writes the next segment. Entries are kept with theirs, so
    /// that deleting one leads to its segment.
    pub(super) fn origin(&self) -> u64 {
        self.segments().map(|listed| listed.origins.1).max().unwrap_or(0) + 1
    }

    /// An id for a new segment.
    pub(super) fn free_id(&self) -> Result<u64> {
        let used: Vec<u64> = self.segments().map(|listed| listed.id).collect();
        (1..=MOST_SEGMENTS as u64)
            .find(|id| !used.contains(id))
            .ok_or_else(|| Error::Index { why: "it is in too many pieces".to_owned() })
    }

    /// True if there are so many segments that large ones have to be merged.
    pub(super) fn is_crowded(&self) -> bool {
        self.segments().count() >= CROWDED
    }

    /// Adds a segment.
    pub(super) fn add(&mut self, id: u64, pages: u64, entries: u64) {
        let origin = self.origin();
        let listed = Listed {
            id,
            first_page: 1,
            last_page: pages,
            origins: (origin, origin),
            tombstone_pages: 0,
            deleted: 0,
            entries,
        };
        if pages >= LARGE { self.shelve(listed) } else { self.lay_down(listed) }
    }

    /// Puts a large segment above all small ones, and few on a level: FTS5 would merge them, a
    /// little with each commit that follows, and a line that is added to a ledger after its first
    /// import would take the longer the larger that was. Searching looks into each of them either
    /// way.
    ///
    /// Levels only say what is older and what is merged with what, so those that are there can move
    /// up. One that is being merged is followed by the one that it is merged into: that is not empty,
    /// and stays beside it.
    fn shelve(&mut self, listed: Listed) {
        let most = if self.is_crowded() { usize::MAX } else { ON_A_SHELF };
        let empty = self.levels.iter().take_while(|level| level.segments.is_empty()).count();
        if let Some(newest) = self.levels.get_mut(empty)
            && empty >= SHELVES
            && newest.merging == 0
            && newest.segments.len() < most
        {
            newest.segments.push(listed);
            return;
        }
        let above = std::mem::take(&mut self.levels);
        self.levels.resize_with(SHELVES, Level::default);
        self.levels.push(Level { merging: 0, segments: vec![listed] });
        self.levels.extend(above.into_iter().filter(|level| !level.segments.is_empty()));
    }

    /// Adds a segment where FTS5 adds one. Larger levels whose segments are no larger come down to
    /// it, so that what is merged is of about the same size.
    fn lay_down(&mut self, listed: Listed) {
        let pages = listed.pages();
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let Some((lowest, above)) = self.levels.split_first_mut() else { return };
        lowest.segments.push(listed);
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

    pub(super) fn write(&self, conn: &Connection) -> Result<()> {
        put(conn, STRUCTURE, &self.encode())
    }
}

/// Counts entries and their words.
pub(super) fn add_totals(conn: &Connection, entries: u64, words: [u64; COLUMNS]) -> Result<()> {
    let held = block(conn, TOTALS)?.unwrap_or_default();
    let mut held = Bytes::new(&held);
    let mut bytes = Vec::new();
    for added in [entries].into_iter().chain(words) {
        varint::push(&mut bytes, held.number().unwrap_or(0) + added);
    }
    put(conn, TOTALS, &bytes)
}

/// How an entry's words are counted in its row.
pub(super) fn encode_sizes(sizes: &Sizes, bytes: &mut Vec<u8>) {
    bytes.clear();
    for size in sizes {
        varint::push(bytes, u64::from(*size));
    }
}

/// FTS5 fills pages up to this size, where it was not told another one.
const PAGE: usize = 4050;

/// The size of pages that FTS5 was told to fill.
pub fn page_size(conn: &Connection) -> Result<usize> {
    let told: Option<i64> = conn
        .prepare_cached("SELECT v FROM search_config WHERE k = 'pgsz'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(told.and_then(|told| usize::try_from(told).ok()).unwrap_or(PAGE))
}

fn block(conn: &Connection, id: i64) -> Result<Option<Vec<u8>>> {
    Ok(conn
        .prepare_cached("SELECT block FROM search_data WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?)
}

fn put(conn: &Connection, id: i64, bytes: &[u8]) -> Result<()> {
    conn.prepare_cached("REPLACE INTO search_data (id, block) VALUES (?1, ?2)")?
        .execute((id, bytes))?;
    Ok(())
}
