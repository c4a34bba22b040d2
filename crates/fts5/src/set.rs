//! Which entries hold a word, where nothing else is asked about them: one bit for each. A frequent
//! word has hundreds of thousands, and memory that is touched for the first time is what costs.

use foldhash::HashSet;

/// Entries beyond this have no bit: those of welded lines, and whatever a damaged index names.
const BITS: i64 = 1 << 28;

/// A set of entries.
#[derive(Debug, Default)]
pub struct EntrySet {
    bits: Vec<u64>,
    others: HashSet<i64>,
    length: usize,
}

impl EntrySet {
    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    #[inline]
    pub fn insert(&mut self, entry: i64) {
        let at = usize::try_from(entry >> 6).unwrap_or(usize::MAX);
        match self.bits.get_mut(at) {
            Some(word) => {
                let bit = 1 << (entry & 63);
                self.length += usize::from(*word & bit == 0);
                *word |= bit;
            }
            None => self.insert_beyond(entry),
        }
    }

    fn insert_beyond(&mut self, entry: i64) {
        let Some((at, _)) = place(entry) else {
            self.length += usize::from(self.others.insert(entry));
            return;
        };
        self.bits.resize((at + 1).next_power_of_two(), 0);
        self.insert(entry);
    }

    pub fn remove(&mut self, entry: i64) {
        let was_there = match place(entry) {
            None => self.others.remove(&entry),
            Some((at, bit)) => self.bits.get_mut(at).is_some_and(|word| {
                let was_there = *word & bit != 0;
                *word &= !bit;
                was_there
            }),
        };
        self.length -= usize::from(was_there);
    }

    pub fn contains(&self, entry: i64) -> bool {
        match place(entry) {
            None => self.others.contains(&entry),
            Some((at, bit)) => self.bits.get(at).is_some_and(|word| word & bit != 0),
        }
    }

    /// All of them, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        let bits = self.bits.iter().enumerate().flat_map(|(at, word)| {
            let set = (0..64).filter(move |bit| word >> bit & 1 == 1);
            set.map(move |bit| (at as i64) << 6 | bit)
        });
        bits.chain(self.others.iter().copied())
    }

    /// Those that are not in a session's count yet.
    pub fn provisional(&self) -> impl Iterator<Item = i64> + '_ {
        self.others.iter().copied().filter(|entry| *entry < 0)
    }
}

/// The word and the bit of an entry.
fn place(entry: i64) -> Option<(usize, u64)> {
    if !(0..BITS).contains(&entry) {
        return None;
    }
    Some((usize::try_from(entry >> 6).ok()?, 1 << (entry & 63)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in() {
        let mut set = EntrySet::default();
        let entries = [-7, 0, 1, 63, 64, 65, 1_000_000, BITS - 1, BITS, 1 << 41, i64::MIN];
        for entry in entries.into_iter().chain(entries) {
            set.insert(entry);
        }
        assert_eq!(set.len(), entries.len());
        let mut all: Vec<i64> = set.iter().collect();
        all.sort_unstable();
        let mut expected = entries.to_vec();
        expected.sort_unstable();
        assert_eq!(all, expected);
        assert!(!set.contains(2) && !set.contains(BITS + 1) && !set.contains(-1));
        let mut provisional: Vec<i64> = set.provisional().collect();
        provisional.sort_unstable();
        assert_eq!(provisional, [i64::MIN, -7]);
        for entry in [64, 64, 1 << 41, 2] {
            set.remove(entry);
        }
        assert_eq!(set.len(), entries.len() - 2);
        assert!(!set.contains(64) && !set.contains(1 << 41));
    }
}
