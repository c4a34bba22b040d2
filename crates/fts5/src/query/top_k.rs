//! Finds the best rows of a single term while its doclist is read.
//!
//! A frequent term has hundreds of thousands of rows. Every row is kept as one bit. A poslist is
//! kept, and usually even decoded, only if its row can score higher than the lowest candidate so
//! far. `bm25` then looks up the lengths of the candidates.

use rusqlite::Connection;

use super::Posting;
use super::bm25::{self, Scored, Weights, max_length, term_weight};
use super::bounded_heap::{BoundedHeap, Candidate, Offered};
use super::matches::Matches;
use crate::read::{Positions, Reader, Totals};
use crate::rowid_set::RowIdSet;
use crate::{Result, RowId};

/// The rows of a term that can have the highest scores.
pub struct TopK {
    totals: Totals,
    candidates: BoundedHeap<Posting>,
    /// A row with fewer occurrences cannot be a candidate.
    min_count: usize,
    /// For each number of occurrences, the maximum length of a row that can be a candidate.
    max_lengths: [f64; COUNTS],
    /// Number of replacements so far.
    replaced: usize,
    /// True while no row was rejected.
    is_complete: bool,
    /// Number of rows that hold the term.
    hits: usize,
}

/// Size of the table of maximum lengths. A poslist with at least this many occurrences is always
/// decoded.
const COUNTS: usize = 64;

/// Recomputes the pruning thresholds after this many replacements.
const RECOMPUTE_AFTER: usize = 64;

impl TopK {
    fn new(totals: Totals, capacity: usize) -> TopK {
        TopK {
            totals,
            candidates: BoundedHeap::new(capacity),
            min_count: 0,
            max_lengths: [f64::INFINITY; COUNTS],
            replaced: 0,
            is_complete: true,
            hits: 0,
        }
    }

    /// Reads a term and returns its rows, and the candidates for the `limit` best.
    pub(crate) fn read(
        reader: &Reader<'_>,
        term: &str,
        mask: u8,
        limit: usize,
    ) -> Result<(RowIdSet, TopK)> {
        let mut top = TopK::new(reader.totals(), bm25::first_candidates(limit));
        let rowids = reader
            .rowids_of_each(term, mask, &mut |rowid, positions| top.consider(rowid, positions))?;
        top.hits = rowids.len();
        Ok((rowids, top))
    }

    /// Scores the candidates that are still in `among` and returns the `limit` best of them, with
    /// those that tie with the last. `None` if a row that was rejected could be among the best.
    pub(crate) fn best(
        self,
        conn: &Connection,
        among: &RowIdSet,
        limit: usize,
    ) -> Result<Option<(Matches, Vec<Scored>)>> {
        let (totals, hits) = (self.totals, self.hits);
        let (mut candidates, is_complete) = self.finish();
        candidates.retain(|posting| among.contains(posting.rowid));
        let matches = Matches::some_of(candidates, hits);
        let weights = Weights::new(totals, matches.hits());
        let scored = match is_complete {
            true => Some(bm25::best(conn, &weights, &matches, limit)?),
            false => bm25::best_of_candidates(conn, &weights, &matches, limit)?,
        };
        Ok(scored.map(|scored| (matches, scored)))
    }

    #[inline]
    fn consider(&mut self, rowid: RowId, positions: Positions<'_>) -> Result<()> {
        if positions.max_count() < self.min_count {
            self.is_complete = false;
            return Ok(());
        }
        let occurrences = positions.occurrences()?;
        let length = f64::from(occurrences.min_length());
        if self
            .max_lengths
            .get(occurrences.count() as usize)
            .is_some_and(|longest| length > *longest)
        {
            self.is_complete = false;
            return Ok(());
        }
        self.offer(Posting { rowid, occurrences }, length);
        Ok(())
    }

    fn offer(&mut self, posting: Posting, length: f64) {
        let bound = term_weight(posting.occurrences.count(), length, self.totals.average());
        match self.candidates.offer(Candidate { bound, item: posting }) {
            Offered::Added => {}
            Offered::Rejected => self.is_complete = false,
            Offered::Replaced => {
                self.is_complete = false;
                self.replaced += 1;
                if self.replaced % RECOMPUTE_AFTER == 1 {
                    self.recompute_thresholds();
                }
            }
        }
    }

    /// Recomputes which rows cannot be candidates: with a given number of occurrences, a row beyond
    /// some length scores less than the lowest candidate. A row is at least as long as its number
    /// of occurrences.
    fn recompute_thresholds(&mut self) {
        /// A factor larger than any rounding error.
        const MARGIN: f64 = 1.0 + 1e-9;
        let Some(lowest) = self.candidates.lowest() else { return };
        let average = self.totals.average();
        self.min_count = COUNTS;
        for (count, longest) in self.max_lengths.iter_mut().enumerate().rev() {
            *longest = max_length(count as f64, lowest, average) * MARGIN + MARGIN - 1.0;
            if *longest >= count as f64 {
                self.min_count = count;
            }
        }
    }

    /// Returns the candidates in ascending order, and true if no row was rejected.
    fn finish(self) -> (Vec<Posting>, bool) {
        let mut kept: Vec<Posting> = self.candidates.into_iter().map(|kept| kept.item).collect();
        kept.sort_unstable_by_key(|posting| posting.rowid);
        (kept, self.is_complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ALL_COLUMNS, varint};

    #[test]
    fn no_rejected_row_has_a_higher_bound_than_a_candidate() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (seed >> 33) % below
        };
        for (average, capacity) in [(3, 1), (40, 10), (40, 100), (2000, 64), (40, 5000)] {
            let mut top = TopK::new(Totals { rows: 1, tokens: average }, capacity);
            let mut all = Vec::new();
            for rowid in (0..4000).map(RowId) {
                let mut bytes = Vec::new();
                let most = if random(50) == 0 { 200 } else { 12 };
                let count = 1 + random(most);
                let gap = 1 + random(30);
                for at in 0..count {
                    varint::push(&mut bytes, 2 + random(gap) + u64::from(at > 0));
                }
                let positions = Positions::of(&bytes, ALL_COLUMNS);
                let found = positions.occurrences().unwrap();
                let length = f64::from(found.min_length());
                all.push((rowid, term_weight(found.count(), length, average as f64)));
                top.consider(rowid, positions).unwrap();
            }
            let (kept, is_complete) = top.finish();
            assert_eq!(kept.len(), capacity.min(all.len()));
            assert_eq!(is_complete, capacity >= all.len());
            let is_kept =
                |rowid: RowId| kept.binary_search_by_key(&rowid, |posting| posting.rowid).is_ok();
            let (kept, rejected): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|(rowid, _)| is_kept(*rowid));
            let lowest = kept.iter().map(|it| it.1).fold(f64::INFINITY, f64::min);
            let highest = rejected.iter().map(|it| it.1).fold(0.0, f64::max);
            assert!(highest <= lowest, "{highest} was rejected, {lowest} was kept");
        }
    }
}
