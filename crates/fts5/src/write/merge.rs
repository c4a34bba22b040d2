//! Merges the sorted lists of several readers into one segment.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::postings::{Number, Postings, Sizes, first_bytes};
use super::segment::{Pages, Segment};
use crate::varint::Bytes;
use crate::{Error, Result, RowId};

/// Some entries, and which of them the ledger keeps under which number.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) postings: Postings,
    /// 0: not kept. Rising, otherwise.
    ids: Vec<i64>,
}

impl Entries {
    pub(super) fn name(&mut self, number: Number, id: RowId) {
        if self.ids.len() <= number.index() {
            self.ids.resize(number.index() + 1, 0);
        }
        if let Some(slot) = self.ids.get_mut(number.index()) {
            *slot = id.0;
        }
    }

    /// About what it takes in memory.
    pub(super) fn weight(&self) -> usize {
        self.postings.weight() + self.ids.len() * size_of::<i64>()
    }

    /// True if none is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.ids.iter().all(|id| *id == 0)
    }

    /// Those that are kept, and how many words they have.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (i64, &Sizes)> {
        self.ids.iter().copied().zip(&self.postings.sizes).filter(|(id, _)| *id != 0)
    }
}

/// The next word of a list. The smallest is the greatest in a heap.
struct Head<'p> {
    /// The word's first eight bytes, which nearly always decide.
    first: u64,
    word: &'p [u8],
    list: usize,
    rank: usize,
    entries: &'p [u8],
}

impl Head<'_> {
    fn key(&self) -> Reverse<(u64, &[u8], usize)> {
        Reverse((self.first, self.word, self.list))
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

fn head(lists: &[Entries], list: usize, rank: usize) -> Option<Head<'_>> {
    let (word, entries) = lists.get(list)?.postings.word(rank)?;
    Some(Head { first: first_bytes(word), word, list, rank, entries })
}

/// All words of all lists, which are in the order of their entries, in pages of `full` bytes.
pub(super) fn merge(lists: &[Entries], full: usize) -> Result<Pages> {
    let mut segment = Segment::new(full);
    let heads = (0..lists.len()).filter_map(|list| head(lists, list, 0));
    let mut heap: BinaryHeap<Head<'_>> = heads.collect();
    let mut word: Option<&[u8]> = None;
    let mut last = 0;
    while let Some(mut least) = heap.peek_mut() {
        let Some(ids) = lists.get(least.list).map(|entries| &entries.ids) else { break };
        let mut bytes = Bytes::new(least.entries);
        let mut number = 0;
        while !bytes.is_empty() {
            let mut next = || {
                number += bytes.size()?;
                let size = bytes.size()? / 2;
                Some((ids.get(number).copied().unwrap_or(0), bytes.take(size)?))
            };
            let (id, positions) = next().ok_or_else(|| odd("a list of words is cut"))?;
            if id == 0 {
                continue;
            }
            if word != Some(least.word) {
                segment.word(least.word);
                word = Some(least.word);
                last = 0;
            }
            if id <= last {
                return Err(odd("entries are not in order"));
            }
            last = id;
            segment.entry(id, positions);
        }
        match head(lists, least.list, least.rank + 1) {
            Some(next) => *least = next,
            None => _ = std::collections::binary_heap::PeekMut::pop(least),
        }
    }
    Ok(segment.finish())
}

fn odd(why: &str) -> Error {
    Error::Index { why: why.to_owned() }
}
