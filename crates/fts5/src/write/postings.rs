//! The words of some entries, sorted: what a reader hands to the writer instead of text to index.
//!
//! While entries come in, every occurrence is only noted down: which word, and where. At the end the
//! words are put in order, and the occurrences with them, by counting; that touches less memory than
//! a list that grows for each word would.

use foldhash::fast::RandomState;
use std::hash::BuildHasher;

use crate::tokens::Tokens;
use crate::varint;

/// Columns of the index.
pub(super) const COLUMNS: usize = 4;

/// How many words an entry has, column by column.
pub(super) type Sizes = [u32; COLUMNS];

/// An entry among those of one list, by order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number(u32);

impl Number {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Takes in entries.
#[derive(Debug, Default)]
pub struct Gatherer {
    tokens: Tokens,
    words: Words,
    /// Every occurrence, in order: the word above, and below it the column and the position.
    occurrences: Vec<u64>,
    /// The same by the order of words: the entry above, and below it the column and the position.
    sorted: Vec<u64>,
    sizes: Vec<Sizes>,
}

/// What stands above column and position.
const ABOVE: u32 = 32;
/// The column stands above the position: a mebibyte of text per entry has fewer words than that.
const COLUMN: u32 = 28;
const BELOW: u64 = (1 << ABOVE) - 1;

impl Gatherer {
    /// Takes in the texts of an entry, column by column.
    pub fn add(&mut self, texts: [&str; COLUMNS]) -> Number {
        let number = u32::try_from(self.sizes.len()).unwrap_or(u32::MAX);
        let mut sizes = Sizes::default();
        for (column, (text, size)) in texts.into_iter().zip(&mut sizes).enumerate() {
            let mut place = (column as u64) << COLUMN;
            let first = place;
            self.tokens.each(text, |word| {
                self.occurrences.push(u64::from(self.words.number(word)) << ABOVE | place);
                place += 1;
            });
            *size = (place - first) as u32;
        }
        self.sizes.push(sizes);
        Number(number)
    }

    /// About what it takes in memory.
    pub fn weight(&self) -> usize {
        self.occurrences.len() * 8
    }

