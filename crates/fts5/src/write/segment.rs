//! Writes one segment of the index: a sorted list of words, each with its entries and positions, cut
//! into pages as FTS5 cuts them. The counterpart of what `search::index` reads.
//!
//! A page has a header (where the first entry stands that belongs to a word of an earlier page;
//! where the words end), words with what they begin alike left out, and the offsets of the words.
//! `search_idx` has the first word of each page that has one. The entries of a word that fills many
//! pages have an index of their own, a tree of the first entry in each page.

use rusqlite::Connection;

use super::long::Long;
use crate::{Result, varint};

/// A word whose entries go on over so many pages without another word has an index of pages.
const INDEXED_PAGES: usize = 4;

/// The beginning of every word in the index of whole words.
const WHOLE: u8 = b'0';

/// The finished pages of a segment.
#[derive(Debug, Default)]
pub struct Pages {
    /// Each with its row among those of the segment.
    data: Vec<(i64, Vec<u8>)>,
    /// What a page begins with, and the page, marked if it has an index of entries.
    index: Vec<(Vec<u8>, i64)>,
    /// How many of them hold words.
    pub(super) words: i64,
}

impl Pages {
    /// Writes them as the segment with that number.
    pub(super) fn write(&self, conn: &Connection, id: i64) -> Result<()> {
        let mut insert =
            conn.prepare_cached("INSERT INTO search_data (id, block) VALUES (?1, ?2)")?;
        for (row, bytes) in &self.data {
            insert.execute(((id << 37) + row, bytes))?;
        }
        let mut insert =
            conn.prepare_cached("INSERT INTO search_idx (segid, term, pgno) VALUES (?1, ?2, ?3)")?;
        for (first, page) in &self.index {
            insert.execute((id, first, page))?;
        }
        Ok(())
    }
}

/// A segment that is being written.
pub(super) struct Segment {
    pages: Pages,
    /// A page is full at this size.
    full: usize,
    page: Page,
    /// The last word, with its mark.
    word: Vec<u8>,
    /// The last page with a word, and what tells its first word from the one before.
    listed: Option<(i64, Vec<u8>)>,
    /// Pages without a word since.
    empty: usize,
    /// The entry that was written last, if it is of the same word.
    last_entry: Option<i64>,
    long: Long,
}

/// A page that is being filled.
struct Page {
    number: i64,
    bytes: Vec<u8>,
    offsets: Vec<u8>,
    last_offset: usize,
    has_word: bool,
    has_entry: bool,
}

impl Page {
    fn new(number: i64) -> Page {
        let bytes = vec![0; 4];
        let offsets = Vec::new();
        Page { number, bytes, offsets, last_offset: 0, has_word: false, has_entry: false }
    }

    fn len(&self) -> usize {
        self.bytes.len() + self.offsets.len()
    }

    fn put_u16(&mut self, at: usize, value: usize) {
        let value = u16::try_from(value).unwrap_or(u16::MAX).to_be_bytes();
        if let Some(header) = self.bytes.get_mut(at..at + 2) {
            header.copy_from_slice(&value);
        }
    }
}

impl Segment {
    pub(super) fn new(full: usize) -> Segment {
        Segment {
            pages: Pages::default(),
            full,
            page: Page::new(1),
            word: Vec::new(),
            listed: Some((1, Vec::new())),
            empty: 0,
            last_entry: None,
            long: Long::new(full),
        }
    }

