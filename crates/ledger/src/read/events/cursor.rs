//! Positions in the order of commits: an epoch of the ledger and a seq.
//!
//! A restored backup has a new epoch, so a cursor from before it is not mistaken for one of the
//! restored records.

use std::fmt;
use std::str::FromStr;

use crate::base::ids::Seq;

/// The number of hex digits of the epoch that a cursor has.
const EPOCH_DIGITS: usize = 12;

/// A position between two records. Opaque to subscribers.
///
/// ```
/// use quipu_ledger::events::Cursor;
///
/// let cursor: Cursor = "6f1c2d0a91b4.48213".parse()?;
/// assert_eq!(cursor.to_string(), "6f1c2d0a91b4.48213");
/// assert!("6f1c2d0a91b4.048213".parse::<Cursor>().is_err());
/// # Ok::<(), quipu_ledger::events::BadCursor>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    epoch: Box<str>,
    seq: Seq,
}

/// The position at which a subscriber begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// After everything that is in the ledger.
    Now,
    /// Before the first record.
    Beginning,
    /// After a cursor.
    After(Cursor),
}

/// A text that is not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a cursor of the event stream")]
pub struct BadCursor;

impl Cursor {
    pub(super) fn new(epoch: &str, seq: Seq) -> Cursor {
        let digits = epoch.chars().filter(char::is_ascii_hexdigit).take(EPOCH_DIGITS);
        Cursor { epoch: digits.collect::<String>().into(), seq }
    }

    /// Returns the number of the record before the position.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Returns another position of the same epoch.
    pub(super) fn at(&self, seq: Seq) -> Cursor {
        Cursor { epoch: self.epoch.clone(), seq }
    }

    /// Returns whether `other` is this position or one before it in the same epoch.
    pub fn includes(&self, other: &Cursor) -> bool {
        self.epoch == other.epoch && other.seq <= self.seq
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.seq.0)
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Cursor, BadCursor> {
        let (epoch, digits) = text.split_once('.').ok_or(BadCursor)?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let seq: i64 = digits.parse().map_err(|_| BadCursor)?;
        // The number has one spelling, so that equal positions are equal texts.
        let is_canonical = seq >= 0 && seq.to_string() == digits;
        if epoch.len() != EPOCH_DIGITS || !epoch.bytes().all(is_digit) || !is_canonical {
            return Err(BadCursor);
        }
        Ok(Cursor { epoch: epoch.into(), seq: Seq(seq) })
    }
}

impl FromStr for Start {
    type Err = BadCursor;

    /// Reads `now`, `start` or a cursor.
    fn from_str(text: &str) -> Result<Start, BadCursor> {
        match text {
            "now" => Ok(Start::Now),
            "start" => Ok(Start::Beginning),
            cursor => cursor.parse().map(Start::After),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_has_one_spelling() {
        let cursor = Cursor::new("6f1c2d0a-91b4-4c1c-8d3e-7f33a3a4b1aa", Seq(48213));
        assert_eq!(cursor.to_string(), "6f1c2d0a91b4.48213");
        assert_eq!("6f1c2d0a91b4.48213".parse(), Ok(cursor.clone()));
        assert_eq!("now".parse(), Ok(Start::Now));
        assert_eq!("start".parse(), Ok(Start::Beginning));
        assert_eq!("6f1c2d0a91b4.48213".parse(), Ok(Start::After(cursor)));
        for wrong in [
            "",
            ".",
            "48213",
            "6f1c2d0a91b4",
            "6f1c2d0a91b4.",
            "6f1c2d0a91b4.-1",
            "6f1c2d0a91b4.+1",
            "6f1c2d0a91b4.007",
            "6f1c2d0a91b4.1 ",
            "6F1C2D0A91B4.1",
            "6f1c2d0a91b.1",
            "6f1c2d0a91b4.99999999999999999999",
            "6f1c2d0a91b4.1.1",
            "Now",
        ] {
            assert_eq!(wrong.parse::<Start>(), Err(BadCursor), "{wrong}");
        }
    }

    #[test]
    fn a_cursor_of_another_epoch_or_ahead_is_not_included() {
        let now: Cursor = "6f1c2d0a91b4.5".parse().unwrap();
        for (cursor, is_included) in [
            ("6f1c2d0a91b4.0", true),
            ("6f1c2d0a91b4.5", true),
            ("6f1c2d0a91b4.6", false),
            ("7f1c2d0a91b4.5", false),
        ] {
            assert_eq!(now.includes(&cursor.parse().unwrap()), is_included, "{cursor}");
        }
    }
}