    /// Puts everything in order, and begins anew.
    pub fn finish(&mut self) -> Postings {
        let order = self.words.in_order();
        // Where the places of each word begin, in the order of the words.
        let mut next = vec![0_u32; order.len()];
        let mut end = 0_u32;
        for (_, number) in &order {
            let number = *number as usize;
            if let (Some(next), Some(word)) = (next.get_mut(number), self.words.list.get(number)) {
                *next = end;
                end += word.count;
            }
        }
        self.sorted.resize(self.occurrences.len(), 0);
        let mut occurrences = self.occurrences.iter();
        for (entry, sizes) in self.sizes.iter().enumerate() {
            let entry = (entry as u64) << ABOVE;
            for occurrence in occurrences.by_ref().take(sizes.iter().sum::<u32>() as usize) {
                let Some(next) = next.get_mut((occurrence >> ABOVE) as usize) else { continue };
                if let Some(slot) = self.sorted.get_mut(*next as usize) {
                    *slot = entry | occurrence & BELOW;
                }
                *next += 1;
            }
        }
        let mut postings = Postings {
            words: Vec::with_capacity(self.words.bytes.len()),
            lists: Vec::with_capacity(self.occurrences.len() * 5 / 2),
            ends: Vec::with_capacity(order.len()),
            sizes: std::mem::take(&mut self.sizes),
        };
        let mut sorted = self.sorted.as_slice();
        for (_, number) in &order {
            let Some(word) = self.words.list.get(*number as usize) else { continue };
            postings.words.extend_from_slice(self.words.bytes(word));
            let (places, others) =
                sorted.split_at_checked(word.count as usize).unwrap_or((sorted, &[]));
            encode(places, &mut postings.lists);
            sorted = others;
            postings.ends.push((postings.words.len() as u32, postings.lists.len() as u32));
        }
        self.words.clear();
        self.occurrences.clear();
        postings
    }
}

/// Writes the places of one word down as FTS5 does, except that entries have their numbers here.
fn encode(places: &[u64], list: &mut Vec<u8>) {
    let mut last_entry = 0;
    let mut rest = places;
    while let Some(first) = rest.first() {
        let entry = first >> ABOVE;
        varint::push(list, entry - last_entry);
        last_entry = entry;
        let size_at = list.len();
        list.push(0);
        let (mut column, mut position) = (0, 0);
        while let Some((place, others)) = rest.split_first()
            && place >> ABOVE == entry
        {
            let here = place & BELOW;
            let (its_column, its_position) = (here >> COLUMN, here & ((1 << COLUMN) - 1));
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

/// The words of some entries in order, each with its entries and their positions.
#[derive(Debug, Default)]
pub struct Postings {
    words: Vec<u8>,
    lists: Vec<u8>,
    /// Where each word, and its list, ends.
    ends: Vec<(u32, u32)>,
    pub(super) sizes: Vec<Sizes>,
}

impl Postings {
    /// About what it takes in memory.
    pub(super) fn weight(&self) -> usize {
        self.words.len()
            + self.lists.len()
            + self.ends.len() * size_of::<(u32, u32)>()
            + self.sizes.len() * size_of::<Sizes>()
    }

    /// The word with that rank, and its list.
    pub(super) fn word(&self, rank: usize) -> Option<(&[u8], &[u8])> {
        let (word_end, list_end) = self.ends.get(rank)?;
        let (word, list) = match rank.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => (0, 0),
        };
        let word = self.words.get(word as usize..*word_end as usize)?;
        Some((word, self.lists.get(list as usize..*list_end as usize)?))
    }
}

/// The different words, numbered as they come.
#[derive(Debug)]
struct Words {
    state: RandomState,
    seeds: [u64; 2],
    bytes: Vec<u8>,
    list: Vec<Word>,
    /// Half of the hash, and the number plus one; 0: free. Always more than half of them are.
    slots: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Word {
    /// Its first eight bytes, which nearly always tell it from others.
    first: u64,
    start: u32,
    end: u32,
    count: u32,
}

impl Default for Words {
    fn default() -> Words {
        // Nobody must be able to write words that fall into the same slot.
        let state = RandomState::default();
        let seeds = [state.hash_one(0_u8), state.hash_one(1_u8) | 1];
        Words { state, seeds, bytes: Vec::new(), list: Vec::new(), slots: Vec::new() }
    }
}

/// The first eight bytes of a word, in the order of words. There are no zeros in a word.
#[inline]
pub(super) fn first_bytes(word: &[u8]) -> u64 {
    match (word.first_chunk::<8>(), word.first_chunk::<4>(), word.last_chunk::<4>()) {
        (Some(first), ..) => u64::from_be_bytes(*first),
        // Where the two overlap they are the same.
        (None, Some(first), Some(last)) => {
            let (first, last) = (u32::from_be_bytes(*first), u32::from_be_bytes(*last));
            u64::from(first) << 32 | u64::from(last) << (8 * (8 - word.len()))
        }
        _ => word.iter().rev().fold(0, |later, byte| later >> 8 | u64::from(*byte) << 56),
    }
}

impl Words {
    /// The number of a word that occurs once more.
    fn number(&mut self, word: &[u8]) -> u32 {
        if self.list.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let first = first_bytes(word);
        let rest = word.get(8..).unwrap_or_default();
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
                && (known.end - known.start) as usize == word.len()
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
        self.bytes.extend_from_slice(word);
        self.list.push(Word { first, start, end: self.bytes.len() as u32, count: 1 });
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

    fn bytes(&self, word: &Word) -> &[u8] {
        self.bytes.get(word.start as usize..word.end as usize).unwrap_or_default()
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(1 << 12);
        self.slots.clear();
        self.slots.resize(size, 0);
        for (number, word) in self.list.iter().enumerate() {
            let hash = self.hash(word.first, self.bytes(word).get(8..).unwrap_or_default());
            let mut at = hash as usize & (size - 1);
            while self.slots.get(at).is_some_and(|slot| *slot != 0) {
                at = (at + 1) & (size - 1);
            }
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = hash >> 32 << 32 | (number as u64 + 1);
            }
        }
    }

    /// The first bytes and the numbers of the words, in the order of the words.
    fn in_order(&self) -> Vec<(u64, u32)> {
        let mut order: Vec<(u64, u32)> =
            self.list.iter().zip(0_u32..).map(|(word, number)| (word.first, number)).collect();
        let bytes = |number: u32| self.list.get(number as usize).map(|word| self.bytes(word));
        order.sort_unstable_by(|one, other| {
            one.0.cmp(&other.0).then_with(|| bytes(one.1).cmp(&bytes(other.1)))
        });
        order
    }

    /// Forgets them, but keeps the memory.
    fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
        self.slots.fill(0);
    }
}
