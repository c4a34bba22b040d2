//! BM25, exactly as FTS5's `bm25()` computes it, for the best entries only.
//!
//! The score of an entry falls with its number of words. Positions tell how many it has at least,
//! and so how high its score can be; going from the highest possible score down, the numbers of
//! words are looked up until nothing that is left can be among the best.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use rusqlite::{Connection, OptionalExtension};

use super::highest::{Candidate, Highest};
use super::matching::Matches;
use crate::Result;
use crate::read::Totals;

const K1: f64 = 1.2;
const B: f64 = 0.75;

/// An entry with its score; higher is better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    pub entry: i64,
    /// Which of the matches it is.
    pub at: usize,
    pub score: f64,
}

/// The weights of a query.
pub struct Weights {
    average: f64,
    /// For each phrase, how much it tells.
    idf: Vec<f64>,
}

impl Weights {
    pub fn new(totals: Totals, hits: &[usize]) -> Weights {
        let entries = totals.entries as f64;
        let idf = hits
            .iter()
            .map(|hits| {
                let hits = *hits as f64;
                let idf = ((entries - hits + 0.5) / (hits + 0.5)).ln();
                if idf <= 0.0 { 1e-6 } else { idf }
            })
            .collect();
        Weights { average: totals.words as f64 / entries, idf }
    }

    /// The score of an entry of so many words. The order of operations is FTS5's, so that equal
    /// scores are equal there, too.
    fn score(&self, counts: impl Iterator<Item = u32>, words: f64) -> f64 {
        let mut score = 0.0;
        for (idf, count) in self.idf.iter().zip(counts) {
            score += idf * share(count, words, self.average);
        }
        score
    }
}

/// What a word adds to the score of an entry, apart from how much the word tells.
#[inline]
pub fn share(count: u32, words: f64, average: f64) -> f64 {
    let count = f64::from(count);
    (count * (K1 + 1.0)) / (count + K1 * (1.0 - B + B * words / average))
}

/// With how many words at most it adds `share`; a negative number if it never does.
pub fn longest_with(count: f64, share: f64, average: f64) -> f64 {
    ((count * (K1 + 1.0) / share - count) / K1 - (1.0 - B)) / B * average
}

/// So many of the highest possible scores are tried before all of them are put in order.
const TRIED_FIRST: usize = 1024;

/// How many are tried first where so many are wanted.
pub fn tried_first(limit: usize) -> usize {
    TRIED_FIRST.max(limit.saturating_mul(4))
}

/// The `limit` best entries in no order, and all others with the same score as the last of them.
pub fn best(
    conn: &Connection,
    weights: &Weights,
    matches: &Matches,
    limit: usize,
) -> Result<Vec<Scored>> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let bounds = || bounds(weights, matches);
    let first = tried_first(limit);
    if first < matches.len() {
        let mut highest = Highest::new(first);
        for candidate in bounds() {
            highest.offer(candidate);
        }
        let candidates = highest.into_iter().collect();
        if let (true, best) = among(conn, weights, matches, limit, candidates)? {
            return Ok(best);
        }
    }
    Ok(among(conn, weights, matches, limit, bounds().collect())?.1)
}

/// The same of matches that were chosen because nothing else can have a higher score than any of
/// them. `None` if something else could be among the best all the same.
pub fn best_of_highest(
    conn: &Connection,
    weights: &Weights,
    matches: &Matches,
    limit: usize,
) -> Result<Option<Vec<Scored>>> {
    let (is_final, best) =
        among(conn, weights, matches, limit, bounds(weights, matches).collect())?;
    Ok(is_final.then_some(best))
}

/// The matches with the highest scores that they can have.
fn bounds(weights: &Weights, matches: &Matches) -> impl Iterator<Item = Candidate<usize>> {
    matches.list().iter().enumerate().map(|(at, found)| {
        let words = f64::from(found.occurrences.at_least());
        Candidate { bound: weights.score(matches.counts(at), words), of: at }
    })
}

/// The best of the candidates, and whether nothing with a lower bound can be among them.
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
    // The best scores so far, the worst of them on top.
    let mut top: BinaryHeap<Reverse<Score>> = BinaryHeap::new();
    let mut is_final = false;
    while let Some(Candidate { bound, of: at }) = candidates.pop() {
        if top.len() >= limit && top.peek().is_some_and(|worst| bound < worst.0.0) {
            is_final = true;
            break;
        }
        let Some(found) = matches.list().get(at) else { continue };
        let at_least = u64::from(found.occurrences.at_least());
        let words = lengths.of(found.entry)?.unwrap_or(at_least);
        let score = weights.score(matches.counts(at), words as f64);
        scored.push(Scored { entry: found.entry, at, score });
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

/// A number that is always one.
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

/// How many words entries have.
struct Lengths<'c> {
    statement: rusqlite::CachedStatement<'c>,
}

impl<'c> Lengths<'c> {
    fn new(conn: &'c Connection) -> Result<Lengths<'c>> {
        let statement = conn.prepare_cached("SELECT sz FROM search_docsize WHERE id = ?1")?;
        Ok(Lengths { statement })
    }

    fn of(&mut self, entry: i64) -> Result<Option<u64>> {
        Ok(self
            .statement
            .query_row([entry], |row| {
                let sizes = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
                Ok(crate::read::sum_of_numbers(sizes))
            })
            .optional()?)
    }
}
