//! The index of a word whose entries fill many pages: the first entry of each page, so that a reader
//! can leap. A tree; its lowest level lists the pages, and a zero stands for one in which no entry
//! begins.

use crate::varint;

/// What is known of the word at hand, and what is finished of all.
pub(super) struct Long {
    /// A page is full at this size.
    full: usize,
    levels: Vec<Level>,
    finished: Vec<(i64, Vec<u8>)>,
}

#[derive(Default)]
struct Level {
    page: i64,
    last: Option<i64>,
    bytes: Vec<u8>,
}

impl Level {
    /// The first entry that it lists: after a mark and the number of a page.
    fn first(&self) -> i64 {
        let mut bytes = varint::Bytes::new(self.bytes.get(1..).unwrap_or_default());
        bytes.number();
        bytes.number().unwrap_or_default().cast_signed()
    }
}

impl Long {
    pub(super) fn new(full: usize) -> Long {
        Long { full, levels: vec![Level::default()], finished: Vec::new() }
    }

    /// A word begins in this page.
    pub(super) fn begin(&mut self, page: i64) {
        if let Some(lowest) = self.levels.first_mut() {
            lowest.page = page;
        }
    }

    /// The first entry in a page.
    pub(super) fn entry(&mut self, entry: i64, page: i64) {
        let mut below = page;
        let mut at = 0;
        loop {
            if self.levels.len() < at + 2 {
                self.levels.push(Level::default());
            }
            let Some([level, above, ..]) = self.levels.get_mut(at..) else { return };
            let is_full = level.bytes.len() >= self.full;
            if is_full {
                // It is not the root, and if it was, there is another one above it now.
                if let Some(mark) = level.bytes.first_mut() {
                    *mark = 1;
                }
                if above.bytes.is_empty() {
                    let first = level.first();
                    above.page = level.page;
                    above.bytes.push(0);
                    varint::push(&mut above.bytes, level.page.cast_unsigned());
                    varint::push(&mut above.bytes, first.cast_unsigned());
                    above.last = Some(first);
                }
                self.finished.push((row(at, level.page), std::mem::take(&mut level.bytes)));
                level.last = None;
                level.page += 1;
            }
            let delta = match level.last {
                Some(last) => entry.wrapping_sub(last),
                None => {
                    level.bytes.push(u8::from(is_full));
                    varint::push(&mut level.bytes, below.cast_unsigned());
                    entry
                }
            };
            varint::push(&mut level.bytes, delta.cast_unsigned());
            level.last = Some(entry);
            if !is_full {
                return;
            }
            below = level.page;
            at += 1;
        }
    }

    /// A page in which neither a word nor an entry begins.
    pub(super) fn nothing(&mut self) {
        if let Some(lowest) = self.levels.first_mut().filter(|lowest| !lowest.bytes.is_empty()) {
            lowest.bytes.push(0);
        }
    }

    /// The word is complete. Returns whether there is an index of it: only if that `is_worth` it.
    pub(super) fn end(&mut self, is_worth: bool) -> bool {
        let mut has_any = false;
        for (at, level) in self.levels.iter_mut().enumerate() {
            let bytes = std::mem::take(&mut level.bytes);
            level.last = None;
            if is_worth && !bytes.is_empty() {
                self.finished.push((row(at, level.page), bytes));
                has_any = true;
            }
        }
        has_any
    }

    /// Everything that is finished, by where it belongs among the rows of the segment.
    pub(super) fn pages(&mut self) -> Vec<(i64, Vec<u8>)> {
        let mut pages = std::mem::take(&mut self.finished);
        pages.sort_unstable_by_key(|(row, _)| *row);
        pages
    }
}

/// The row of a page within a segment.
fn row(level: usize, page: i64) -> i64 {
    (1 << 36) + ((level as i64) << 31) + page
}
