//! The best entries of a single word, found while its list is read.
//!
//! A frequent word has hundreds of thousands of entries. Which there are is one bit for each; of
//! their positions only those are kept, and most of the time only those are looked into, that can
//! give a higher score than the best thousand so far. `rank` then looks up how long these are.

use super::highest::{Candidate, Highest, Offered};
use super::rank::{longest_with, share};
use crate::Result;
use crate::read::{Positions, Posting};

/// Entries with the highest scores that are possible.
pub struct Leading {
    /// How many words an entry has on average.
    average: f64,
    highest: Highest<Posting>,
    /// A word that stands in an entry less often than this cannot be among them.
    least: usize,
    /// For each number of times that it stands there: with more words than this it cannot be.
    longest: [f64; COUNTS],
    /// So often one was let in since these were found.
    let_in: usize,
    is_complete: bool,
}

/// Words that stand in an entry this often or more are weighed one by one.
const COUNTS: usize = 64;

/// After so many that were let in it is found anew who cannot be.
const OFTEN: usize = 64;

impl Leading {
    /// Keeps `most` of them.
    pub fn new(average: f64, most: usize) -> Leading {
        let (highest, longest) = (Highest::new(most), [f64::INFINITY; COUNTS]);
        Leading { average, highest, least: 0, longest, let_in: 0, is_complete: true }
    }

    /// Takes an entry, or leaves it.
    #[inline]
    pub fn consider(&mut self, entry: i64, positions: Positions<'_>) -> Result<()> {
        if positions.at_most() < self.least {
            self.is_complete = false;
            return Ok(());
        }
        let occurrences = positions.occurrences()?;
        let words = f64::from(occurrences.at_least());
        if self.longest.get(occurrences.count() as usize).is_some_and(|longest| words > *longest) {
            self.is_complete = false;
            return Ok(());
        }
        self.weigh(Posting { entry, occurrences }, words);
        Ok(())
    }

    fn weigh(&mut self, posting: Posting, words: f64) {
        let bound = share(posting.occurrences.count(), words, self.average);
        match self.highest.offer(Candidate { bound, of: posting }) {
            Offered::Taken => {}
            Offered::Left => self.is_complete = false,
            Offered::Exchanged => {
                self.is_complete = false;
                self.let_in += 1;
                if self.let_in % OFTEN == 1 {
                    self.raise();
                }
            }
        }
    }

    /// Finds out who cannot be among the highest any more: a word that stands in an entry so often
    /// gives it less than the lowest of them if the entry has too many words. It has at least as
    /// many as the word stands there.
    fn raise(&mut self) {
        /// More than what rounding can be wrong by.
        const MARGIN: f64 = 1.0 + 1e-9;
        let Some(lowest) = self.highest.lowest() else { return };
        self.least = COUNTS;
        for (count, longest) in self.longest.iter_mut().enumerate().rev() {
            *longest = longest_with(count as f64, lowest, self.average) * MARGIN + MARGIN - 1.0;
            if *longest >= count as f64 {
                self.least = count;
            }
        }
    }

    /// Those that are kept, in the order of their entries, and whether none was left.
    pub fn finish(self) -> (Vec<Posting>, bool) {
        let mut kept: Vec<Posting> = self.highest.into_iter().map(|kept| kept.of).collect();
        kept.sort_unstable_by_key(|posting| posting.entry);
        (kept, self.is_complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::varint;

    /// Whatever is left cannot have a higher score than anything that is kept.
    #[test]
    fn nothing_better_is_left() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (seed >> 33) % below
        };
        for (average, most) in [(3.0, 1), (40.0, 10), (40.0, 100), (2000.0, 64), (40.0, 5000)] {
            let mut leading = Leading::new(average, most);
            let mut all = Vec::new();
            for entry in 0..4000 {
                let mut bytes = Vec::new();
                let most = if random(50) == 0 { 200 } else { 12 };
                let count = 1 + random(most);
                let gap = 1 + random(30);
                for at in 0..count {
                    varint::push(&mut bytes, 2 + random(gap) + u64::from(at > 0));
                }
                let positions = Positions::of(&bytes, 0xF);
                let found = positions.occurrences().unwrap();
                let bound = share(found.count(), f64::from(found.at_least()), average);
                all.push((entry, bound));
                leading.consider(entry, positions).unwrap();
            }
            let (kept, is_complete) = leading.finish();
            assert_eq!(kept.len(), most.min(all.len()));
            assert_eq!(is_complete, most >= all.len());
            let is_kept =
                |entry: i64| kept.binary_search_by_key(&entry, |posting| posting.entry).is_ok();
            let (kept, left): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|(entry, _)| is_kept(*entry));
            let lowest = kept.iter().map(|it| it.1).fold(f64::INFINITY, f64::min);
            let highest = left.iter().map(|it| it.1).fold(0.0, f64::max);
            assert!(highest <= lowest, "{highest} was left, {lowest} was kept");
        }
    }
}
