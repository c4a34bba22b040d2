//! The words of some entries, sorted: what a reader hands to the writer instead of text to index.
//!
//! While entries come in, every occurrence is only noted down: which word, and where. At the end the
//! words are put in order, and the occurrences with them, by counting; that touches less memory than
//! a list that grows for each word would.

use foldhash::fast::RandomState;
use std::hash::BuildHasher;

use super::tokens::Tokens;
use crate::varint;

/// Columns of the index.
pub(super) const COLUMNS: usize = 4;

/// How many words an entry has, column by column.
pub(super) type Sizes = [u32; COLUMNS];

/// An entry among those of one list, by order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number(u32);

impl Number {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Takes in entries.
#[derive(Debug, Default)]
pub(crate) struct Gatherer {
    tokens: Tokens,
    words: Words,
    /// Which word, …
    occurrences: Vec<u32>,
    /// … and where: entry, column and position.
    places: Vec<u64>,
    /// The places again, by the order of their words.
    sorted: Vec<u64>,
    sizes: Vec<Sizes>,
}

/// Below the entry's number: the column, and below that the position. A mebibyte of text per entry
/// has fewer words than that.
const ENTRY: u32 = 32;
const COLUMN: u32 = 28;

impl Gatherer {
    /// Takes in the texts of an entry, column by column.
    pub(crate) fn add(&mut self, texts: [&str; COLUMNS]) -> Number {
        let number = u32::try_from(self.sizes.len()).unwrap_or(u32::MAX);
        let mut sizes = Sizes::default();
        for (column, (text, size)) in texts.into_iter().zip(&mut sizes).enumerate() {
            let mut place = u64::from(number) << ENTRY | (column as u64) << COLUMN;
            let first = place;
            self.tokens.each(text, |word| {
                self.occurrences.push(self.words.number(word));
                self.places.push(place);
                place += 1;
            });
            *size = (place - first) as u32;
        }
        self.sizes.push(sizes);
        Number(number)
    }

    /// About what it takes in memory.
    pub(crate) fn weight(&self) -> usize {
        self.occurrences.len() * 4
    }

    /// Puts everything in order, and begins anew.
    pub(crate) fn finish(&mut self) -> Postings {
        let order = self.words.in_order();
        // Where the places of each word begin, in the order of the words.
        let mut next = vec![0_u32; order.len()];
        let mut ends = Vec::with_capacity(order.len());
        let mut end = 0_u32;
        for word in &order {
            let word = *word as usize;
            if let (Some(next), Some(count)) = (next.get_mut(word), self.words.counts.get(word)) {
                *next = end;
                end += count;
            }
            ends.push(end);
        }
        self.sorted.resize(self.places.len(), 0);
        for (word, place) in self.occurrences.iter().zip(&self.places) {
            if let Some(next) = next.get_mut(*word as usize) {
                if let Some(slot) = self.sorted.get_mut(*next as usize) {
                    *slot = *place;
                }
                *next += 1;
            }
        }
        let mut postings = Postings {
            words: Vec::with_capacity(self.words.bytes.len()),
            lists: Vec::with_capacity(self.places.len() * 5 / 2),
            ends: Vec::with_capacity(order.len()),
            sizes: std::mem::take(&mut self.sizes),
        };
        let mut begin = 0;
        for (word, end) in order.iter().zip(&ends) {
            postings.words.extend_from_slice(self.words.word(*word));
            let end = *end as usize;
            encode(self.sorted.get(begin..end).unwrap_or_default(), &mut postings.lists);
            begin = end;
            postings.ends.push((postings.words.len() as u32, postings.lists.len() as u32));
        }
        self.words.clear();
        self.occurrences.clear();
        self.places.clear();
        postings
    }
}

/// Writes the places of one word down as FTS5 does, except that entries have their numbers here.
fn encode(places: &[u64], list: &mut Vec<u8>) {
    let mut last_entry = 0;
    let mut rest = places;
    while let Some(first) = rest.first() {
        let entry = first >> ENTRY;
        varint::push(list, entry - last_entry);
        last_entry = entry;
        let size_at = list.len();
        list.push(0);
        let (mut column, mut position) = (0, 0);
        while let Some((place, others)) = rest.split_first()
            && place >> ENTRY == entry
        {
            let here = place & 0xFFFF_FFFF;
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
pub(crate) struct Postings {
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
#[derive(Debug, Default)]
struct Words {
    state: RandomState,
    bytes: Vec<u8>,
    ends: Vec<u32>,
    counts: Vec<u32>,
    /// Half of the hash, and the number plus one; 0: free. Always more than half of them are.
    slots: Vec<u64>,
}

impl Words {
    /// The number of a word that occurs once more.
    fn number(&mut self, word: &[u8]) -> u32 {
        if self.ends.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let hash = self.state.hash_one(word);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while let Some(slot) = self.slots.get(at).copied()
            && slot != 0
        {
            let number = (slot as u32) - 1;
            if slot >> 32 == hash >> 32 && self.word(number) == word {
                if let Some(count) = self.counts.get_mut(number as usize) {
                    *count += 1;
                }
                return number;
            }
            at = (at + 1) & mask;
        }
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len() as u32);
        self.counts.push(1);
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = hash >> 32 << 32 | u64::from(number + 1);
        }
        number
    }

    fn word(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before));
        let start = start.map_or(0, |start| *start as usize);
        let end = self.ends.get(number).map_or(0, |end| *end as usize);
        self.bytes.get(start..end).unwrap_or_default()
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(1 << 12);
        self.slots.clear();
        self.slots.resize(size, 0);
        for number in 0..self.ends.len() as u32 {
            let hash = self.state.hash_one(self.word(number));
            let mut at = hash as usize & (size - 1);
            while self.slots.get(at).is_some_and(|slot| *slot != 0) {
                at = (at + 1) & (size - 1);
            }
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = hash >> 32 << 32 | u64::from(number + 1);
            }
        }
    }

    /// The numbers of the words, in the order of the words.
    fn in_order(&self) -> Vec<u32> {
        // The first eight bytes nearly always decide.
        let mut keys: Vec<(u64, u32)> = (0..self.ends.len() as u32)
            .map(|number| {
                let word = self.word(number);
                let mut first = [0; 8];
                let length = word.len().min(8);
                if let (Some(to), Some(from)) = (first.get_mut(..length), word.get(..length)) {
                    to.copy_from_slice(from);
                }
                (u64::from_be_bytes(first), number)
            })
            .collect();
        keys.sort_unstable_by(|one, other| {
            one.0.cmp(&other.0).then_with(|| self.word(one.1).cmp(self.word(other.1)))
        });
        keys.into_iter().map(|(_, number)| number).collect()
    }

    /// Forgets them, but keeps the memory.
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.counts.clear();
        self.slots.fill(0);
    }
}
