//! A set of seqs, stored as ranges, because most records of a session are consecutive.
//!
//! Knows nothing of records or chunks.

/// A set of seqs. A range is its first and its last seq; ranges are sorted, with gaps between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SeqSet {
    ranges: Vec<(i64, i64)>,
}

impl SeqSet {
    /// Creates the set from ranges in any order, which may overlap.
    pub(super) fn from_ranges(mut ranges: Vec<(i64, i64)>) -> SeqSet {
        ranges.sort_unstable();
        let mut joined: Vec<(i64, i64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last);
                }
                _ => joined.push((first, last)),
            }
        }
        SeqSet { ranges: joined }
    }

    /// Returns the ranges in order.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.ranges.iter().copied()
    }

    /// Returns whether `seq` is in the set.
    pub(super) fn contains(&self, seq: i64) -> bool {
        self.overlaps(seq, seq)
    }

    /// Returns whether the set has a seq from `first` to `last`.
    pub(super) fn overlaps(&self, first: i64, last: i64) -> bool {
        let next = self.ranges.partition_point(|range| range.1 < first);
        self.ranges.get(next).is_some_and(|range| range.0 <= last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_ranges_are_joined() {
        let seqs = SeqSet::from_ranges(vec![(8, 9), (1, 3), (4, 4), (20, 30)]);
        assert_eq!(seqs.ranges().collect::<Vec<_>>(), [(1, 4), (8, 9), (20, 30)]);
        for seq in [1, 4, 8, 9, 25] {
            assert!(seqs.contains(seq), "{seq}");
        }
        for seq in [0, 5, 7, 10, 31] {
            assert!(!seqs.contains(seq), "{seq}");
        }
        assert!(seqs.overlaps(5, 8) && seqs.overlaps(10, 20) && !seqs.overlaps(10, 19));
    }
}
