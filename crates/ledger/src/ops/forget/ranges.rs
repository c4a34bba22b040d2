//! Sets of seqs as ranges: a session's records are mostly consecutive.
//!
//! Knows nothing of records or chunks.

/// Ranges of seqs, first to last, in order and not adjacent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    runs: Vec<(i64, i64)>,
}

impl Ranges {
    pub(super) fn of(mut runs: Vec<(i64, i64)>) -> Ranges {
        runs.sort_unstable();
        let mut joined: Vec<(i64, i64)> = Vec::with_capacity(runs.len());
        for (first, last) in runs {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last);
                }
                _ => joined.push((first, last)),
            }
        }
        Ranges { runs: joined }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.runs.iter().copied()
    }

    pub(super) fn contains(&self, seq: i64) -> bool {
        self.touches(seq, seq)
    }

    /// Returns whether one of `first` to `last` is in the set.
    pub(super) fn touches(&self, first: i64, last: i64) -> bool {
        let next = self.runs.partition_point(|run| run.1 < first);
        self.runs.get(next).is_some_and(|run| run.0 <= last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_joined_and_found() {
        let ranges = Ranges::of(vec![(8, 9), (1, 3), (4, 4), (20, 30)]);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(1, 4), (8, 9), (20, 30)]);
        for seq in [1, 4, 8, 9, 25] {
            assert!(ranges.contains(seq), "{seq}");
        }
        for seq in [0, 5, 7, 10, 31] {
            assert!(!ranges.contains(seq), "{seq}");
        }
        assert!(ranges.touches(5, 8) && ranges.touches(10, 20) && !ranges.touches(10, 19));
    }
}
