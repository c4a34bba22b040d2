//! Reads FTS5's index directly: the entries of a word, with the positions in each.
//!
//! FTS5 itself ranks by asking, for each of hundreds of thousands of entries, how many words it
//! has, which is what takes its time. From the positions alone a bound for each entry's score
//! follows (`rank`), so that only a few entries have to be asked for; FTS5 hands those positions to
//! nobody but C code. Its tables are ordinary ones, though, and their format is documented and part
//! of SQLite's file format. They are only ever read here; tests hold every answer against FTS5's own.

mod pages;
mod poslist;
mod segments;

use rusqlite::{Connection, OptionalExtension};

use crate::set::EntrySet;
use crate::{Result, varint};
use pages::{Each, Next, Walk};
pub use poslist::Occurrences;
use segments::Segment;
pub use segments::Totals;
pub(crate) use segments::check_version;

/// The index as it is now. Stays true for as long as the read transaction of `conn` does.
pub struct Index<'c> {
    conn: &'c Connection,
    segments: Vec<Segment>,
    totals: Totals,
}

/// A word in one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posting {
    pub entry: i64,
    pub occurrences: Occurrences,
}

impl Posting {
    /// An entry that was not found by words.
    pub fn bare(entry: i64, columns: u8) -> Posting {
        Posting { entry, occurrences: Occurrences::new(0, 0, columns) }
    }

    /// Another phrase is in the same entry: in which columns, and what that says of its length.
    pub fn also(&mut self, other: &Posting) {
        let (one, other) = (self.occurrences, other.occurrences);
        self.occurrences = Occurrences::new(
            one.count(),
            one.at_least().max(other.at_least()),
            one.columns() | other.columns(),
        );
    }
}

/// Where a word stands in an entry, not looked into yet.
#[derive(Clone, Copy)]
pub struct Positions<'p> {
    bytes: &'p [u8],
    mask: u8,
}

impl<'p> Positions<'p> {
    /// Of the positions that are stored in `bytes`, those in the columns of `mask`.
    #[inline]
    pub fn of(bytes: &'p [u8], mask: u8) -> Positions<'p> {
        Positions { bytes, mask }
    }

    /// It stands there at most so often.
    #[inline]
    pub fn at_most(self) -> usize {
        poslist::at_most(self.bytes)
    }

    /// How often it does, and what ranking needs to know besides.
    pub fn occurrences(self) -> Result<Occurrences> {
        poslist::occurrences(self.bytes, self.mask).ok_or_else(pages::unreadable)
    }

    #[inline]
    fn are_any(self) -> Result<bool> {
        poslist::is_in(self.bytes, self.mask).ok_or_else(pages::unreadable)
    }
}

/// The entries of a phrase.
#[derive(Debug, Default)]
pub struct Postings {
    /// How many there are in all.
    pub hits: usize,
    pub list: Vec<Posting>,
}

/// A sorted list that is asked for one entry after the other, mostly in order.
struct Members<'m, T, F> {
    list: &'m [T],
    entry_of: F,
    at: usize,
}

