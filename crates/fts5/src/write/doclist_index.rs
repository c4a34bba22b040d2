//! Writes the doclist index of a term whose doclist spans many pages: the first rowid of each page,
//! so that FTS5 can skip pages. It is a tree; its lowest level lists the leaf pages, with a zero
//! for a page in which no rowid begins.

use crate::{RowId, varint};

/// The doclist index of the current term, and the finished pages of all terms.
pub(super) struct DoclistIndex {
    page_size: usize,
    levels: Vec<Level>,
    finished: Vec<(i64, Vec<u8>)>,
}

#[derive(Default)]
struct Level {
    page: i64,
    last: Option<RowId>,
    bytes: Vec<u8>,
}

impl Level {
    /// Returns the first rowid of the page. It is stored after a flag and a page number.
    fn first(&self) -> RowId {
        let mut bytes = varint::Bytes::new(self.bytes.get(1..).unwrap_or_default());
        bytes.number();
        RowId(bytes.number().unwrap_or_default().cast_signed())
    }
}

impl DoclistIndex {
    pub(super) fn new(page_size: usize) -> DoclistIndex {
        DoclistIndex { page_size, levels: vec![Level::default()], finished: Vec::new() }
    }

    /// Begins a term whose doclist starts in leaf page `page`.
    pub(super) fn begin(&mut self, page: i64) {
        if let Some(lowest) = self.levels.first_mut() {
            lowest.page = page;
        }
    }

    /// Adds leaf page `page`, in which `rowid` is the first to begin.
    pub(super) fn add(&mut self, rowid: RowId, page: i64) {
        let mut below = page;
        let mut at = 0;
        loop {
            if self.levels.len() < at + 2 {
                self.levels.push(Level::default());
            }
            let Some([level, above, ..]) = self.levels.get_mut(at..) else { return };
            let is_full = level.bytes.len() >= self.page_size;
            if is_full {
                // A full page is not the root, or no longer the root: the level above gets an entry
                // for it.
                if let Some(flag) = level.bytes.first_mut() {
                    *flag = 1;
                }
                if above.bytes.is_empty() {
                    let first = level.first();
                    above.page = level.page;
                    above.bytes.push(0);
                    varint::push(&mut above.bytes, level.page.cast_unsigned());
                    varint::push(&mut above.bytes, first.0.cast_unsigned());
                    above.last = Some(first);
                }
                self.finished.push((page_id(at, level.page), std::mem::take(&mut level.bytes)));
                level.last = None;
                level.page += 1;
            }
            let delta = match level.last {
                Some(last) => rowid.0.wrapping_sub(last.0),
                None => {
                    level.bytes.push(u8::from(is_full));
                    varint::push(&mut level.bytes, below.cast_unsigned());
                    rowid.0
                }
            };
            varint::push(&mut level.bytes, delta.cast_unsigned());
            level.last = Some(rowid);
            if !is_full {
                return;
            }
            below = level.page;
            at += 1;
        }
    }

    /// Adds a leaf page in which neither a term nor a rowid begins.
    pub(super) fn skip_page(&mut self) {
        if let Some(lowest) = self.levels.first_mut().filter(|lowest| !lowest.bytes.is_empty()) {
            lowest.bytes.push(0);
        }
    }

    /// Ends the term. Keeps its doclist index only if `is_wanted`, and returns whether there is
    /// one.
    pub(super) fn end(&mut self, is_wanted: bool) -> bool {
        let mut has_any = false;
        for (at, level) in self.levels.iter_mut().enumerate() {
            let bytes = std::mem::take(&mut level.bytes);
            level.last = None;
            if is_wanted && !bytes.is_empty() {
                self.finished.push((page_id(at, level.page), bytes));
                has_any = true;
            }
        }
        has_any
    }

    /// Returns the finished pages in the order of their ids within the segment.
    pub(super) fn pages(&mut self) -> Vec<(i64, Vec<u8>)> {
        let mut pages = std::mem::take(&mut self.finished);
        pages.sort_unstable_by_key(|(id, _)| *id);
        pages
    }
}

/// Returns the id of a doclist index page within its segment.
fn page_id(level: usize, page: i64) -> i64 {
    (1 << 36) + ((level as i64) << 31) + page
}
