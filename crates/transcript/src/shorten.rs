//! Shortens the long strings of a JSON line that is read in pieces, so that a line of any length
//! can be decoded: ids, types and calls stay whole wherever they are.
//!
//! Knows strings and escapes only. Never checks whether the line is JSON: the decoder does that.

use crate::record::{DECODE_LIMIT, OVERSIZE_HEAD};

/// A line whose strings are cut after their first [`OVERSIZE_HEAD`] bytes.
#[derive(Debug, Default)]
pub struct Shortened {
    line: Vec<u8>,
    place: Place,
}

#[derive(Debug, Default, Clone, Copy)]
enum Place {
    /// Between strings.
    #[default]
    Outside,
    /// Inside a string. Holds the number of bytes kept of it.
    Inside(usize),
    /// After a backslash.
    Escape(usize),
    /// In the digits of a `\u` escape. Holds the bytes kept and the number of digits left.
    Digits(usize, u8),
    /// In the part of a string that is cut off.
    Cut,
    /// After a backslash in that part.
    CutEscape,
    /// The shortened line is longer than a line may be.
    TooLong,
}

impl Shortened {
    /// Takes in the next bytes of the line.
    pub fn push(&mut self, part: &[u8]) {
        let mut rest = part;
        while let Some((&byte, behind)) = rest.split_first() {
            rest = behind;
            let place = self.place.next(byte);
            self.place = match (place, self.place) {
                (Place::Cut, Place::Inside(_) | Place::Cut) => {
                    // Only a quote or a backslash matters in the part that is cut off.
                    rest = rest
                        .get(memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len())..)
                        .unwrap_or_default();
                    Place::Cut
                }
                (Place::Cut | Place::CutEscape, _) => place,
                (Place::TooLong, _) => return,
                _ if self.line.len() >= DECODE_LIMIT => {
                    self.line = Vec::new();
                    Place::TooLong
                }
                _ => {
                    self.line.push(byte);
                    place
                }
            };
        }
    }

    /// Returns the length of the shortened line so far, in bytes.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Returns whether the shortened line is empty.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Returns the shortened line, or an empty one if even that is longer than [`DECODE_LIMIT`].
    pub fn finish(self) -> Vec<u8> {
        self.line
    }
}

impl Place {
    fn next(self, byte: u8) -> Place {
        match (self, byte) {
            (Place::Outside, b'"') => Place::Inside(0),
            (Place::Outside, _) => Place::Outside,
            (Place::Inside(_) | Place::Cut, b'"') => Place::Outside,
            (Place::Inside(kept), b'\\') => Place::Escape(kept + 1),
            // Never cuts inside a character or before an escape, which may be the second half of a
            // character.
            (Place::Inside(kept), _) if kept >= OVERSIZE_HEAD && !(0x80..0xC0).contains(&byte) => {
                Place::Cut
            }
            (Place::Inside(kept), _) => Place::Inside(kept + 1),
            (Place::Escape(kept), b'u') => Place::Digits(kept + 1, 4),
            (Place::Escape(kept) | Place::Digits(kept, 1), _) => Place::Inside(kept + 1),
            (Place::Digits(kept, left), _) => Place::Digits(kept + 1, left - 1),
            (Place::Cut, b'\\') => Place::CutEscape,
            (Place::Cut | Place::CutEscape, _) => Place::Cut,
            (Place::TooLong, _) => Place::TooLong,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shortened(line: &[u8], piece: usize) -> Vec<u8> {
        let mut short = Shortened::default();
        line.chunks(piece).for_each(|part| short.push(part));
        short.finish()
    }

    #[test]
    fn only_long_strings_are_cut_and_what_follows_them_stays() {
        for unit in ["word ", "\u{e9}", "\u{1f99e}", "\\", "\"", "\u{1}", "x\n"] {
            let long = unit.repeat((OVERSIZE_HEAD + 1000) / unit.len() + 9);
            let whole =
                json!({"a": [1, {"text": long}], "b": "\\\"short", "c": long, "uuid": "u1"});
            let line = whole.to_string();
            for piece in [1, 7, 4096, line.len()] {
                let short: Value =
                    serde_json::from_slice(&shortened(line.as_bytes(), piece)).unwrap();
                assert_eq!((&short["b"], &short["uuid"]), (&whole["b"], &whole["uuid"]));
                for cut in [&short["a"][1]["text"], &short["c"]] {
                    let cut = cut.as_str().unwrap();
                    assert!(long.starts_with(cut), "{unit:?}");
                    let is_cut = cut.len() < long.len();
                    // A run of escapes is never cut.
                    assert_eq!(is_cut, !matches!(unit, "\\" | "\"" | "\u{1}"), "{unit:?}");
                }
            }
        }
        let plain = json!({"a": "x".repeat(OVERSIZE_HEAD), "b": ["", "\u{e9}\\"]}).to_string();
        assert_eq!(shortened(plain.as_bytes(), 100), plain.as_bytes());
    }

    #[test]
    fn the_length_of_a_shortened_line_is_bounded() {
        for pattern in [&b"\"aa\","[..], b"\"\\n", b"[", b"\"\xe4\xb8\xad"] {
            let part: Vec<u8> = pattern.iter().copied().cycle().take(1 << 20).collect();
            let mut short = Shortened::default();
            for _ in 0..40 {
                short.push(&part);
                assert!(short.len() <= DECODE_LIMIT, "{} bytes", short.len());
            }
        }
    }
}
