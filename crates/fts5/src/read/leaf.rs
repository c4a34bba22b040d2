//! Reads the leaf pages of one segment and finds the doclist of a term, or of all terms with a
//! prefix.
//!
//! A page has a header (offset of the first rowid that belongs to a term of an earlier page; offset
//! where the terms end), then terms with their doclists, then the offsets of the terms. A doclist
//! that does not fit continues on the next page, even in the middle of a poslist. The comment at
//! the head of `fts5_index.c` describes the format.

use crate::table::malformed;
use crate::varint::Bytes;
use crate::{Result, RowId};

/// A function that is called with each row of a doclist and its poslist. It is a trait so that the
/// compiler inlines it: a frequent term has hundreds of thousands of rows.
pub(super) trait Visit: FnMut(RowId, &[u8]) -> Result<()> {}

impl<F: FnMut(RowId, &[u8]) -> Result<()>> Visit for F {}

/// A walk over consecutive leaf pages.
pub(super) struct TermWalk<'w> {
    term: &'w [u8],
    is_prefix: bool,
    /// True while the doclist of a matching term continues.
    is_inside: bool,
    rowid: i64,
    /// The beginning of a poslist that continues on the next page, and the number of missing bytes.
    cut: Option<(Vec<u8>, usize)>,
}

/// The next step of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Page,
    Nothing,
}

impl<'w> TermWalk<'w> {
    /// Starts a walk for `term`, or for all terms that begin with it.
    pub(super) fn new(term: &'w [u8], is_prefix: bool) -> TermWalk<'w> {
        TermWalk { term, is_prefix, is_inside: false, rowid: 0, cut: None }
    }

    /// Reads the next page.
    pub(super) fn page(&mut self, page: &[u8], visit: &mut impl Visit) -> Result<Next> {
        self.try_page(page, visit)?.ok_or_else(malformed)
    }

    fn try_page(&mut self, page: &[u8], visit: &mut impl Visit) -> Result<Option<Next>> {
        let Some(layout) = Layout::of(page) else { return Ok(None) };
        let mut offsets = Bytes::new(page.get(layout.end..).unwrap_or_default());
        let mut next_term = match offsets.is_empty() {
            true => None,
            false => offsets.size(),
        };
        if next_term.is_some_and(|at| at < 4 || at > layout.end) {
            return Ok(None);
        }
        if self.is_inside {
            let end = next_term.unwrap_or(layout.end);
            if !self.continue_doclist(page, &layout, end, next_term.is_none(), visit)? {
                return Ok(None);
            }
            if next_term.is_none() {
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
        while let Some(at) = next_term {
            next_term = match offsets.is_empty() {
                true => None,
                false => offsets.size().and_then(|delta| at.checked_add(delta)),
            };
            let end = next_term.unwrap_or(layout.end);
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
            let is_match =
                if self.is_prefix { term.starts_with(self.term) } else { term == self.term };
            if !is_match {
                if term.as_slice() > self.term {
                    return Ok(Some(Next::Nothing));
                }
                continue;
            }
            self.is_inside = true;
            if !self.doclist(bytes, next_term.is_none(), visit)? {
                return Ok(None);
            }
            if next_term.is_none() {
                return Ok(Some(Next::Page));
            }
            self.is_inside = false;
            if !self.is_prefix {
                return Ok(Some(Next::Nothing));
            }
        }
        // `search_idx` names the only page on which a single term can begin.
        Ok(Some(if self.is_prefix { Next::Page } else { Next::Nothing }))
    }

    /// Reads the rest of a doclist that began on an earlier page. Returns false if the page is
    /// malformed.
    fn continue_doclist(
        &mut self,
        page: &[u8],
        layout: &Layout,
        end: usize,
        may_be_cut: bool,
        visit: &mut impl Visit,
    ) -> Result<bool> {
        if let Some((mut poslist, missing)) = self.cut.take() {
            let here = page.get(4..end).unwrap_or_default();
            let taken = here.get(..missing).unwrap_or(here);
            poslist.extend_from_slice(taken);
            if taken.len() < missing {
                self.cut = Some((poslist, missing - taken.len()));
                return Ok(may_be_cut);
            }
            visit(RowId(self.rowid), &poslist)?;
        }
        if layout.first_rowid == 0 || layout.first_rowid >= end {
            return Ok(true);
        }
        match page.get(layout.first_rowid..end) {
            Some(bytes) => self.doclist(Bytes::new(bytes), may_be_cut, visit),
            None => Ok(false),
        }
    }

    /// Reads a doclist up to the end of the bytes. The first rowid is absolute, the others are
    /// differences. Returns false if it is malformed.
    fn doclist(
        &mut self,
        mut bytes: Bytes<'_>,
        may_be_cut: bool,
        visit: &mut impl Visit,
    ) -> Result<bool> {
        let mut is_first = true;
        while !bytes.is_empty() {
            let (Some(number), Some(size)) = (bytes.number(), bytes.size()) else {
                return Ok(false);
            };
            self.rowid = match is_first {
                true => number.cast_signed(),
                false => self.rowid.wrapping_add(number.cast_signed()),
            };
            is_first = false;
            // The lowest bit marks a deletion in tables without `contentless_delete`.
            let (length, is_deleted) = (size / 2, size % 2 == 1);
            if is_deleted {
                return Ok(false);
            }
            match bytes.take(length) {
                Some(poslist) => visit(RowId(self.rowid), poslist)?,
                None => {
                    let left = bytes.len();
                    let Some(poslist) = bytes.take(left) else { return Ok(false) };
                    self.cut = Some((poslist.to_vec(), length - left));
                    return Ok(may_be_cut);
                }
            }
        }
        Ok(true)
    }
}

/// The header of a leaf page.
pub(super) struct Layout {
    /// Offset of the first rowid that belongs to a term of an earlier page; 0 if there is none.
    first_rowid: usize,
    /// Offset where the doclists end and the offsets of the terms begin.
    pub(super) end: usize,
}

impl Layout {
    /// Reads the header.
    pub(super) fn of(page: &[u8]) -> Option<Layout> {
        let &[a, b, c, d, ..] = page else { return None };
        let layout = Layout {
            first_rowid: usize::from(u16::from_be_bytes([a, b])),
            end: usize::from(u16::from_be_bytes([c, d])),
        };
        (layout.end >= 4 && layout.end <= page.len()).then_some(layout)
    }
}
