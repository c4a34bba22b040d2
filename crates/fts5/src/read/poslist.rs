//! Decodes poslists: the positions of a term in one row, column by column, counted in tokens.
//!
//! Works on bytes in memory. Never reads the database.

use crate::table::{ALL_COLUMNS, COLUMNS};
use crate::varint::Bytes;

/// The facts about a poslist that ranking needs. Packed, because a frequent term has hundreds of
/// thousands of poslists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Occurrences {
    count: u32,
    /// The columns in the lowest bits, one each, the minimum length above them.
    packed: u32,
}

impl Occurrences {
    /// Packs a count, a minimum length and a mask of columns.
    pub(crate) fn new(count: u32, min_length: u32, columns: u8) -> Occurrences {
        let packed =
            min_length.min(u32::MAX >> COLUMNS) << COLUMNS | u32::from(columns & ALL_COLUMNS);
        Occurrences { count, packed }
    }

    /// Returns the number of occurrences in the columns that are searched.
    pub(crate) fn count(self) -> u32 {
        self.count
    }

    /// Returns a lower bound of the number of tokens of the row.
    pub(crate) fn min_length(self) -> u32 {
        self.packed >> COLUMNS
    }

    /// Returns the mask of those columns that hold an occurrence.
    pub(crate) fn columns(self) -> u8 {
        (self.packed & u32::from(ALL_COLUMNS)) as u8
    }

    /// Adds the occurrences of another term in the same row.
    pub(super) fn and(self, other: Occurrences) -> Occurrences {
        Occurrences::new(
            self.count.saturating_add(other.count),
            self.min_length().max(other.min_length()),
            self.columns() | other.columns(),
        )
    }
}

/// Counts the positions in the columns of `mask`. Returns `None` for a malformed poslist.
pub(super) fn occurrences(poslist: &[u8], mask: u8) -> Option<Occurrences> {
    let (mut all, mut min_length, mut columns) = (0_u32, 0_u32, 0_u8);
    let mut column = 1_u8;
    let (mut count, mut last) = (0_u32, 0_u64);
    let mut rest = poslist;
    loop {
        // The hot loop of a search: nearly all differences fit into one byte, so eight are added
        // at once.
        while let Some((eight, after)) = rest.split_first_chunk::<8>()
            && let Some(sum) = sum_of_small(u64::from_le_bytes(*eight))
        {
            last += sum - 16;
            count += 8;
            rest = after;
        }
        while let [small @ 2..=0x7F, after @ ..] = rest {
            last += u64::from(*small - 2);
            count += 1;
            rest = after;
        }
        let mut bytes = Bytes::new(rest);
        let next = if bytes.is_empty() { None } else { Some(bytes.number()?) };
        if let Some(delta @ 2..) = next {
            last = last.wrapping_add(delta - 2);
            count += 1;
            rest = bytes.rest();
            continue;
        }
        if count > 0 {
            min_length = min_length.saturating_add(u32::try_from(last).ok()?.saturating_add(1));
            if column & mask != 0 {
                all += count;
                columns |= column;
            }
        }
        (count, last) = (0, 0);
        match next {
            None => return Some(Occurrences::new(all, min_length, columns)),
            Some(1) => {
                column = 1_u8.checked_shl(u32::try_from(bytes.number()?).ok()?)?;
                rest = bytes.rest();
            }
            Some(_) => return None,
        }
    }
}

/// Returns the sum of eight bytes if all are one-byte differences: no column marks, no long
/// varints.
#[inline]
fn sum_of_small(bytes: u64) -> Option<u64> {
    const HIGHEST: u64 = 0x8080_8080_8080_8080;
    const TWOS: u64 = 0x0202_0202_0202_0202;
    const EVERY_OTHER: u64 = 0x00FF_00FF_00FF_00FF;
    // Subtracting two from a byte below two borrows, which sets its highest bit.
    if (bytes | bytes.wrapping_sub(TWOS)) & HIGHEST != 0 {
        return None;
    }
    let pairs = (bytes & EVERY_OTHER) + (bytes >> 8 & EVERY_OTHER);
    Some(pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48)
}

