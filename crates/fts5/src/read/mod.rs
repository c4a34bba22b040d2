//! Reads posting lists straight from FTS5's tables, without FTS5.
//!
//! `bm25()` looks up the length of every matching row, which is where FTS5 spends its time on a
//! frequent term. The positions of a term give an upper bound of a row's score (`query::bm25`), so
//! that only a few lengths have to be looked up. FTS5 passes positions to extensions in C only, so
//! they are read from its tables, which are ordinary tables with a format that its source
//! documents. This module never writes them.

mod leaf;
mod poslist;
mod segments;
mod terms;

use rusqlite::{CachedStatement, Connection, OptionalExtension};

use crate::query::Posting;
use crate::rowid_set::RowIdSet;
use crate::table::{COLUMNS, malformed};
use crate::{Result, RowId, varint};
use leaf::{Next, TermWalk, Visit};
pub(crate) use poslist::Occurrences;
use segments::Segment;
pub(crate) use segments::Totals;

/// The index in one state: valid during one read transaction.
pub(crate) struct Reader<'c> {
    conn: &'c Connection,
    segments: Vec<Segment>,
    totals: Totals,
}

/// The poslist of a term in one row, not decoded yet.
#[derive(Clone, Copy)]
pub(crate) struct Positions<'p> {
    bytes: &'p [u8],
    mask: u8,
}

impl<'p> Positions<'p> {
    /// Wraps a poslist. Only the columns of `mask` count.
    #[inline]
    pub(crate) fn of(bytes: &'p [u8], mask: u8) -> Positions<'p> {
        Positions { bytes, mask }
    }

    /// Returns an upper bound of the number of positions, without decoding them.
    #[inline]
    pub(crate) fn max_count(self) -> usize {
        poslist::max_count(self.bytes)
    }

    /// Counts the positions.
    pub(crate) fn occurrences(self) -> Result<Occurrences> {
        poslist::occurrences(self.bytes, self.mask).ok_or_else(malformed)
    }

    #[inline]
    fn are_any(self) -> Result<bool> {
        poslist::is_in(self.bytes, self.mask).ok_or_else(malformed)
    }
}

/// The rows that hold a phrase.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    /// Number of rows, including those that are not listed.
    pub(crate) hits: usize,
    pub(crate) list: Vec<Posting>,
}

/// A sorted list that is searched for one rowid after the other, mostly in ascending order.
struct Members<'m, T, F> {
    list: &'m [T],
    rowid_of: F,
    at: usize,
}

