//! Keeps the k candidates with the highest score bounds.
//!
//! Knows nothing about rows: the caller computes the bounds.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// An item with an upper bound of its score, ordered by the bound.
pub(crate) struct Candidate<T> {
    pub(crate) bound: f64,
    pub(crate) item: T,
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

/// A heap of at most `capacity` candidates.
pub(crate) struct BoundedHeap<T> {
    capacity: usize,
    /// The lowest bound on top.
    heap: BinaryHeap<Reverse<Candidate<T>>>,
}

/// The outcome of [`BoundedHeap::offer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The heap was not full.
    Added,
    /// The candidate replaced the one with the lowest bound.
    Replaced,
    /// The candidate's bound is not above the lowest in the heap.
    Rejected,
}

impl<T> BoundedHeap<T> {
    /// Makes an empty heap.
    pub(crate) fn new(capacity: usize) -> BoundedHeap<T> {
        BoundedHeap { capacity, heap: BinaryHeap::with_capacity(capacity.saturating_add(1)) }
    }

    /// Adds a candidate if its bound is among the highest.
    #[inline]
    pub(crate) fn offer(&mut self, candidate: Candidate<T>) -> Offered {
        if self.heap.len() < self.capacity {
            self.heap.push(Reverse(candidate));
            return Offered::Added;
        }
        if self.lowest().is_none_or(|lowest| lowest >= candidate.bound) {
            return Offered::Rejected;
        }
        self.heap.pop();
        self.heap.push(Reverse(candidate));
        Offered::Replaced
    }

    /// Returns the lowest bound in the heap.
    pub(crate) fn lowest(&self) -> Option<f64> {
        self.heap.peek().map(|lowest| lowest.0.bound)
    }

    /// Returns the candidates in no particular order.
    pub(crate) fn into_iter(self) -> impl Iterator<Item = Candidate<T>> {
        self.heap.into_iter().map(|kept| kept.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_candidates_with_the_highest_bounds_are_kept() {
        let mut highest = BoundedHeap::new(2);
        let mut offer = |bound: f64| highest.offer(Candidate { bound, item: () });
        assert_eq!(offer(1.0), Offered::Added);
        assert_eq!(offer(3.0), Offered::Added);
        assert_eq!(offer(1.0), Offered::Rejected);
        assert_eq!(offer(2.0), Offered::Replaced);
        assert_eq!(highest.lowest(), Some(2.0));
        let mut kept: Vec<f64> = highest.into_iter().map(|kept| kept.bound).collect();
        kept.sort_by(f64::total_cmp);
        assert_eq!(kept, [2.0, 3.0]);
        assert_eq!(
            BoundedHeap::new(0).offer(Candidate { bound: 1.0, item: () }),
            Offered::Rejected
        );
    }
}
