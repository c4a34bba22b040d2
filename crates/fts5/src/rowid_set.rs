//! A set of rowids, one bit each. A frequent term has hundreds of thousands of rows, and most of
//! the cost of such a set is the first use of its memory, so one bit is faster than a hash entry.

use foldhash::HashSet;

use crate::RowId;

/// Rowids below this are kept as bits. Larger and negative ones are kept in a hash set: there are
/// few of them unless the index is damaged.
const MAX_BITS: i64 = 1 << 28;

/// A set of rowids.
#[derive(Debug, Default)]
pub struct RowIdSet {
    bits: Vec<u64>,
    others: HashSet<i64>,
    length: usize,
}

impl RowIdSet {
    /// Returns the number of rowids.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds a rowid.
    #[inline]
    pub fn insert(&mut self, rowid: RowId) {
        let at = usize::try_from(rowid.0 >> 6).unwrap_or(usize::MAX);
        match self.bits.get_mut(at) {
            Some(word) => {
                let bit = 1 << (rowid.0 & 63);
                self.length += usize::from(*word & bit == 0);
                *word |= bit;
            }
            None => self.insert_beyond(rowid),
        }
    }

    fn insert_beyond(&mut self, rowid: RowId) {
        let Some((at, _)) = place(rowid) else {
            self.length += usize::from(self.others.insert(rowid.0));
            return;
        };
        self.bits.resize((at + 1).next_power_of_two(), 0);
        self.insert(rowid);
    }

    /// Removes a rowid.
    pub fn remove(&mut self, rowid: RowId) {
        let was_there = match place(rowid) {
            None => self.others.remove(&rowid.0),
            Some((at, bit)) => self.bits.get_mut(at).is_some_and(|word| {
                let was_there = *word & bit != 0;
                *word &= !bit;
                was_there
            }),
        };
        self.length -= usize::from(was_there);
    }

    /// Returns whether a rowid is in the set.
    #[inline]
    pub fn contains(&self, rowid: RowId) -> bool {
        match place(rowid) {
            None => self.others.contains(&rowid.0),
            Some((at, bit)) => self.bits.get(at).is_some_and(|word| word & bit != 0),
        }
    }

    /// Returns all rowids, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = RowId> + '_ {
        let bits = self.bits.iter().enumerate().flat_map(|(at, word)| {
            let set = (0..64).filter(move |bit| word >> bit & 1 == 1);
            set.map(move |bit| (at as i64) << 6 | bit)
        });
        bits.chain(self.others.iter().copied()).map(RowId)
    }

    /// Returns the negative rowids, in no particular order.
    pub fn negative(&self) -> impl Iterator<Item = RowId> + '_ {
        self.others.iter().copied().filter(|rowid| *rowid < 0).map(RowId)
    }
}

/// Returns the index of the 64-bit word of a rowid, and its bit in it.
fn place(rowid: RowId) -> Option<(usize, u64)> {
    if !(0..MAX_BITS).contains(&rowid.0) {
        return None;
    }
    Some((usize::try_from(rowid.0 >> 6).ok()?, 1 << (rowid.0 & 63)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_exactly_the_rowids_that_were_inserted() {
        let mut set = RowIdSet::default();
        let rowids =
            [-7, 0, 1, 63, 64, 65, 1_000_000, MAX_BITS - 1, MAX_BITS, 1 << 41, i64::MIN].map(RowId);
        for rowid in rowids.into_iter().chain(rowids) {
            set.insert(rowid);
        }
        assert_eq!(set.len(), rowids.len());
        let mut all: Vec<RowId> = set.iter().collect();
        all.sort_unstable();
        let mut expected = rowids.to_vec();
        expected.sort_unstable();
        assert_eq!(all, expected);
        for absent in [2, MAX_BITS + 1, -1].map(RowId) {
            assert!(!set.contains(absent));
        }
        let mut negative: Vec<RowId> = set.negative().collect();
        negative.sort_unstable();
        assert_eq!(negative, [i64::MIN, -7].map(RowId));
        for rowid in [64, 64, 1 << 41, 2].map(RowId) {
            set.remove(rowid);
        }
        assert_eq!(set.len(), rowids.len() - 2);
        assert!(!set.contains(RowId(64)) && !set.contains(RowId(1 << 41)));
    }
}