impl<'m, T, F: Fn(&T) -> RowId> Members<'m, T, F> {
    fn new(list: &'m [T], rowid_of: F) -> Members<'m, T, F> {
        Members { list, rowid_of, at: 0 }
    }

    fn contain(&mut self, rowid: RowId) -> bool {
        let before = self.at.checked_sub(1).and_then(|before| self.list.get(before));
        if before.is_some_and(|before| (self.rowid_of)(before) >= rowid) {
            self.at = 0;
        }
        let rest = self.list.get(self.at..).unwrap_or_default();
        self.at += skip(rest, |item| (self.rowid_of)(item) < rowid);
        self.list.get(self.at).is_some_and(|item| (self.rowid_of)(item) == rowid)
    }
}

/// Returns the number of items at the beginning of a list for which `before` is true, by a
/// galloping search.
pub(crate) fn skip<T>(list: &[T], before: impl Fn(&T) -> bool) -> usize {
    let (mut low, mut step) = (0, 1);
    while list.get(low + step).is_some_and(&before) {
        low += step;
        step *= 2;
    }
    let near = list.get(low..(low + step + 1).min(list.len())).unwrap_or_default();
    low + near.partition_point(before)
}

impl<'c> Reader<'c> {
    /// Reads the structure and averages records.
    pub(crate) fn open(conn: &'c Connection) -> Result<Reader<'c>> {
        Ok(Reader { conn, segments: segments::read(conn)?, totals: segments::totals(conn)? })
    }

    /// Returns the number of rows and tokens.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the rows that hold a phrase in the columns of `mask`, in ascending order. With
    /// `is_prefix`, the last token is a prefix. With `among`, all rows are counted, but only those
    /// in `among` have to be listed.
    pub(crate) fn phrase(
        &self,
        tokens: &[String],
        is_prefix: bool,
        mask: u8,
        among: Option<&[Posting]>,
    ) -> Result<Postings> {
        let list = match tokens {
            [] => Vec::new(),
            [term] if !is_prefix => {
                return self.term(term, among, mask);
            }
            [prefix] => self.prefix(prefix, mask)?,
            tokens => self.several(tokens, is_prefix, mask)?,
        };
        Ok(Postings { hits: list.len(), list })
    }

    /// Returns the rows that hold a term, without counts and columns.
    pub(crate) fn rowids_of(&self, term: &str, mask: u8) -> Result<RowIdSet> {
        self.rowids_of_each(term, mask, &mut |_, _| Ok(()))
    }

    /// Returns the rows that hold a term, and calls `visit` with the positions in each.
    pub(crate) fn rowids_of_each(
        &self,
        term: &str,
        mask: u8,
        visit: &mut impl FnMut(RowId, Positions<'_>) -> Result<()>,
    ) -> Result<RowIdSet> {
        let mut rowids = RowIdSet::default();
        self.each(term, false, &mut |rowid, bytes: &[u8]| {
            let positions = Positions::of(bytes, mask);
            if positions.are_any()? {
                rowids.insert(rowid);
                visit(rowid, positions)?;
            }
            Ok(())
        })?;
        Ok(rowids)
    }

    fn term(&self, term: &str, among: Option<&[Posting]>, mask: u8) -> Result<Postings> {
        let mut found = Postings::default();
        let mut is_sorted = true;
        let mut members = among.map(|among| Members::new(among, |posting| posting.rowid));
        let mut seen = 0;
        let key = key(term);
        for segment in &self.segments {
            self.each_in(segment, &key, false, &mut |rowid, poslist: &[u8]| {
                let occurrences = poslist::occurrences(poslist, mask).ok_or_else(malformed)?;
                if occurrences.count() > 0 {
                    found.hits += 1;
                    if members.as_mut().is_none_or(|members| members.contain(rowid)) {
                        is_sorted &= found.list.last().is_none_or(|last| last.rowid < rowid);
                        found.list.push(Posting { rowid, occurrences });
                    }
                }
                Ok(())
            })?;
            // Reserves memory as if the other segments had the same share of rows: a list that
            // grows and moves uses twice the memory.
            let is_first = seen == 0;
            seen += segment.rows;
            if is_first && seen > 0 {
                let share = found.list.len() as f64 / seen as f64;
                let others = self.totals.rows.saturating_sub(seen) as f64;
                found.list.reserve_exact((share * others * 1.1) as usize);
            }
        }
        if !is_sorted {
            found.list.sort_unstable_by_key(|posting| posting.rowid);
        }
        Ok(found)
    }

    fn prefix(&self, prefix: &str, mask: u8) -> Result<Vec<Posting>> {
        let mut postings: Vec<Posting> = Vec::new();
        self.each(prefix, true, &mut |rowid, poslist: &[u8]| {
            let occurrences = poslist::occurrences(poslist, mask).ok_or_else(malformed)?;
            if occurrences.count() > 0 {
                postings.push(Posting { rowid, occurrences });
            }
            Ok(())
        })?;
        postings.sort_unstable_by_key(|posting| posting.rowid);
        // A row with several terms that have the prefix is listed once.
        postings.dedup_by(|later, kept| {
            let is_same = later.rowid == kept.rowid;
            if is_same {
                kept.occurrences = kept.occurrences.and(later.occurrences);
            }
            is_same
        });
        Ok(postings)
    }

    fn several(&self, tokens: &[String], is_prefix: bool, mask: u8) -> Result<Vec<Posting>> {
        // A long token is usually rare, so the longest is read first. In the other lists only rows
        // that hold all tokens so far matter.
        let mut order: Vec<usize> = (0..tokens.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(tokens.get(*at).map_or(0, String::len)));
        let mut lists: Vec<PositionLists> =
            tokens.iter().map(|_| PositionLists::default()).collect();
        let mut among: Option<Vec<RowId>> = None;
        for at in order {
            let (Some(token), Some(list)) = (tokens.get(at), lists.get_mut(at)) else { continue };
            let is_prefix = is_prefix && at + 1 == tokens.len();
            *list = self.position_lists(token, is_prefix, among.as_deref())?;
            let mut rowids: Vec<RowId> = list.places.iter().map(|place| place.0).collect();
            rowids.dedup();
            if rowids.is_empty() {
                return Ok(Vec::new());
            }
            among = Some(rowids);
        }
        let mut postings = Vec::new();
        let mut cursors = vec![0_usize; lists.len()];
        let mut positions: Vec<Vec<u64>> = vec![Vec::new(); lists.len()];
        for rowid in among.unwrap_or_default() {
            let mut is_everywhere = true;
            for ((list, cursor), found) in lists.iter().zip(&mut cursors).zip(&mut positions) {
                found.clear();
                list.positions(cursor, rowid, mask, found)?;
                is_everywhere &= !found.is_empty();
            }
            if is_everywhere && let Some(occurrences) = phrase_occurrences(&positions) {
                postings.push(Posting { rowid, occurrences });
            }
        }
        Ok(postings)
    }

    /// Returns the rows of a term that are in `among`, with their poslists.
    fn position_lists(
        &self,
        term: &str,
        is_prefix: bool,
        among: Option<&[RowId]>,
    ) -> Result<PositionLists> {
        let mut lists = PositionLists::default();
        let mut is_sorted = true;
        let mut members = among.map(|among| Members::new(among, |rowid| *rowid));
        self.each(term, is_prefix, &mut |rowid, poslist: &[u8]| {
            if members.as_mut().is_none_or(|members| members.contain(rowid)) {
                is_sorted &= lists.places.last().is_none_or(|last| last.0 <= rowid);
                let start = lists.bytes.len();
                lists.bytes.extend_from_slice(poslist);
                lists.places.push((rowid, start, poslist.len()));
            }
            Ok(())
        })?;
        if !is_sorted {
            lists.places.sort_by_key(|place| place.0);
        }
        Ok(lists)
    }

    /// Calls `visit` with every row of a term, segment by segment.
    fn each(&self, term: &str, is_prefix: bool, visit: &mut impl Visit) -> Result<()> {
        let key = key(term);
        for segment in &self.segments {
            self.each_in(segment, &key, is_prefix, visit)?;
        }
        Ok(())
    }

    /// Calls `visit` with every row of a term in one segment.
    fn each_in(
        &self,
        segment: &Segment,
        key: &[u8],
        is_prefix: bool,
        visit: &mut impl Visit,
    ) -> Result<()> {
        let page: Option<i64> = self
            .conn
            .prepare_cached(
                "SELECT pgno FROM search_idx WHERE segid = ?1 AND term <= ?2
                  ORDER BY term DESC LIMIT 1",
            )?
            .query_row((segment.id, key), |row| row.get(0))
            .optional()?;
        // The lowest bit is the flag for a doclist index.
        let page = page.map_or(1, |page| page >> 1).max(segment.first_page);
        let mut walk = TermWalk::new(key, is_prefix);
        let mut statement = self.conn.prepare_cached(
            "SELECT id, block FROM search_data WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
        )?;
        let mut rows =
            statement.query((segment.page_id(page), segment.page_id(segment.last_page)))?;
        let mut expected = segment.page_id(page);
        while let Some(row) = rows.next()? {
            if row.get::<_, i64>(0)? != expected {
                return Err(malformed());
            }
            expected += 1;
            let block = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            let next = walk.page(block, &mut |rowid, poslist: &[u8]| {
                if segment.is_deleted(rowid) { Ok(()) } else { visit(rowid, poslist) }
            })?;
            if next == Next::Nothing {
                return Ok(());
            }
        }
        // The pages end here. That is an error before the last page of the segment.
        match expected > segment.page_id(segment.last_page) {
            true => Ok(()),
            false => Err(malformed()),
        }
    }
}

/// Returns a term as the index spells it: terms of the main index begin with the character `0`.
fn key(term: &str) -> Vec<u8> {
    [b"0", term.as_bytes()].concat()
}

/// The rows of a term with their poslists.
#[derive(Default)]
struct PositionLists {
    bytes: Vec<u8>,
    /// Rowid, start in `bytes`, length.
    places: Vec<(RowId, usize, usize)>,
}

impl PositionLists {
    /// Appends the positions in a row to `found`. Rowids must ascend from call to call.
    fn positions(
        &self,
        cursor: &mut usize,
        rowid: RowId,
        mask: u8,
        found: &mut Vec<u64>,
    ) -> Result<()> {
        let rest = self.places.get(*cursor..).unwrap_or_default();
        *cursor += rest.partition_point(|place| place.0 < rowid);
        let mut pieces = 0;
        for (_, start, length) in
            self.places.iter().skip(*cursor).take_while(|place| place.0 == rowid)
        {
            let bytes = self.bytes.get(*start..*start + *length).unwrap_or_default();
            poslist::positions(bytes, mask, found).ok_or_else(malformed)?;
            pieces += 1;
        }
        if pieces > 1 {
            found.sort_unstable();
        }
        Ok(())
    }
}

/// Returns the occurrences of a phrase: the places where its tokens follow each other.
fn phrase_occurrences(positions: &[Vec<u64>]) -> Option<Occurrences> {
    let (first, others) = positions.split_first()?;
    let (mut count, mut min_length, mut columns) = (0, 0, 0);
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
            min_length = min_length.max(end);
        }
    }
    (count > 0).then(|| Occurrences::new(count, min_length, columns))
}

/// Looks up the number of tokens of a row.
pub(crate) struct Lengths<'c> {
    statement: CachedStatement<'c>,
}

