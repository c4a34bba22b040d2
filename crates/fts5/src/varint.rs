//! SQLite's varints: big-endian, seven bits per byte, at most nine bytes.
//!
//! Never panics on malformed bytes.

/// Cursor over bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    /// Starts at the first byte.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { rest: bytes }
    }

    /// Returns true at the end.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the bytes that were not read yet.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the number of bytes that were not read yet.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// Reads a varint. Returns `None` if the bytes end inside it.
    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        let (&first, rest) = self.rest.split_first()?;
        if first < 0x80 {
            self.rest = rest;
            return Some(u64::from(first));
        }
        self.long_number()
    }

    fn long_number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for (index, byte) in self.rest.iter().take(9).enumerate() {
            if index == 8 {
                value = value << 8 | u64::from(*byte);
            } else {
                value = value << 7 | u64::from(byte & 0x7F);
            }
            if index == 8 || byte & 0x80 == 0 {
                self.rest = self.rest.get(index + 1..)?;
                return Some(value);
            }
        }
        None
    }

    /// Reads a varint that is a size or an offset.
    #[inline]
    pub(crate) fn size(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    /// Reads `length` bytes.
    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }
}

/// Appends a varint.
#[inline]
pub(crate) fn push(bytes: &mut Vec<u8>, number: u64) {
    if number < 0x80 {
        bytes.push(number as u8);
    } else {
        push_long(bytes, number);
    }
}

fn push_long(bytes: &mut Vec<u8>, number: u64) {
    if number >> 56 != 0 {
        bytes.extend((0..8).rev().map(|at| (number >> (8 + 7 * at)) as u8 | 0x80));
        bytes.push(number as u8);
        return;
    }
    let digits = (64 - number.leading_zeros()).div_ceil(7);
    bytes.extend((1..digits).rev().map(|at| (number >> (7 * at)) as u8 | 0x80));
    bytes.push(number as u8 & 0x7F);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_read_back_as_written() {
        let powers = (0..64).map(|bits| 1_u64 << bits);
        for number in powers.flat_map(|power| [power - 1, power, power + 1]).chain([u64::MAX]) {
            let mut bytes = Vec::new();
            push(&mut bytes, number);
            let mut read = Bytes::new(&bytes);
            assert_eq!((read.number(), read.len()), (Some(number), 0), "{number:#x}");
        }
        let mut bytes = Vec::new();
        push(&mut bytes, 1 << 55);
        assert_eq!(bytes.len(), 8);
        push(&mut bytes, 1 << 56);
        assert_eq!(bytes.len(), 8 + 9);
    }

    #[test]
    fn numbers_are_read_at_every_length() {
        let mut bytes = Bytes::new(&[0x05, 0x81, 0x00, 0xFF, 0x7F]);
        assert_eq!(bytes.number(), Some(5));
        assert_eq!(bytes.number(), Some(128));
        assert_eq!(bytes.number(), Some(16_383));
        assert_eq!(bytes.number(), None);
        assert_eq!(Bytes::new(&[0xFF; 9]).number(), Some(u64::MAX));
        assert_eq!(Bytes::new(&[0xFF; 8]).number(), None);
    }
}
