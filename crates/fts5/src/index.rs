//! The index, open for searching: through this crate's own reader or through FTS5.
//!
//! Never writes.

use rusqlite::Connection;

use crate::plain::Plain;
use crate::query::bm25::{self, Scored, Weights};
use crate::query::matches::{self, Matches, Phrase};
use crate::query::top_k::TopK;
use crate::read::{Lengths, Reader};
use crate::rowid_set::RowIdSet;
use crate::{Access, Result, RowId};

/// The index, open for searching. Columns are named by a mask: bit n is column n.
///
/// It shows one state of the table and is valid during one read transaction.
pub struct Index<'c> {
    conn: &'c Connection,
    source: Source<'c>,
}

enum Source<'c> {
    Direct(Reader<'c>),
    Plain(Plain<'c>),
}

impl<'c> Index<'c> {
    /// Opens the index.
    pub fn open(conn: &'c Connection, access: Access) -> Result<Index<'c>> {
        let source = match access {
            Access::Direct => Source::Direct(Reader::open(conn)?),
            Access::Plain => Source::Plain(Plain::open(conn)?),
        };
        Ok(Index { conn, source })
    }

    /// Returns the rows that hold all of `wanted` and none of `unwanted` in the columns of `mask`.
    pub fn find(&self, wanted: &[Phrase], unwanted: &[Phrase], mask: u8) -> Result<Matches> {
        match &self.source {
            Source::Direct(reader) => matches::find(reader, wanted, unwanted, mask),
            Source::Plain(plain) => plain.find(wanted, unwanted, mask),
        }
    }

    /// Removes the rows that hold any of `unwanted` in the columns of `mask`.
    pub fn remove(&self, matches: &mut Matches, unwanted: &[Phrase], mask: u8) -> Result<()> {
        match &self.source {
            Source::Direct(reader) => matches.remove(reader, unwanted, mask),
            Source::Plain(plain) => plain.remove(matches, unwanted, mask),
        }
    }

    /// Returns at least the `limit` rows with the highest scores and all others that tie with the
    /// last of them, in no particular order. `matches` must come from [`find`](Self::find).
    pub fn best(&self, matches: &Matches, limit: usize) -> Result<Vec<Scored>> {
        match &self.source {
            Source::Direct(reader) => {
                let weights = Weights::new(reader.totals(), matches.hits());
                bm25::best(self.conn, &weights, matches, limit)
            }
            Source::Plain(plain) => plain.scored(matches),
        }
    }

    /// Returns the rows that hold a term in the columns of `mask`.
    pub fn rowids_of_term(&self, term: &str, mask: u8) -> Result<RowIdSet> {
        match &self.source {
            Source::Direct(reader) => reader.rowids_of(term, mask),
            Source::Plain(plain) => plain.rowids_of(term, mask),
        }
    }

    /// Returns the rows that hold a term in the columns of `mask`, and the candidates for the
    /// `limit` best of them. `None` with [`Access::Plain`]: FTS5 scores all rows anyway, so use
    /// [`find`](Self::find) and [`best`](Self::best).
    pub fn top_k_of_term(
        &self,
        term: &str,
        mask: u8,
        limit: usize,
    ) -> Result<Option<(RowIdSet, TopK)>> {
        match &self.source {
            Source::Direct(reader) => TopK::read(reader, term, mask, limit).map(Some),
            Source::Plain(_) => Ok(None),
        }
    }

    /// Scores the candidates that are in `among` and returns the `limit` best of them, with those
    /// that tie with the last. `None` if a row that is not a candidate could be among the best.
    pub fn best_of_top_k(
        &self,
        top: TopK,
        among: &RowIdSet,
        limit: usize,
    ) -> Result<Option<(Matches, Vec<Scored>)>> {
        top.best(self.conn, among, limit)
    }

    /// Calls `visit` with the terms that begin with `prefix`, in any order; a term may come twice.
    /// Stops after `limit` terms. Returns how many it read, which may include terms before the
    /// first.
    pub fn each_term(
        &self,
        prefix: &str,
        limit: usize,
        visit: &mut dyn FnMut(&str),
    ) -> Result<usize> {
        match &self.source {
            Source::Direct(reader) => reader.each_term(prefix, limit, visit),
            Source::Plain(plain) => plain.each_term(prefix, limit, visit),
        }
    }

    /// Returns the rows that have tokens in the columns of `mask`, in ascending order, each with a
    /// mask of the columns that have some.
    pub fn rows(&self, mask: u8) -> Result<Vec<(RowId, u8)>> {
        match &self.source {
            Source::Direct(reader) => reader.rows(mask),
            Source::Plain(plain) => plain.rows(mask),
        }
    }

    /// Returns those of `rowids` that have tokens in the columns of `mask`, each with a mask of the
    /// columns that have some. `rowids` must be in ascending order.
    pub fn rows_among(&self, rowids: &[RowId], mask: u8) -> Result<Vec<(RowId, u8)>> {
        if let Source::Plain(plain) = &self.source {
            let mut rows = plain.rows(mask)?;
            rows.retain(|(rowid, _)| rowids.binary_search(rowid).is_ok());
            return Ok(rows);
        }
        let mut lengths = Lengths::new(self.conn)?;
        let mut found = Vec::new();
        for rowid in rowids {
            let columns = lengths.columns(*rowid)?.unwrap_or(0) & mask;
            if columns != 0 {
                found.push((*rowid, columns));
            }
        }
        Ok(found)
    }
}