/// Returns an upper bound of the number of positions.
#[inline]
pub(super) fn max_count(poslist: &[u8]) -> usize {
    match poslist {
        [1, _, rest @ ..] => rest.len(),
        all => all.len(),
    }
}

/// Returns whether a position is in the columns of `mask`. The first bytes nearly always decide;
/// otherwise the whole poslist is decoded.
#[inline]
pub(super) fn is_in(poslist: &[u8], mask: u8) -> Option<bool> {
    // Positions of the first column come first and have no mark.
    if mask & 1 == 1 && poslist.first().is_some_and(|first| *first != 1) {
        return Some(true);
    }
    // A mark names the column of the positions that follow it.
    if let [1, column @ 1..=7, _, ..] = poslist
        && mask >> column & 1 == 1
    {
        return Some(true);
    }
    is_anywhere_in(poslist, mask)
}

fn is_anywhere_in(poslist: &[u8], mask: u8) -> Option<bool> {
    Some(occurrences(poslist, mask)?.count() > 0)
}

/// Appends every position in the columns of `mask` to `positions`, as column × 2³² + position.
pub(super) fn positions(poslist: &[u8], mask: u8, positions: &mut Vec<u64>) -> Option<()> {
    let mut bytes = Bytes::new(poslist);
    let (mut column, mut at) = (0_u64, 0_u64);
    while !bytes.is_empty() {
        match bytes.number()? {
            0 => return None,
            1 => {
                column = bytes.number().filter(|column| *column < 8)?;
                at = 0;
            }
            delta => {
                at = at.wrapping_add(delta - 2) & 0xFFFF_FFFF;
                if mask >> column & 1 == 1 {
                    positions.push(column << 32 | at);
                }
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_counted_by_column() {
        // Column 0: 3 and 10; column 2: 0.
        let poslist = [5, 9, 1, 2, 2];
        let found = occurrences(&poslist, 0b111).unwrap();
        assert_eq!(found, Occurrences::new(3, 12, 0b101));
        let found = occurrences(&poslist, 0b100).unwrap();
        assert_eq!(found, Occurrences::new(1, 12, 0b100));
        let mut all = Vec::new();
        positions(&poslist, 0b111, &mut all).unwrap();
        assert_eq!(all, [3, 10, 2 << 32]);
    }

    #[test]
    fn eight_at_once_counts_like_one_at_a_time() {
        // Counted one position at a time for comparison.
        let mut seed = 1_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            seed >> 33
        };
        for _ in 0..2000 {
            let mut poslist = Vec::new();
            let mut expected = Occurrences::new(0, 0, 0);
            for column in 0..4_u8 {
                let length = random() % 40;
                if length > 0 && column > 0 {
                    poslist.extend([1, column]);
                }
                let mut last = 0;
                for at in 0..length {
                    let delta = if random() % 16 == 0 { random() % 300 } else { random() % 120 };
                    last += delta + u64::from(at > 0);
                    crate::varint::push(&mut poslist, delta + u64::from(at > 0) + 2);
                }
                if length > 0 {
                    let there = Occurrences::new(length as u32, 0, 1 << column);
                    let min_length = expected.min_length() + last as u32 + 1;
                    let both = expected.and(there);
                    expected = Occurrences::new(both.count(), min_length, both.columns());
                }
            }
            assert_eq!(occurrences(&poslist, ALL_COLUMNS), Some(expected), "{poslist:?}");
            assert!(max_count(&poslist) >= expected.count() as usize);
        }
    }

    #[test]
    fn malformed_poslists_are_refused() {
        assert_eq!(occurrences(&[0x80], 1), None);
        assert_eq!(occurrences(&[0], 1), None);
        assert_eq!(occurrences(&[1, 9, 2], 1), None);
    }
}
