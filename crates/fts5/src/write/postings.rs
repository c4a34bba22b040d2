//! Builds the sorted posting lists of a batch of documents, on any thread.
//!
//! While documents come in, only (term number, position) pairs are recorded. At the end the terms
//! are sorted, and then the pairs by a counting sort, which uses less memory than one growing list
//! per term.

use foldhash::fast::RandomState;
use std::hash::BuildHasher;

use crate::table::COLUMNS;
use crate::tokenizer::Tokenizer;
use crate::varint;

/// Number of tokens in each column of a row, as `search_docsize` stores it.
pub(super) type Sizes = [u32; COLUMNS];

/// The number of a document within one [`PostingsBuilder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocNumber(u32);

impl DocNumber {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Collects documents and turns them into [`SortedPostings`].
#[derive(Debug, Default)]
pub struct PostingsBuilder {
    tokenizer: Tokenizer,
    terms: Terms,
    /// Every occurrence in order of arrival: the term number in the upper half, column and position
    /// in the lower half.
    occurrences: Vec<u64>,
    /// The postings in the order of terms: the document number in the upper half.
    sorted: Vec<u64>,
    sizes: Vec<Sizes>,
}

/// Shift of the upper half: a term or document number.
const UPPER_SHIFT: u32 = 32;
/// Shift of the column; the position is below it. A document may have 2^28 tokens per column.
const COLUMN_SHIFT: u32 = 28;
/// Mask of column and position.
const LOWER_MASK: u64 = (1 << UPPER_SHIFT) - 1;

impl PostingsBuilder {
    /// Adds a document: the text of each column.
    pub fn add(&mut self, texts: [&str; COLUMNS]) -> DocNumber {
        let number = u32::try_from(self.sizes.len()).unwrap_or(u32::MAX);
        let mut sizes = Sizes::default();
        for (column, (text, size)) in texts.into_iter().zip(&mut sizes).enumerate() {
            let mut place = (column as u64) << COLUMN_SHIFT;
            let first = place;
            self.tokenizer.each(text, |term| {
                self.occurrences.push(u64::from(self.terms.number(term)) << UPPER_SHIFT | place);
                place += 1;
            });
            *size = (place - first) as u32;
        }
        self.sizes.push(sizes);
        DocNumber(number)
    }

    /// Returns about how many bytes of memory it uses.
    pub fn weight(&self) -> usize {
        self.occurrences.len() * 8
    }

    /// Sorts what was added and starts over, with the same buffers.
    pub fn finish(&mut self) -> SortedPostings {
        let order = self.terms.in_order();
        // The place of the next occurrence of each term in the sorted list.
        let mut next = vec![0_u32; order.len()];
        let mut end = 0_u32;
        for (_, number) in &order {
            let number = *number as usize;
            if let (Some(next), Some(term)) = (next.get_mut(number), self.terms.list.get(number)) {
                *next = end;
                end += term.count;
            }
        }
        self.sorted.resize(self.occurrences.len(), 0);
        let mut occurrences = self.occurrences.iter();
        for (document, sizes) in self.sizes.iter().enumerate() {
            let document = (document as u64) << UPPER_SHIFT;
            for occurrence in occurrences.by_ref().take(sizes.iter().sum::<u32>() as usize) {
                let Some(next) = next.get_mut((occurrence >> UPPER_SHIFT) as usize) else {
                    continue;
                };
                if let Some(slot) = self.sorted.get_mut(*next as usize) {
                    *slot = document | occurrence & LOWER_MASK;
                }
                *next += 1;
            }
        }
        let mut postings = SortedPostings {
            terms: Vec::with_capacity(self.terms.bytes.len()),
            doclists: Vec::with_capacity(self.occurrences.len() * 5 / 2),
            ends: Vec::with_capacity(order.len()),
            sizes: std::mem::take(&mut self.sizes),
        };
        let mut sorted = self.sorted.as_slice();
        for (_, number) in &order {
            let Some(term) = self.terms.list.get(*number as usize) else { continue };
            postings.terms.extend_from_slice(self.terms.bytes(term));
            let (occurrences, others) =
                sorted.split_at_checked(term.count as usize).unwrap_or((sorted, &[]));
            encode(occurrences, &mut postings.doclists);
            sorted = others;
            postings.ends.push((postings.terms.len() as u32, postings.doclists.len() as u32));
        }
        self.terms.clear();
        self.occurrences.clear();
        postings
    }
}

/// Appends the doclist of one term as FTS5 encodes it, with document numbers instead of rowids.
fn encode(occurrences: &[u64], list: &mut Vec<u8>) {
    let mut last_document = 0;
    let mut rest = occurrences;
    while let Some(first) = rest.first() {
        let document = first >> UPPER_SHIFT;
        varint::push(list, document - last_document);
        last_document = document;
        let size_at = list.len();
        list.push(0);
        let (mut column, mut position) = (0, 0);
        while let Some((occurrence, others)) = rest.split_first()
            && occurrence >> UPPER_SHIFT == document
        {
            let here = occurrence & LOWER_MASK;
            let (its_column, its_position) =
                (here >> COLUMN_SHIFT, here & ((1 << COLUMN_SHIFT) - 1));
            if its_column != column {
                list.push(1);
                list.push(its_column as u8);
                (column, position) = (its_column, 0);
            }
            varint::push(list, its_position - position + 2);
            position = its_position;
            rest = others;
        }
        let size = (list.len() - size_at - 1) as u64;
        match list.get_mut(size_at) {
            Some(slot) if size < 64 => *slot = (size as u8) * 2,
            _ => {
                let mut long = Vec::new();
                varint::push(&mut long, size * 2);
                list.splice(size_at..=size_at, long);
            }
        }
    }
}

/// The terms of a batch in order, each with its doclist.
#[derive(Debug, Default)]
pub struct SortedPostings {
    terms: Vec<u8>,
    doclists: Vec<u8>,
    /// End of each term in `terms`, and of its doclist in `doclists`.
    ends: Vec<(u32, u32)>,
    pub(super) sizes: Vec<Sizes>,
}

impl SortedPostings {
    /// Returns about how many bytes of memory it uses.
    pub(super) fn weight(&self) -> usize {
        self.terms.len()
            + self.doclists.len()
            + self.ends.len() * size_of::<(u32, u32)>()
            + self.sizes.len() * size_of::<Sizes>()
    }

