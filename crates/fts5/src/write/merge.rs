//! Merges the sorted postings of several batches into the pages of one segment.
//!
//! Never touches the database.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::postings::{DocNumber, Sizes, SortedPostings, first_bytes};
use super::segment::{SegmentPages, SegmentWriter};
use crate::varint::Bytes;
use crate::{Error, Result, RowId};

/// The postings of one batch, and the rowids of its documents.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) postings: SortedPostings,
    /// Rowid of each document, positive and ascending; 0 if it is not indexed. Zero instead of an
    /// `Option` halves the memory, which is read for every posting.
    rowids: Vec<i64>,
}

impl Batch {
    /// Sets the rowid of a document.
    pub(super) fn set_rowid(&mut self, number: DocNumber, rowid: RowId) {
        if self.rowids.len() <= number.index() {
            self.rowids.resize(number.index() + 1, 0);
        }
        if let Some(slot) = self.rowids.get_mut(number.index()) {
            *slot = rowid.0;
        }
    }

    /// Returns about how many bytes of memory it uses.
    pub(super) fn weight(&self) -> usize {
        self.postings.weight() + self.rowids.len() * size_of::<i64>()
    }

    /// Returns whether none of its documents is indexed.
    pub(super) fn is_empty(&self) -> bool {
        self.rowids.iter().all(|rowid| *rowid == 0)
    }

    /// Returns the documents that are indexed, with their numbers of tokens.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (RowId, &Sizes)> {
        let all = self.rowids.iter().zip(&self.postings.sizes);
        all.filter(|(rowid, _)| **rowid != 0).map(|(rowid, sizes)| (RowId(*rowid), sizes))
    }
}

/// The next term of a batch. The order is reversed, so that the least term is on top of a max-heap.
struct Head<'p> {
    /// The term's first eight bytes, which nearly always decide the order.
    first: u64,
    term: &'p [u8],
    batch: usize,
    rank: usize,
    doclist: &'p [u8],
}

impl Head<'_> {
    fn key(&self) -> Reverse<(u64, &[u8], usize)> {
        Reverse((self.first, self.term, self.batch))
    }
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Head<'_> {}

fn head(batches: &[Batch], batch: usize, rank: usize) -> Option<Head<'_>> {
    let (term, doclist) = batches.get(batch)?.postings.term(rank)?;
    Some(Head { first: first_bytes(term), term, batch, rank, doclist })
}

/// Merges batches into leaf pages of `page_size` bytes. The batches must be in the order of their
/// rowids.
pub(super) fn merge(batches: &[Batch], page_size: usize) -> Result<SegmentPages> {
    let mut segment = SegmentWriter::new(page_size);
    let heads = (0..batches.len()).filter_map(|batch| head(batches, batch, 0));
    let mut heap: BinaryHeap<Head<'_>> = heads.collect();
    let mut term: Option<&[u8]> = None;
    let mut last = 0;
    while let Some(mut least) = heap.peek_mut() {
        let Some(rowids) = batches.get(least.batch).map(|batch| &batch.rowids) else { break };
        let mut bytes = Bytes::new(least.doclist);
        let mut number = 0;
        while !bytes.is_empty() {
            let mut next = || {
                number += bytes.size()?;
                let size = bytes.size()? / 2;
                Some((rowids.get(number).copied().unwrap_or(0), bytes.take(size)?))
            };
            let (rowid, poslist) =
                next().ok_or_else(|| malformed("a doclist in memory is cut off"))?;
            if rowid == 0 {
                continue;
            }
            if term != Some(least.term) {
                segment.begin_term(least.term);
                term = Some(least.term);
                last = 0;
            }
            if rowid <= last {
                return Err(malformed("rowids to be indexed are not in ascending order"));
            }
            last = rowid;
            segment.add_row(RowId(rowid), poslist);
        }
        match head(batches, least.batch, least.rank + 1) {
            Some(next) => *least = next,
            None => _ = std::collections::binary_heap::PeekMut::pop(least),
        }
    }
    Ok(segment.finish())
}

fn malformed(why: &str) -> Error {
    Error::Index { why: why.to_owned() }
}