impl<'m, T, F: Fn(&T) -> i64> Members<'m, T, F> {
    fn new(list: &'m [T], entry_of: F) -> Members<'m, T, F> {
        Members { list, entry_of, at: 0 }
    }

    fn contain(&mut self, entry: i64) -> bool {
        let before = self.at.checked_sub(1).and_then(|before| self.list.get(before));
        if before.is_some_and(|before| (self.entry_of)(before) >= entry) {
            self.at = 0;
        }
        let rest = self.list.get(self.at..).unwrap_or_default();
        self.at += skip(rest, |item| (self.entry_of)(item) < entry);
        self.list.get(self.at).is_some_and(|item| (self.entry_of)(item) == entry)
    }
}

/// How many items at the beginning of a list are `before`. Looks nearby first.
pub(crate) fn skip<T>(list: &[T], before: impl Fn(&T) -> bool) -> usize {
    let (mut low, mut step) = (0, 1);
    while list.get(low + step).is_some_and(&before) {
        low += step;
        step *= 2;
    }
    let near = list.get(low..(low + step + 1).min(list.len())).unwrap_or_default();
    low + near.partition_point(before)
}

impl<'c> Index<'c> {
    pub fn open(conn: &'c Connection) -> Result<Index<'c>> {
        Ok(Index { conn, segments: segments::read(conn)?, totals: segments::totals(conn)? })
    }

    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The entries that hold a phrase in the columns of `mask`, by number. The last word may be the
    /// beginning of one. With `among`, all of them are counted, but only those that are listed there
    /// are told.
    pub fn phrase(
        &self,
        words: &[String],
        is_prefix: bool,
        mask: u8,
        among: Option<&[Posting]>,
    ) -> Result<Postings> {
        let list = match words {
            [] => Vec::new(),
            [word] if !is_prefix => {
                return self.word(word, among, mask);
            }
            [word] => self.prefix(word, mask)?,
            words => self.several(words, is_prefix, mask)?,
        };
        Ok(Postings { hits: list.len(), list })
    }

    /// The entries that hold a word, without saying how often and in which columns.
    pub fn entries_of(&self, word: &str, mask: u8) -> Result<EntrySet> {
        self.entries_of_each(word, mask, &mut |_, _| Ok(()))
    }

    /// The same, and `each` is told of each entry with its positions.
    pub fn entries_of_each(
        &self,
        word: &str,
        mask: u8,
        each: &mut impl FnMut(i64, Positions<'_>) -> Result<()>,
    ) -> Result<EntrySet> {
        let mut entries = EntrySet::default();
        self.each(word, false, &mut |entry, bytes: &[u8]| {
            let positions = Positions::of(bytes, mask);
            if positions.are_any()? {
                entries.insert(entry);
                each(entry, positions)?;
            }
            Ok(())
        })?;
        Ok(entries)
    }

    fn word(&self, word: &str, among: Option<&[Posting]>, mask: u8) -> Result<Postings> {
        let mut found = Postings::default();
        let mut is_sorted = true;
        let mut members = among.map(|among| Members::new(among, |posting| posting.entry));
        let mut seen = 0;
        let key = key(word);
        for segment in &self.segments {
            self.each_in(segment, &key, false, &mut |entry, positions: &[u8]| {
                let occurrences =
                    poslist::occurrences(positions, mask).ok_or_else(pages::unreadable)?;
                if occurrences.count() > 0 {
                    found.hits += 1;
                    if members.as_mut().is_none_or(|members| members.contain(entry)) {
                        is_sorted &= found.list.last().is_none_or(|last| last.entry < entry);
                        found.list.push(Posting { entry, occurrences });
                    }
                }
                Ok(())
            })?;
            // The others will hold as many: a list that grows and moves touches twice the memory.
            let is_first = seen == 0;
            seen += segment.entries;
            if is_first && seen > 0 {
                let share = found.list.len() as f64 / seen as f64;
                let others = self.totals.entries.saturating_sub(seen) as f64;
                found.list.reserve_exact((share * others * 1.1) as usize);
            }
        }
        if !is_sorted {
            found.list.sort_unstable_by_key(|posting| posting.entry);
        }
        Ok(found)
    }

    fn prefix(&self, word: &str, mask: u8) -> Result<Vec<Posting>> {
        let mut postings: Vec<Posting> = Vec::new();
        self.each(word, true, &mut |entry, positions: &[u8]| {
            let occurrences =
                poslist::occurrences(positions, mask).ok_or_else(pages::unreadable)?;
            if occurrences.count() > 0 {
                postings.push(Posting { entry, occurrences });
            }
            Ok(())
        })?;
        postings.sort_unstable_by_key(|posting| posting.entry);
        // Several words with the same beginning in one entry.
        postings.dedup_by(|later, kept| {
            let is_same = later.entry == kept.entry;
            if is_same {
                kept.occurrences = kept.occurrences.and(later.occurrences);
            }
            is_same
        });
        Ok(postings)
    }

    fn several(&self, words: &[String], is_prefix: bool, mask: u8) -> Result<Vec<Posting>> {
        // Long words are rare, and the rarest one says where the others are of interest.
        let mut order: Vec<usize> = (0..words.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(words.get(*at).map_or(0, String::len)));
        let mut lists: Vec<Lists> = words.iter().map(|_| Lists::default()).collect();
        let mut among: Option<Vec<i64>> = None;
        for at in order {
            let (Some(word), Some(list)) = (words.get(at), lists.get_mut(at)) else { continue };
            let may_go_on = is_prefix && at + 1 == words.len();
            *list = self.lists(word, may_go_on, among.as_deref())?;
            let mut entries: Vec<i64> = list.places.iter().map(|place| place.0).collect();
            entries.dedup();
            if entries.is_empty() {
                return Ok(Vec::new());
            }
            among = Some(entries);
        }
        let mut postings = Vec::new();
        let mut cursors = vec![0_usize; lists.len()];
        let mut positions: Vec<Vec<u64>> = vec![Vec::new(); lists.len()];
        for entry in among.unwrap_or_default() {
            let mut is_everywhere = true;
            for ((list, cursor), found) in lists.iter().zip(&mut cursors).zip(&mut positions) {
                found.clear();
                list.positions(cursor, entry, mask, found)?;
                is_everywhere &= !found.is_empty();
            }
            if is_everywhere && let Some(occurrences) = in_a_row(&positions) {
                postings.push(Posting { entry, occurrences });
            }
        }
        Ok(postings)
    }

    /// The entries of a word, of those that are `among` these, with their positions as they are
    /// stored.
    fn lists(&self, word: &str, is_prefix: bool, among: Option<&[i64]>) -> Result<Lists> {
        let mut lists = Lists::default();
        let mut is_sorted = true;
        let mut members = among.map(|among| Members::new(among, |entry| *entry));
        self.each(word, is_prefix, &mut |entry, positions: &[u8]| {
            if members.as_mut().is_none_or(|members| members.contain(entry)) {
                is_sorted &= lists.places.last().is_none_or(|last| last.0 <= entry);
                let start = lists.bytes.len();
                lists.bytes.extend_from_slice(positions);
                lists.places.push((entry, start, positions.len()));
            }
            Ok(())
        })?;
        if !is_sorted {
            lists.places.sort_by_key(|place| place.0);
        }
        Ok(lists)
    }

    /// Hands every entry of a word to `each`, segment by segment.
    fn each(&self, word: &str, is_prefix: bool, each: &mut impl Each) -> Result<()> {
        let key = key(word);
        for segment in &self.segments {
            self.each_in(segment, &key, is_prefix, each)?;
        }
        Ok(())
    }

    /// Hands every entry of a word in one segment to `each`.
    fn each_in(
        &self,
        segment: &Segment,
        key: &[u8],
        is_prefix: bool,
        each: &mut impl Each,
    ) -> Result<()> {
        let page: Option<i64> = self
            .conn
            .prepare_cached(
                "SELECT pgno FROM search_idx WHERE segid = ?1 AND term <= ?2
                  ORDER BY term DESC LIMIT 1",
            )?
            .query_row((segment.id, key), |row| row.get(0))
            .optional()?;
        // The lowest bit says that there is an index of the word's pages.
        let page = page.map_or(1, |page| page >> 1).max(segment.first_page);
        let mut walk = Walk::new(key, is_prefix);
        let mut statement = self.conn.prepare_cached(
            "SELECT id, block FROM search_data WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
        )?;
        let mut rows = statement.query((segment.row(page), segment.row(segment.last_page)))?;
        let mut expected = segment.row(page);
        while let Some(row) = rows.next()? {
            if row.get::<_, i64>(0)? != expected {
                return Err(pages::unreadable());
            }
            expected += 1;
            let block = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            let next = walk.page(block, &mut |entry, positions: &[u8]| {
                if segment.is_deleted(entry) { Ok(()) } else { each(entry, positions) }
            })?;
            if next == Next::Nothing {
                return Ok(());
            }
        }
        // The last page was read, or pages are missing: then nothing was found because of that.
        match expected > segment.row(segment.last_page) {
            true => Ok(()),
            false => Err(pages::unreadable()),
        }
    }
}

/// A word as the index spells it: those of the index of whole words begin with a zero.
fn key(word: &str) -> Vec<u8> {
    [b"0", word.as_bytes()].concat()
}

/// The entries of a word, with their positions as they are stored.
#[derive(Default)]
struct Lists {
    bytes: Vec<u8>,
    /// Entry, start in `bytes`, length.
    places: Vec<(i64, usize, usize)>,
}

impl Lists {
    /// The positions in `entry`, which is not before those asked for earlier.
    fn positions(
        &self,
        cursor: &mut usize,
        entry: i64,
        mask: u8,
        found: &mut Vec<u64>,
    ) -> Result<()> {
        let rest = self.places.get(*cursor..).unwrap_or_default();
        *cursor += rest.partition_point(|place| place.0 < entry);
        let mut pieces = 0;
        for (_, start, length) in
            self.places.iter().skip(*cursor).take_while(|place| place.0 == entry)
        {
            let bytes = self.bytes.get(*start..*start + *length).unwrap_or_default();
            poslist::positions(bytes, mask, found).ok_or_else(pages::unreadable)?;
            pieces += 1;
        }
        if pieces > 1 {
            found.sort_unstable();
        }
        Ok(())
    }
}

/// Where the words stand one after the other.
fn in_a_row(positions: &[Vec<u64>]) -> Option<Occurrences> {
    let (first, others) = positions.split_first()?;
    let (mut count, mut at_least, mut columns) = (0, 0, 0);
    for start in first {
        let mut next = *start;
        let is_phrase = others.iter().all(|positions| {
            next += 1;
            positions.binary_search(&next).is_ok()
        });
        if is_phrase {
            count += 1;
            columns |= 1 << (start >> 32);
            let end = u32::try_from(next & 0xFFFF_FFFF).unwrap_or(u32::MAX).saturating_add(1);
            at_least = at_least.max(end);
        }
    }
    (count > 0).then(|| Occurrences::new(count, at_least, columns))
}

/// The sum of a row of numbers: the words of an entry, column by column.
pub(crate) fn sum_of_numbers(bytes: &[u8]) -> u64 {
    let mut bytes = varint::Bytes::new(bytes);
    let mut sum = 0_u64;
    while let Some(number) = bytes.number() {
        sum = sum.saturating_add(number);
    }
    sum
}

/// The columns of an entry that have words, by the words in each.
pub fn filled_columns(bytes: &[u8]) -> u8 {
    let mut bytes = varint::Bytes::new(bytes);
    let numbers = std::iter::from_fn(|| bytes.number());
    numbers
        .take(4)
        .enumerate()
        .fold(0, |filled, (column, words)| filled | if words > 0 { 1 << column } else { 0 })
}
