//! Splits text into tokens exactly as FTS5's tokenizer `unicode61` does: runs of letters, digits
//! and private-use characters, folded to lower case and without the diacritics of Latin letters.
//!
//! FTS5 tokenizes while it indexes, on the thread that writes. This one runs on any thread.

use crate::chars::{Class, class};

/// Maximum length of a token in bytes. FTS5 cuts longer tokens here, even inside a character.
const MAX_TOKEN_BYTES: usize = 32 << 10;

/// Tokenizer that reuses its buffers from one text to the next.
#[derive(Debug, Default)]
pub(crate) struct Tokenizer {
    lower: Vec<u8>,
    folded: Vec<u8>,
}

impl Tokenizer {
    /// Calls `each` with every token of `text`, in order.
    pub(crate) fn each(&mut self, text: &str, mut each: impl FnMut(&[u8])) {
        // Nearly all text is ASCII, and nearly every ASCII token needs lower-casing only.
        self.lower.clear();
        self.lower.extend_from_slice(text.as_bytes());
        self.lower.make_ascii_lowercase();
        let bytes = self.lower.as_slice();
        let mut at = 0;
        while let Some(first) = bytes.get(at) {
            match BYTE_CLASSES[usize::from(*first)] {
                ByteClass::Separator => at += 1,
                ByteClass::Token => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    let length = rest
                        .iter()
                        .position(|byte| BYTE_CLASSES[usize::from(*byte)] != ByteClass::Token)
                        .unwrap_or(rest.len());
                    let (word, rest) = rest.split_at(length);
                    if rest.first().is_some_and(|next| !next.is_ascii()) {
                        self.folded.clear();
                        self.folded.extend_from_slice(word);
                        at = continue_token(text, at + length, &mut self.folded);
                        each(cut(&self.folded));
                    } else {
                        at += length;
                        each(cut(word));
                    }
                }
                ByteClass::NonAscii => {
                    let Some(char) = char_at(text, at) else { return };
                    at += char.len_utf8();
                    if let Class::Token(letter) = class(char) {
                        self.folded.clear();
                        push(&mut self.folded, letter);
                        at = continue_token(text, at, &mut self.folded);
                        each(cut(&self.folded));
                    }
                }
            }
        }
    }
}

/// Appends the rest of a token that has characters beyond ASCII. Returns the offset of its end.
fn continue_token(text: &str, mut at: usize, folded: &mut Vec<u8>) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    for char in rest.chars() {
        if char.is_ascii() {
            if !char.is_ascii_alphanumeric() {
                break;
            }
            push(folded, char.to_ascii_lowercase());
        } else {
            match class(char) {
                Class::Separator => break,
                Class::Diacritic => {}
                Class::Token(letter) => push(folded, letter),
            }
        }
        at += char.len_utf8();
    }
    at
}

fn char_at(text: &str, at: usize) -> Option<char> {
    text.get(at..)?.chars().next()
}

fn push(folded: &mut Vec<u8>, char: char) {
    folded.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
}

fn cut(word: &[u8]) -> &[u8] {
    word.get(..MAX_TOKEN_BYTES).unwrap_or(word)
}

/// The class of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteClass {
    Separator,
    Token,
    NonAscii,
}

const BYTE_CLASSES: [ByteClass; 256] = {
    let mut classes = [ByteClass::NonAscii; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = if (byte as u8).is_ascii_alphanumeric() {
            ByteClass::Token
        } else {
            ByteClass::Separator
        };
        byte += 1;
    }
    classes
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use rusqlite::Connection;

    use super::*;

    type Words = BTreeMap<(i64, i64), Vec<u8>>;

    /// Returns the tokens of texts as FTS5 splits them.
    fn fts5(texts: impl Iterator<Item = (i64, String)>) -> Words {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "CREATE VIRTUAL TABLE texts USING fts5 (text, content = '', tokenize = 'unicode61');
             CREATE VIRTUAL TABLE words USING fts5vocab (texts, instance);
             BEGIN",
        )
        .unwrap();
        let mut insert = conn.prepare("INSERT INTO texts (rowid, text) VALUES (?1, ?2)").unwrap();
        for text in texts {
            insert.execute(text).unwrap();
        }
        let mut select = conn.prepare("SELECT doc, offset, CAST(term AS BLOB) FROM words").unwrap();
        let words =
            select.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?))).unwrap();
        words.collect::<Result<_, _>>().unwrap()
    }

    fn ours(texts: impl Iterator<Item = (i64, String)>) -> Words {
        let (mut tokens, mut words) = (Tokenizer::default(), Words::new());
        for (id, text) in texts {
            let mut offset = 0;
            tokens.each(&text, |word| {
                words.insert((id, offset), word.to_vec());
                offset += 1;
            });
        }
        words
    }

    /// Compares every character, between two letters and alone.
    #[test]
    fn every_character_has_the_class_that_fts5_gives_it() {
        let chars = || ('\u{1}'..=char::MAX).map(|char| (i64::from(u32::from(char)), char));
        for surroundings in [["a", "b"], ["", ""]] {
            let texts = || chars().map(|(id, char)| (id, surroundings.join(&char.to_string())));
            let (theirs, ours) = (fts5(texts()), ours(texts()));
            let differ: Vec<_> = theirs
                .iter()
                .filter(|(place, word)| ours.get(place) != Some(word))
                .chain(ours.iter().filter(|(place, word)| theirs.get(place) != Some(word)))
                .take(20)
                .collect();
            assert!(differ.is_empty(), "{differ:?}");
        }
    }

    #[test]
    fn long_tokens_are_cut_where_fts5_cuts_them() {
        let texts = || {
            ["x".repeat(40_000), "é".repeat(40_000), "木".repeat(20_000)]
                .into_iter()
                .chain([format!("{}木 after", "x".repeat(MAX_TOKEN_BYTES - 1))])
                .enumerate()
                .map(|(id, text)| (id as i64, text))
        };
        assert_eq!(fts5(texts()), ours(texts()));
    }

    proptest! {
        #![proptest_config(crate::few_cases(256))]

        #[test]
        fn any_text_is_split_as_fts5_does(
            texts in proptest::collection::vec(text(), 1..8),
        ) {
            let texts = || texts.iter().enumerate().map(|(id, text)| (id as i64, text.clone()));
            prop_assert_eq!(fts5(texts()), ours(texts()));
        }
    }

    /// Generates text of many scripts, with diacritics, marks and separators.
    fn text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "[a-zA-Z0-9_.\n ]{0,12}",
            "[àéîõüßøÆŁıİſKÅ\u{300}-\u{331}]{0,4}",
            "[α-ωА-Яぁ-ん一-丁가-각ა-ჰԱ-Ֆ\u{10400}-\u{10450}]{0,4}",
            "[\u{80}-\u{bf}\u{2000}-\u{206f}\u{fe00}-\u{fe0f}\u{1f600}-\u{1f64f}]{0,3}",
            "\\PC{0,6}",
            any::<String>().prop_map(|text| text.replace('\0', " ")),
        ];
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }
}
