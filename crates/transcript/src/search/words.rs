//! The words of a text and their offsets, folded like those of the search index: letters and digits
//! of all scripts, without case and accents.
//!
//! The index's own tokenizer decides what matches. This one only finds the offset to show, so a few
//! differences do no harm.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word<'t> {
    /// The word without case and accents.
    pub folded: Cow<'t, str>,
    /// The start in bytes.
    pub start: usize,
    /// The end in bytes.
    pub end: usize,
}

/// Returns the words of a text, in order.
pub fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let start = loop {
            let (at, character) = rest.next()?;
            if is_word(character) && !is_combining_mark(character) {
                break at;
            }
        };
        while rest.next_if(|(_, character)| is_word(*character)).is_some() {}
        let end = rest.peek().map_or(text.len(), |(at, _)| *at);
        Some(Word { folded: fold(text.get(start..end).unwrap_or_default()), start, end })
    })
}

/// Returns a word without case and accents.
pub fn fold(word: &str) -> Cow<'_, str> {
    if word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return Cow::Borrowed(word);
    }
    if word.is_ascii() {
        return Cow::Owned(word.to_ascii_lowercase());
    }
    let plain = word.nfd().filter(|character| !is_combining_mark(*character));
    Cow::Owned(plain.flat_map(char::to_lowercase).nfc().collect())
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || (!character.is_ascii() && is_combining_mark(character))
}

/// Returns the number of letters to add, remove, replace or swap with the next to make one word of
/// the other.
pub fn distance(one: &str, other: &str) -> usize {
    strsim::osa_distance(one, other)
}

/// Returns whether a text is in a script without spaces between words. The index stores only whole
/// runs of such text, in which single words cannot be found.
pub fn has_no_spaces(text: &str) -> bool {
    !text.is_ascii()
        && text.chars().any(|character| {
            matches!(u32::from(character),
                0x0E00..=0x0EFF           // Thai, Lao
                | 0x1000..=0x109F         // Myanmar
                | 0x1100..=0x11FF         // Hangul, in parts
                | 0x1780..=0x17FF         // Khmer
                | 0x3040..=0x30FF         // kana
                | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF // Han
                | 0xAC00..=0xD7AF         // Hangul
                | 0xFF66..=0xFF9F) // half-width kana
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_offsets() {
        let found: Vec<_> = words("a_B2, Café!")
            .map(|word| (word.folded.into_owned(), word.start, word.end))
            .collect();
        assert_eq!(
            found,
            [("a".to_owned(), 0, 1), ("b2".to_owned(), 2, 4), ("cafe".to_owned(), 6, 11)]
        );
        assert_eq!(words("@@ == ...").count(), 0);
    }

    #[test]
    fn scripts_without_spaces_are_recognised() {
        assert!(has_no_spaces("检索") && has_no_spaces("かな") && has_no_spaces("한국어"));
        assert!(!has_no_spaces("naïve") && !has_no_spaces("поиск"));
    }
}
