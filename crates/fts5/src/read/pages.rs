//! Walks through the pages of one segment and finds the entries of a word, or of all words that
//! begin alike.
//!
//! A page has a header (where the first entry number stands that belongs to no word of this page;
//! where the words' offsets begin), then words, each with its entries and their positions, then the
//! offsets of the words. The entries of a word go on in the next page where there is no room, even
//! in the middle of an entry's positions. The format is described at the head of FTS5's source.

use crate::varint::Bytes;
use crate::{Error, Result};

/// Is told of each entry: its number and the positions. A frequent word has hundreds of thousands,
/// so that even the call is worth sparing: whoever is told becomes part of the walk.
pub(super) trait Each: FnMut(i64, &[u8]) -> Result<()> {}

impl<F: FnMut(i64, &[u8]) -> Result<()>> Each for F {}

/// A walk through consecutive pages.
pub(super) struct Walk<'w> {
    word: &'w [u8],
    is_prefix: bool,
    /// The word of which entries are being read.
    is_inside: bool,
    entry: i64,
    /// Positions that go on in the next page: what there is, and how many bytes are missing.
    cut: Option<(Vec<u8>, usize)>,
}

/// Whether the next page is of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Page,
    Nothing,
}

impl<'w> Walk<'w> {
    pub(super) fn new(word: &'w [u8], is_prefix: bool) -> Walk<'w> {
        Walk { word, is_prefix, is_inside: false, entry: 0, cut: None }
    }

    /// Reads one page.
    pub(super) fn page(&mut self, page: &[u8], each: &mut impl Each) -> Result<Next> {
        self.try_page(page, each)?.ok_or_else(unreadable)
    }

    fn try_page(&mut self, page: &[u8], each: &mut impl Each) -> Result<Option<Next>> {
        let Some(layout) = Layout::of(page) else { return Ok(None) };
        let mut words = Bytes::new(page.get(layout.end..).unwrap_or_default());
        let mut next_word = match words.is_empty() {
            true => None,
            false => words.size(),
        };
        if next_word.is_some_and(|at| at < 4 || at > layout.end) {
            return Ok(None);
        }
        if self.is_inside {
            let end = next_word.unwrap_or(layout.end);
            if !self.go_on(page, &layout, end, next_word.is_none(), each)? {
                return Ok(None);
            }
            if next_word.is_none() {
                return Ok(Some(Next::Page));
            }
            self.is_inside = false;
            if self.cut.is_some() {
                return Ok(None);
            }
            if !self.is_prefix {
                return Ok(Some(Next::Nothing));
            }
        }
        let mut term: Vec<u8> = Vec::new();
        let mut is_first = true;
        while let Some(at) = next_word {
            next_word = match words.is_empty() {
                true => None,
                false => words.size().and_then(|delta| at.checked_add(delta)),
            };
            let end = next_word.unwrap_or(layout.end);
            let Some(mut bytes) = page.get(at..end).map(Bytes::new) else { return Ok(None) };
            let shared = if is_first { Some(0) } else { bytes.size() };
            is_first = false;
            let added = bytes.size().and_then(|length| bytes.take(length));
            let (Some(shared), Some(added)) = (shared, added) else { return Ok(None) };
            if shared > term.len() {
                return Ok(None);
            }
            term.truncate(shared);
            term.extend_from_slice(added);
            let is_it =
                if self.is_prefix { term.starts_with(self.word) } else { term == self.word };
            if !is_it {
                if term.as_slice() > self.word {
                    return Ok(Some(Next::Nothing));
                }
                continue;
            }
            self.is_inside = true;
            if !self.entries(bytes, true, next_word.is_none(), each)? {
                return Ok(None);
            }
            if next_word.is_none() {
                return Ok(Some(Next::Page));
            }
            self.is_inside = false;
            if !self.is_prefix {
                return Ok(Some(Next::Nothing));
            }
        }
        // A single word is on the page where it is looked for, or nowhere.
        Ok(Some(if self.is_prefix { Next::Page } else { Next::Nothing }))
    }

    /// Reads what the page before did not have room for. False if the page makes no sense.
    fn go_on(
        &mut self,
        page: &[u8],
        layout: &Layout,
        end: usize,
        may_be_cut: bool,
        each: &mut impl Each,
    ) -> Result<bool> {
        if let Some((mut positions, missing)) = self.cut.take() {
            let here = page.get(4..end).unwrap_or_default();
            let taken = here.get(..missing).unwrap_or(here);
            positions.extend_from_slice(taken);
            if taken.len() < missing {
                self.cut = Some((positions, missing - taken.len()));
                return Ok(may_be_cut);
            }
            each(self.entry, &positions)?;
        }
        if layout.first_entry == 0 || layout.first_entry >= end {
            return Ok(true);
        }
        match page.get(layout.first_entry..end) {
            Some(bytes) => self.entries(Bytes::new(bytes), true, may_be_cut, each),
            None => Ok(false),
        }
    }

    /// Reads entries up to the end of the bytes. The number of the first one is written out, those
    /// after it as the difference. False if they make no sense.
    fn entries(
        &mut self,
        mut bytes: Bytes<'_>,
        mut is_first: bool,
        may_be_cut: bool,
        each: &mut impl Each,
    ) -> Result<bool> {
        while !bytes.is_empty() {
            let (Some(number), Some(size)) = (bytes.number(), bytes.size()) else {
                return Ok(false);
            };
            self.entry = match is_first {
                true => number.cast_signed(),
                false => self.entry.wrapping_add(number.cast_signed()),
            };
            is_first = false;
            // The lowest bit says that the entry was deleted, in indexes of another kind than ours.
            let (length, is_deleted) = (size / 2, size % 2 == 1);
            if is_deleted {
                return Ok(false);
            }
            match bytes.take(length) {
                Some(positions) => each(self.entry, positions)?,
                None => {
                    let left = bytes.len();
                    let Some(positions) = bytes.take(left) else { return Ok(false) };
                    self.cut = Some((positions.to_vec(), length - left));
                    return Ok(may_be_cut);
                }
            }
        }
        Ok(true)
    }
}

/// Where things are in a page.
struct Layout {
    /// Where the first entry number stands that belongs to a word of an earlier page; 0: none does.
    first_entry: usize,
    /// Where words and entries end and the offsets of the words begin.
    end: usize,
}

impl Layout {
    fn of(page: &[u8]) -> Option<Layout> {
        let &[a, b, c, d, ..] = page else { return None };
        let layout = Layout {
            first_entry: usize::from(u16::from_be_bytes([a, b])),
            end: usize::from(u16::from_be_bytes([c, d])),
        };
        (layout.end >= 4 && layout.end <= page.len()).then_some(layout)
    }
}

/// What to say of an index that is not what FTS5 writes.
pub(super) fn unreadable() -> Error {
    Error::Index { why: "its pages make no sense".to_owned() }
}
