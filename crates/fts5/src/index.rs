//! The index, open for searching.

use rusqlite::Connection;

use crate::query::bm25::{self, Scored, Weights};
use crate::query::matches::{self, Matches, Phrase};
use crate::query::top_k::TopK;
use crate::read::{Lengths, Reader};
use crate::rowid_set::RowIdSet;
use crate::{Result, RowId};

/// The index, open for searching. Columns are named by a mask: bit n is column n.
///
/// It shows one state of the table and is valid during one read transaction.
pub struct Index<'c> {
    conn: &'c Connection,
    reader: Reader<'c>,
}

impl<'c> Index<'c> {
    /// Opens the index.
    pub fn open(conn: &'c Connection) -> Result<Index<'c>> {
        Ok(Index { conn, reader: Reader::open(conn)? })
    }

    /// Returns the rows that hold all of `wanted` and none of `unwanted` in the columns of `mask`.
    pub fn find(&self, wanted: &[Phrase], unwanted: &[Phrase], mask: u8) -> Result<Matches> {
        matches::find(&self.reader, wanted, unwanted, mask)
    }

    /// Removes the rows that hold any of `unwanted` in the columns of `mask`.
    pub fn remove(&self, matches: &mut Matches, unwanted: &[Phrase], mask: u8) -> Result<()> {
        matches.remove(&self.reader, unwanted, mask)
    }

    /// Returns the `limit` rows with the highest scores in no particular order, and all others that
    /// tie with the last of them.
    pub fn best(&self, matches: &Matches, limit: usize) -> Result<Vec<Scored>> {
        let weights = Weights::new(self.reader.totals(), matches.hits());
        bm25::best(self.conn, &weights, matches, limit)
    }

    /// Returns the rows that hold a term in the columns of `mask`.
    pub fn rowids_of_term(&self, term: &str, mask: u8) -> Result<RowIdSet> {
        self.reader.rowids_of(term, mask)
    }

    /// Returns the rows that hold a term in the columns of `mask`, and the candidates for the `limit`
    /// best of them.
    pub fn top_k_of_term(&self, term: &str, mask: u8, limit: usize) -> Result<(RowIdSet, TopK)> {
        TopK::read(&self.reader, term, mask, limit)
    }

    /// Scores the candidates that are in `among` and returns the `limit` best of them, with those
    /// that tie with the last. `None` if a row that is no candidate could be among the best.
    pub fn best_of_top_k(
        &self,
        top: TopK,
        among: &RowIdSet,
        limit: usize,
    ) -> Result<Option<(Matches, Vec<Scored>)>> {
        top.best(self.conn, among, limit)
    }

    /// Returns the rows that have tokens in the columns of `mask`, in ascending order, with the mask
    /// of those columns.
    pub fn rows(&self, mask: u8) -> Result<Vec<(RowId, u8)>> {
        self.reader.rows(mask)
    }

    /// Returns those of `rowids` that have tokens in the columns of `mask`, in the same order, with
    /// the mask of those columns.
    pub fn rows_among(&self, rowids: &[RowId], mask: u8) -> Result<Vec<(RowId, u8)>> {
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