    /// Begins a word, which is greater than the one before.
    pub(super) fn word(&mut self, word: &[u8]) {
        let length = word.len() + 1;
        if self.page.len() + length + 2 >= self.full && self.page.bytes.len() > 4 {
            self.end_page();
        }
        let alike = self
            .word
            .get(1..)
            .map_or(0, |last| 1 + last.iter().zip(word).take_while(|(a, b)| a == b).count());
        let at = self.page.bytes.len();
        varint::push(&mut self.page.offsets, (at - self.page.last_offset) as u64);
        self.page.last_offset = at;
        let mut shared = 0;
        if self.page.has_word {
            shared = alike;
            varint::push(&mut self.page.bytes, shared as u64);
        } else if self.page.number != 1 {
            // Enough of the word to tell it from the one before.
            let mut first = vec![WHOLE];
            first.extend_from_slice(word.get(..alike).unwrap_or(word));
            self.list_page();
            self.listed = Some((self.page.number, first));
        }
        varint::push(&mut self.page.bytes, (length - shared) as u64);
        match shared.checked_sub(1) {
            None => {
                self.page.bytes.push(WHOLE);
                self.page.bytes.extend_from_slice(word);
            }
            Some(shared) => {
                self.page.bytes.extend_from_slice(word.get(shared..).unwrap_or_default());
            }
        }
        self.word.clear();
        self.word.push(WHOLE);
        self.word.extend_from_slice(word);
        self.page.has_word = true;
        self.page.has_entry = true;
        self.last_entry = None;
        self.long.begin(self.page.number);
    }

    /// Adds an entry of the word, which is greater than the one before, with its positions.
    #[inline]
    pub(super) fn entry(&mut self, entry: i64, positions: &[u8]) {
        if self.page.len() >= self.full {
            self.end_page();
        }
        let delta = match self.last_entry {
            Some(last) if self.page.has_entry => entry.wrapping_sub(last),
            _ => entry,
        };
        if !self.page.has_entry {
            self.page.put_u16(0, self.page.bytes.len());
            self.long.entry(entry, self.page.number);
            self.page.has_entry = true;
        }
        varint::push(&mut self.page.bytes, delta.cast_unsigned());
        varint::push(&mut self.page.bytes, positions.len() as u64 * 2);
        self.last_entry = Some(entry);
        if self.page.len() + positions.len() < self.full {
            self.page.bytes.extend_from_slice(positions);
        } else {
            self.long_positions(positions);
        }
    }

    /// Adds positions that do not fit into the page. No number is torn.
    fn long_positions(&mut self, positions: &[u8]) {
        let mut rest = positions;
        while self.page.len() + rest.len() >= self.full {
            let room = self.full.saturating_sub(self.page.len());
            let mut fits = room.min(rest.len());
            // The last byte of a number is the one without the highest bit.
            while fits > 0 && rest.get(fits - 1).is_some_and(|last| *last >= 0x80) {
                fits += 1;
            }
            let (first, others) = rest.split_at_checked(fits).unwrap_or((rest, &[]));
            self.page.bytes.extend_from_slice(first);
            rest = others;
            self.end_page();
        }
        self.page.bytes.extend_from_slice(rest);
    }

    /// Puts the page away and begins the next.
    fn end_page(&mut self) {
        self.page.put_u16(2, self.page.bytes.len());
        if self.page.has_word {
            let offsets = std::mem::take(&mut self.page.offsets);
            self.page.bytes.extend_from_slice(&offsets);
        } else {
            if !self.page.has_entry {
                self.long.nothing();
            }
            self.empty += 1;
        }
        let next = Page::new(self.page.number + 1);
        let page = std::mem::replace(&mut self.page, next);
        self.pages.data.push((page.number, page.bytes));
    }

    /// The words of the page that is to be listed are complete.
    fn list_page(&mut self) {
        let has_index = self.long.end(self.empty >= INDEXED_PAGES);
        self.empty = 0;
        if let Some((page, first)) = self.listed.take() {
            self.pages.index.push((first, page << 1 | i64::from(has_index)));
        }
    }

    /// Everything, with what is left.
    pub(super) fn finish(mut self) -> Pages {
        if self.page.bytes.len() > 4 {
            self.end_page();
        }
        self.pages.words = self.page.number - 1;
        if self.pages.words > 0 {
            self.list_page();
        }
        // After all pages of words: they come after them in the table.
        self.pages.data.append(&mut self.long.pages());
        self.pages
    }
}