    /// Returns the `rank`-th term and its doclist.
    pub(super) fn term(&self, rank: usize) -> Option<(&[u8], &[u8])> {
        let (term_end, list_end) = self.ends.get(rank)?;
        let (term, list) = match rank.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => (0, 0),
        };
        let term = self.terms.get(term as usize..*term_end as usize)?;
        Some((term, self.doclists.get(list as usize..*list_end as usize)?))
    }
}

/// Distinct terms, numbered in order of arrival: a hash table with linear probing.
#[derive(Debug)]
struct Terms {
    state: RandomState,
    seeds: [u64; 2],
    bytes: Vec<u8>,
    list: Vec<Term>,
    /// Upper half of the hash, and the term's number plus one. 0 is a free slot; more than half of
    /// the slots are free.
    slots: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Term {
    /// The first eight bytes, which nearly always decide a comparison.
    first: u64,
    start: u32,
    end: u32,
    count: u32,
}

impl Default for Terms {
    fn default() -> Terms {
        // Random seeds, so that no input can make all terms collide.
        let state = RandomState::default();
        let seeds = [state.hash_one(0_u8), state.hash_one(1_u8) | 1];
        Terms { state, seeds, bytes: Vec::new(), list: Vec::new(), slots: Vec::new() }
    }
}

/// Returns the first eight bytes of a term as a number that sorts like the term. Terms hold no NUL.
#[inline]
pub(super) fn first_bytes(term: &[u8]) -> u64 {
    match (term.first_chunk::<8>(), term.first_chunk::<4>(), term.last_chunk::<4>()) {
        (Some(first), ..) => u64::from_be_bytes(*first),
        // Where the two chunks overlap, their bits are the same.
        (None, Some(first), Some(last)) => {
            let (first, last) = (u32::from_be_bytes(*first), u32::from_be_bytes(*last));
            u64::from(first) << 32 | u64::from(last) << (8 * (8 - term.len()))
        }
        _ => term.iter().rev().fold(0, |later, byte| later >> 8 | u64::from(*byte) << 56),
    }
}

impl Terms {
    /// Counts an occurrence of a term and returns the term's number.
    fn number(&mut self, term: &[u8]) -> u32 {
        if self.list.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let first = first_bytes(term);
        let rest = term.get(8..).unwrap_or_default();
        let hash = self.hash(first, rest);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while let Some(slot) = self.slots.get(at).copied()
            && slot != 0
        {
            let number = (slot as u32) - 1;
            if slot >> 32 == hash >> 32
                && let Some(known) = self.list.get_mut(number as usize)
                && known.first == first
                && (known.end - known.start) as usize == term.len()
                && (rest.is_empty()
                    || self.bytes.get(known.start as usize + 8..known.end as usize) == Some(rest))
            {
                known.count += 1;
                return number;
            }
            at = (at + 1) & mask;
        }
        let number = self.list.len() as u32;
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(term);
        self.list.push(Term { first, start, end: self.bytes.len() as u32, count: 1 });
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = hash >> 32 << 32 | u64::from(number + 1);
        }
        number
    }

    fn hash(&self, first: u64, rest: &[u8]) -> u64 {
        let rest = if rest.is_empty() { 0 } else { self.state.hash_one(rest) };
        let product = u128::from(first ^ rest ^ self.seeds[0]) * u128::from(self.seeds[1]);
        product as u64 ^ (product >> 64) as u64
    }

    fn bytes(&self, term: &Term) -> &[u8] {
        self.bytes.get(term.start as usize..term.end as usize).unwrap_or_default()
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(1 << 12);
        self.slots.clear();
        self.slots.resize(size, 0);
        for (number, term) in self.list.iter().enumerate() {
            let hash = self.hash(term.first, self.bytes(term).get(8..).unwrap_or_default());
            let mut at = hash as usize & (size - 1);
            while self.slots.get(at).is_some_and(|slot| *slot != 0) {
                at = (at + 1) & (size - 1);
            }
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = hash >> 32 << 32 | (number as u64 + 1);
            }
        }
    }

    /// Returns the first bytes and the numbers of all terms, in the order of the terms.
    fn in_order(&self) -> Vec<(u64, u32)> {
        let mut order: Vec<(u64, u32)> =
            self.list.iter().zip(0_u32..).map(|(term, number)| (term.first, number)).collect();
        let bytes = |number: u32| self.list.get(number as usize).map(|term| self.bytes(term));
        order.sort_unstable_by(|one, other| {
            one.0.cmp(&other.0).then_with(|| bytes(one.1).cmp(&bytes(other.1)))
        });
        order
    }

    /// Removes all terms and keeps the buffers.
    fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
        self.slots.fill(0);
    }
}
