//! Writes one segment: sorted terms with their doclists, cut into leaf pages where FTS5 cuts them.
//! `read::leaf` reads them back.
//!
//! A leaf page has a header (offset of the first rowid that belongs to a term of an earlier page;
//! offset where the terms end), prefix-compressed terms with their doclists, and the offsets of the
//! terms. `search_idx` has the first term of each page that has one. A term whose doclist fills
//! many pages gets a doclist index.

use rusqlite::Connection;

use super::doclist_index::DoclistIndex;
use crate::table::SEGMENT_SHIFT;
use crate::{Result, RowId, varint};

/// A doclist that spans this many pages without another term gets a doclist index.
const INDEXED_PAGES: usize = 4;

/// The first byte of every term in the main index; prefix indexes, which are not used, have others.
const MAIN_INDEX: u8 = b'0';

/// The pages of a finished segment.
#[derive(Debug, Default)]
pub struct SegmentPages {
    /// Leaf and doclist index pages, each with its id relative to the segment.
    data: Vec<(i64, Vec<u8>)>,
    /// For `search_idx`: the start of the first term of a page, and the page number shifted left by
    /// one, with the lowest bit set if the page has a doclist index.
    index: Vec<(Vec<u8>, i64)>,
    /// Number of leaf pages.
    pub(super) leaves: i64,
}

impl SegmentPages {
    /// Inserts them as segment `id`.
    pub(super) fn write(&self, conn: &Connection, id: i64) -> Result<()> {
        let mut insert =
            conn.prepare_cached("INSERT INTO search_data (id, block) VALUES (?1, ?2)")?;
        for (page, bytes) in &self.data {
            insert.execute(((id << SEGMENT_SHIFT) + page, bytes))?;
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
pub(super) struct SegmentWriter {
    pages: SegmentPages,
    page_size: usize,
    page: LeafPage,
    /// The last term, after the byte of the main index.
    term: Vec<u8>,
    /// The last page with a term, and the shortest prefix of its first term that is greater than
    /// the term before. The page is listed in `search_idx` when its last doclist is complete.
    unlisted: Option<(i64, Vec<u8>)>,
    /// Number of pages without a term after that page.
    termless_pages: usize,
    /// The last rowid that was written for the current term.
    last_rowid: Option<RowId>,
    doclist_index: DoclistIndex,
}

/// A leaf page that is being filled.
struct LeafPage {
    number: i64,
    bytes: Vec<u8>,
    offsets: Vec<u8>,
    last_offset: usize,
    has_term: bool,
    has_rowid: bool,
}

impl LeafPage {
    fn new(number: i64) -> LeafPage {
        let bytes = vec![0; 4];
        let offsets = Vec::new();
        LeafPage { number, bytes, offsets, last_offset: 0, has_term: false, has_rowid: false }
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

impl SegmentWriter {
    /// Starts a segment whose pages are full at `page_size` bytes.
    pub(super) fn new(page_size: usize) -> SegmentWriter {
        SegmentWriter {
            pages: SegmentPages::default(),
            page_size,
            page: LeafPage::new(1),
            term: Vec::new(),
            unlisted: Some((1, Vec::new())),
            termless_pages: 0,
            last_rowid: None,
            doclist_index: DoclistIndex::new(page_size),
        }
    }

    /// Begins a term, which must be greater than the one before.
    pub(super) fn begin_term(&mut self, term: &[u8]) {
        let length = term.len() + 1;
        if self.page.len() + length + 2 >= self.page_size && self.page.bytes.len() > 4 {
            self.end_page();
        }
        let common = self
            .term
            .get(1..)
            .map_or(0, |last| 1 + last.iter().zip(term).take_while(|(a, b)| a == b).count());
        let at = self.page.bytes.len();
        varint::push(&mut self.page.offsets, (at - self.page.last_offset) as u64);
        self.page.last_offset = at;
        let mut shared = 0;
        if self.page.has_term {
            shared = common;
            varint::push(&mut self.page.bytes, shared as u64);
        } else if self.page.number != 1 {
            // Enough of the term to distinguish it from the term before.
            let mut first = vec![MAIN_INDEX];
            first.extend_from_slice(term.get(..common).unwrap_or(term));
            self.list_page();
            self.unlisted = Some((self.page.number, first));
        }
        varint::push(&mut self.page.bytes, (length - shared) as u64);
        match shared.checked_sub(1) {
            None => {
                self.page.bytes.push(MAIN_INDEX);
                self.page.bytes.extend_from_slice(term);
            }
            Some(shared) => {
                self.page.bytes.extend_from_slice(term.get(shared..).unwrap_or_default());
            }
        }
        self.term.clear();
        self.term.push(MAIN_INDEX);
        self.term.extend_from_slice(term);
        self.page.has_term = true;
        self.page.has_rowid = true;
        self.last_rowid = None;
        self.doclist_index.begin(self.page.number);
    }

    /// Adds a row to the doclist of the term. Its rowid must be greater than the one before.
    #[inline]
    pub(super) fn add_row(&mut self, rowid: RowId, poslist: &[u8]) {
        if self.page.len() >= self.page_size {
            self.end_page();
        }
        let delta = match self.last_rowid {
            Some(last) if self.page.has_rowid => rowid.0.wrapping_sub(last.0),
            _ => rowid.0,
        };
        if !self.page.has_rowid {
            self.page.put_u16(0, self.page.bytes.len());
            self.doclist_index.add(rowid, self.page.number);
            self.page.has_rowid = true;
        }
        varint::push(&mut self.page.bytes, delta.cast_unsigned());
        varint::push(&mut self.page.bytes, poslist.len() as u64 * 2);
        self.last_rowid = Some(rowid);
        if self.page.len() + poslist.len() < self.page_size {
            self.page.bytes.extend_from_slice(poslist);
        } else {
            self.split_poslist(poslist);
        }
    }

    /// Adds a poslist that does not fit into the page. No varint is split.
    fn split_poslist(&mut self, poslist: &[u8]) {
        let mut rest = poslist;
        while self.page.len() + rest.len() >= self.page_size {
            let room = self.page_size.saturating_sub(self.page.len());
            let mut fits = room.min(rest.len());
            // The last byte of a varint is the one without the highest bit.
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

    /// Finishes the page and begins the next.
    fn end_page(&mut self) {
        self.page.put_u16(2, self.page.bytes.len());
        if self.page.has_term {
            let offsets = std::mem::take(&mut self.page.offsets);
            self.page.bytes.extend_from_slice(&offsets);
        } else {
            if !self.page.has_rowid {
                self.doclist_index.skip_page();
            }
            self.termless_pages += 1;
        }
        let next = LeafPage::new(self.page.number + 1);
        let page = std::mem::replace(&mut self.page, next);
        self.pages.data.push((page.number, page.bytes));
    }

    /// Lists the last page with a term in `search_idx`, now that its doclists are complete.
    fn list_page(&mut self) {
        let has_index = self.doclist_index.end(self.termless_pages >= INDEXED_PAGES);
        self.termless_pages = 0;
        if let Some((page, first)) = self.unlisted.take() {
            self.pages.index.push((first, page << 1 | i64::from(has_index)));
        }
    }

    /// Finishes the last page and returns all of them.
    pub(super) fn finish(mut self) -> SegmentPages {
        if self.page.bytes.len() > 4 {
            self.end_page();
        }
        self.pages.leaves = self.page.number - 1;
        if self.pages.leaves > 0 {
            self.list_page();
        }
        // The ids of doclist index pages are above those of all leaves.
        self.pages.data.append(&mut self.doclist_index.pages());
        self.pages
    }
}
