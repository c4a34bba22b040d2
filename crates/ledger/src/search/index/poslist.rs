//! Where a word stands in one entry: for each column the positions, counted in words.

use crate::varint::Bytes;

/// What ranking needs to know of the positions. There may be hundreds of thousands of them, so they
/// are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Occurrences {
    count: u32,
    /// The columns in the lowest four bits, above them the least number of words.
    packed: u32,
}

impl Occurrences {
    pub(super) fn new(count: u32, at_least: u32, columns: u8) -> Occurrences {
        let packed = at_least.min(u32::MAX >> 4) << 4 | u32::from(columns & 0xF);
        Occurrences { count, packed }
    }

    /// How often the word stands in the columns that are searched.
    pub(crate) fn count(self) -> u32 {
        self.count
    }

    /// The entry has at least this many words.
    pub(crate) fn at_least(self) -> u32 {
        self.packed >> 4
    }

    /// Which of those columns it stands in, one bit each.
    pub(crate) fn columns(self) -> u8 {
        (self.packed & 0xF) as u8
    }

    /// Both together, of different words in the same entry.
    pub(super) fn and(self, other: Occurrences) -> Occurrences {
        Occurrences::new(
            self.count.saturating_add(other.count),
            self.at_least().max(other.at_least()),
            self.columns() | other.columns(),
        )
    }
}

/// Counts the positions in the columns of `mask`. `None` if the bytes are no positions.
pub(super) fn occurrences(poslist: &[u8], mask: u8) -> Option<Occurrences> {
    let (mut all, mut at_least, mut columns) = (0_u32, 0_u32, 0_u8);
    let mut column = 1_u8;
    let (mut count, mut last) = (0_u32, 0_u64);
    let mut rest = poslist;
    loop {
        // Nearly all differences are small, and this is where a search spends its time.
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
            at_least = at_least.saturating_add(u32::try_from(last).ok()?.saturating_add(1));
            if column & mask != 0 {
                all += count;
                columns |= column;
            }
        }
        (count, last) = (0, 0);
        match next {
            None => return Some(Occurrences::new(all, at_least, columns)),
            Some(1) => {
                column = 1_u8.checked_shl(u32::try_from(bytes.number()?).ok()?)?;
                rest = bytes.rest();
            }
            Some(_) => return None,
        }
    }
}

/// Whether the word stands in the columns of `mask`. Looks no further than it must.
pub(super) fn is_in(poslist: &[u8], mask: u8) -> Option<bool> {
    // Positions of the first column come first and need no mark.
    if mask & 1 == 1 && poslist.first().is_some_and(|first| *first != 1) {
        return Some(true);
    }
    // A mark names the column of the position behind it.
    if let [1, column @ 1..=7, _, ..] = poslist
        && mask >> column & 1 == 1
    {
        return Some(true);
    }
    Some(occurrences(poslist, mask)?.count() > 0)
}

/// Adds every position in the columns of `mask` to `positions`, as column × 2³² + position.
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
    fn columns_are_told_apart() {
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
    fn what_is_no_list_of_positions_is_noticed() {
        assert_eq!(occurrences(&[0x80], 1), None);
        assert_eq!(occurrences(&[0], 1), None);
        assert_eq!(occurrences(&[1, 9, 2], 1), None);
    }
}