impl<'c> Lengths<'c> {
    /// Prepares the lookup.
    pub(crate) fn new(conn: &'c Connection) -> Result<Lengths<'c>> {
        let statement = conn.prepare_cached("SELECT sz FROM search_docsize WHERE id = ?1")?;
        Ok(Lengths { statement })
    }

    /// Returns the number of tokens of a row.
    pub(crate) fn of(&mut self, rowid: RowId) -> Result<Option<u64>> {
        self.get(rowid, |sizes| sizes.fold(0, u64::saturating_add))
    }

    /// Returns the mask of the columns of a row that have tokens.
    pub(crate) fn columns(&mut self, rowid: RowId) -> Result<Option<u8>> {
        self.get(rowid, |sizes| filled_columns(sizes))
    }

    fn get<T>(
        &mut self,
        rowid: RowId,
        read: impl FnOnce(&mut dyn Iterator<Item = u64>) -> T,
    ) -> Result<Option<T>> {
        let read = |row: &rusqlite::Row<'_>| Ok(read(&mut sizes(row.get_ref(0)?.as_blob()?)));
        Ok(self.statement.query_row([rowid], read).optional()?)
    }
}

impl Reader<'_> {
    /// Returns the rows that have tokens in the columns of `mask`, in ascending order, each with a
    /// mask of the columns that have some.
    pub(crate) fn rows(&self, mask: u8) -> Result<Vec<(RowId, u8)>> {
        let mut found = Vec::new();
        let mut statement =
            self.conn.prepare_cached("SELECT id, sz FROM search_docsize ORDER BY id")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let blob = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            let columns = filled_columns(&mut sizes(blob)) & mask;
            if columns != 0 {
                found.push((row.get(0)?, columns));
            }
        }
        Ok(found)
    }
}

/// Decodes the `sz` of a row of `search_docsize`: the number of tokens in each column.
fn sizes(sz: &[u8]) -> impl Iterator<Item = u64> {
    let mut bytes = varint::Bytes::new(sz);
    std::iter::from_fn(move || bytes.number())
}

fn filled_columns(sizes: &mut dyn Iterator<Item = u64>) -> u8 {
    let columns = sizes.take(COLUMNS).enumerate();
    columns.fold(0, |filled, (column, tokens)| filled | if tokens > 0 { 1 << column } else { 0 })
}
