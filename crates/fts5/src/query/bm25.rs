//! BM25, bit for bit as FTS5's `bm25()` computes it, for the best rows only.
//!
//! The score of a row falls with its length. The positions of a match give a minimum length, and so
//! an upper bound of the score. Rows are scored in descending order of the bound, each with a
//! lookup of its length, until all remaining bounds are below the worst of the best scores.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use rusqlite::Connection;

use super::bounded_heap::{BoundedHeap, Candidate};
use super::matches::Matches;
use crate::read::{Lengths, Totals};
use crate::{Result, RowId};

const K1: f64 = 1.2;
const B: f64 = 0.75;

/// A row with its score; higher is better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// The row.
    pub rowid: RowId,
    /// Its position among the matches.
    pub at: usize,
    /// The negative of what `bm25()` returns.
    pub score: f64,
}

/// The statistics that BM25 needs of an index and a query.
pub(crate) struct Weights {
    average_length: f64,
    /// Inverse document frequency of each phrase.
    idf: Vec<f64>,
}

impl Weights {
    /// Computes the weight of each phrase from the number of rows that contain it.
    pub(crate) fn new(totals: Totals, hits: &[usize]) -> Weights {
        let rows = totals.rows as f64;
        let idf = hits
            .iter()
            .map(|hits| {
                let hits = *hits as f64;
                let idf = ((rows - hits + 0.5) / (hits + 0.5)).ln();
                if idf <= 0.0 { 1e-6 } else { idf }
            })
            .collect();
        Weights { average_length: totals.average(), idf }
    }

    /// Returns the score of a row. The order of operations is FTS5's, so that the bits are the
    /// same.
    fn score(&self, counts: impl Iterator<Item = u32>, length: f64) -> f64 {
        let mut score = 0.0;
        for (idf, count) in self.idf.iter().zip(counts) {
            score += idf * term_weight(count, length, self.average_length);
        }
        score
    }
}

/// Returns what a phrase adds to the score of a row, without its inverse document frequency.
#[inline]
pub(super) fn term_weight(count: u32, length: f64, average_length: f64) -> f64 {
    let count = f64::from(count);
    (count * (K1 + 1.0)) / (count + K1 * (1.0 - B + B * length / average_length))
}

/// Returns the length up to which a phrase adds at least `weight`: the inverse of [`term_weight`].
/// Negative if no length does.
pub(super) fn max_length(count: f64, weight: f64, average_length: f64) -> f64 {
    ((count * (K1 + 1.0) / weight - count) / K1 - (1.0 - B)) / B * average_length
}

/// The minimum number of candidates in the first attempt. If they do not decide the result, all
/// rows become candidates.
const FIRST_CANDIDATES: usize = 1024;

/// Returns the number of candidates to score first for the best `limit` rows.
pub(super) fn first_candidates(limit: usize) -> usize {
    FIRST_CANDIDATES.max(limit.saturating_mul(4))
}

/// Returns the `limit` best rows in no particular order, and all others that tie with the last.
pub(crate) fn best(
    conn: &Connection,
    weights: &Weights,
    matches: &Matches,
    limit: usize,
) -> Result<Vec<Scored>> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let bounds = || bounds(weights, matches);
    let first = first_candidates(limit);
    if first < matches.len() {
        let mut heap = BoundedHeap::new(first);
        for candidate in bounds() {
            heap.offer(candidate);
        }
        let candidates = heap.into_iter().collect();
        if let (true, best) = among(conn, weights, matches, limit, candidates)? {
            return Ok(best);
        }
    }
    Ok(among(conn, weights, matches, limit, bounds().collect())?.1)
}

/// Returns the `limit` best of `matches`, which hold only the rows with the highest bounds. Returns
/// `None` if a row that is not in `matches` could be among the best.
pub(super) fn best_of_candidates(
    conn: &Connection,
    weights: &Weights,
    matches: &Matches,
    limit: usize,
) -> Result<Option<Vec<Scored>>> {
    let (is_final, best) =
        among(conn, weights, matches, limit, bounds(weights, matches).collect())?;
    Ok(is_final.then_some(best))
}

/// Returns the matches with the upper bounds of their scores.
fn bounds(weights: &Weights, matches: &Matches) -> impl Iterator<Item = Candidate<usize>> {
    matches.list().iter().enumerate().map(|(at, found)| {
        let length = f64::from(found.occurrences.min_length());
        Candidate { bound: weights.score(matches.counts(at), length), item: at }
    })
}

/// Returns the best of the candidates, and true if no row with a lower bound than theirs can be
/// among the best.
fn among(
    conn: &Connection,
    weights: &Weights,
    matches: &Matches,
    limit: usize,
    candidates: Vec<Candidate<usize>>,
) -> Result<(bool, Vec<Scored>)> {
    let mut candidates = BinaryHeap::from(candidates);
    let mut lengths = Lengths::new(conn)?;
    let mut scored: Vec<Scored> = Vec::new();
    // The best scores so far, the worst on top.
    let mut top: BinaryHeap<Reverse<Score>> = BinaryHeap::new();
    let mut is_final = false;
    while let Some(Candidate { bound, item: at }) = candidates.pop() {
        if top.len() >= limit && top.peek().is_some_and(|worst| bound < worst.0.0) {
            is_final = true;
            break;
        }
        let Some(found) = matches.list().get(at) else { continue };
        let min_length = u64::from(found.occurrences.min_length());
        let length = lengths.of(found.rowid)?.unwrap_or(min_length);
        let score = weights.score(matches.counts(at), length as f64);
        scored.push(Scored { rowid: found.rowid, at, score });
        top.push(Reverse(Score(score)));
        if top.len() > limit {
            top.pop();
        }
    }
    if let (Some(worst), true) = (top.peek(), top.len() >= limit) {
        let worst = worst.0.0;
        scored.retain(|scored| scored.score >= worst);
    }
    Ok((is_final, scored))
}

/// A score, totally ordered.
struct Score(f64);

impl PartialEq for Score {
    fn eq(&self, other: &Score) -> bool {
        self.0.total_cmp(&other.0) == Ordering::Equal
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Score) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
