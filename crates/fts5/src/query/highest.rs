//! The few of many that can have the highest scores.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Something, and the highest score that it can have, by which it is ordered.
pub(crate) struct Candidate<T> {
    pub(crate) bound: f64,
    pub(crate) of: T,
}

impl<T> PartialEq for Candidate<T> {
    fn eq(&self, other: &Candidate<T>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Candidate<T> {}

impl<T> PartialOrd for Candidate<T> {
    fn partial_cmp(&self, other: &Candidate<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Candidate<T> {
    fn cmp(&self, other: &Candidate<T>) -> Ordering {
        self.bound.total_cmp(&other.bound)
    }
}

/// A number of candidates with the highest bounds.
pub(crate) struct Highest<T> {
    most: usize,
    /// The lowest on top.
    heap: BinaryHeap<Reverse<Candidate<T>>>,
}

/// What became of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// There was room for it.
    Taken,
    /// It stands in the place of a lower one.
    Exchanged,
    Left,
}

impl<T> Highest<T> {
    /// Keeps `most` of them.
    pub(crate) fn new(most: usize) -> Highest<T> {
        Highest { most, heap: BinaryHeap::with_capacity(most.saturating_add(1)) }
    }

    #[inline]
    pub(crate) fn offer(&mut self, candidate: Candidate<T>) -> Offered {
        if self.heap.len() < self.most {
            self.heap.push(Reverse(candidate));
            return Offered::Taken;
        }
        if self.lowest().is_none_or(|lowest| lowest >= candidate.bound) {
            return Offered::Left;
        }
        self.heap.pop();
        self.heap.push(Reverse(candidate));
        Offered::Exchanged
    }

    /// The lowest bound of those that are kept.
    pub(crate) fn lowest(&self) -> Option<f64> {
        self.heap.peek().map(|lowest| lowest.0.bound)
    }

    /// Those that are kept, in no order.
    pub(crate) fn into_iter(self) -> impl Iterator<Item = Candidate<T>> {
        self.heap.into_iter().map(|kept| kept.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_are_kept() {
        let mut highest = Highest::new(2);
        let mut offer = |bound: f64| highest.offer(Candidate { bound, of: () });
        assert_eq!(offer(1.0), Offered::Taken);
        assert_eq!(offer(3.0), Offered::Taken);
        assert_eq!(offer(1.0), Offered::Left);
        assert_eq!(offer(2.0), Offered::Exchanged);
        assert_eq!(highest.lowest(), Some(2.0));
        let mut kept: Vec<f64> = highest.into_iter().map(|kept| kept.bound).collect();
        kept.sort_by(f64::total_cmp);
        assert_eq!(kept, [2.0, 3.0]);
        assert_eq!(Highest::new(0).offer(Candidate { bound: 1.0, of: () }), Offered::Left);
    }
}
