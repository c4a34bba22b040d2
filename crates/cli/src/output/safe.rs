//! Escapes text from outside before it reaches the terminal.
//!
//! File names, session ids and error messages may contain control characters, which a terminal
//! obeys. Characters that move the cursor, change colours, reorder text or are invisible are
//! escaped. The two join controls are kept inside words and emoji: Persian, Hindi and emoji
//! families need them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The zero-width non-joiner.
const ZWNJ: char = '\u{200c}';

/// The zero-width joiner.
const ZWJ: char = '\u{200d}';

/// Escapes every character that a terminal would act on or hide, except join controls between two
/// visible characters that are not ASCII.
///
/// Line breaks and tabs count too: one value stays on one line.
pub(crate) fn safe(text: &str) -> Cow<'_, str> {
    if is_plain(text) || !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut previous = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let last = std::mem::replace(&mut previous, character);
        match character {
            ZWNJ | ZWJ if joins(last) && characters.peek().copied().is_some_and(joins) => {
                shown.push(character);
            }
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            character if is_unsafe(character) => {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
            }
            character => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// Escapes the same characters in JSON text. Its meaning stays the same.
///
/// Outside of strings, JSON is plain ASCII, and serde escapes C0 itself. So every character found
/// here is inside a string.
pub(crate) fn safe_json(json: &str) -> Cow<'_, str> {
    if is_plain(json) || !json.chars().any(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_unsafe(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Returns true if a join control may stand next to the character. ASCII is excluded: no word
/// needs a join control there, and an invisible character could make two names look alike.
fn joins(character: char) -> bool {
    !character.is_ascii() && !character.is_whitespace() && !is_unsafe(character)
}

/// Returns true for printable ASCII, which needs no closer look.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Returns true for control characters, line and paragraph separators, and Unicode's format
/// characters (`Cf`): direction overrides, zero-width characters, tags.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0001}'
            | '\u{e0020}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::{safe, safe_json};

    #[track_caller]
    fn check(text: &str, shown: &str) {
        assert_eq!(safe(text), shown);
        let json = serde_json::to_string(text).unwrap();
        let escaped = safe_json(&json);
        assert!(!escaped.chars().any(super::is_unsafe), "{escaped:?}");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
    }

    #[test]
    fn ordinary_text_stays() {
        check(
            "a path/with späces, 日本語 and \\ \"quotes\"",
            "a path/with späces, 日本語 and \\ \"quotes\"",
        );
    }

    #[test]
    fn c0_and_del_are_written_out() {
        check("a\nb\rc\td\0e\x07\x1b[31m\x7f", "a\\nb\\rc\\td\\u{0}e\\u{7}\\u{1b}[31m\\u{7f}");
    }

    #[test]
    fn c1_is_written_out() {
        check("\u{9b}31m\u{85}", "\\u{9b}31m\\u{85}");
    }

    #[test]
    fn direction_and_zero_width_are_written_out() {
        check("a\u{202e}b\u{2066}c\u{200b}d\u{feff}", "a\\u{202e}b\\u{2066}c\\u{200b}d\\u{feff}");
        check("tag \u{e0041}", "tag \\u{e0041}");
    }

    #[test]
    fn join_controls_inside_words_and_emoji_stay() {
        for text in
            ["👨\u{200d}👩\u{200d}👧", "می\u{200c}خواهم", "क्\u{200d}ष", "🏳\u{fe0f}\u{200d}🌈"]
        {
            check(text, text);
        }
    }

    #[test]
    fn join_controls_that_hide_something_are_written_out() {
        check("pay\u{200c}pal", "pay\\u{200c}pal");
        check("\u{200d}é", "\\u{200d}é");
        check("é\u{200d}", "é\\u{200d}");
        check("é\u{200d}\u{200c}é", "é\\u{200d}\\u{200c}é");
        check("é\u{200d}\u{202e}é", "é\\u{200d}\\u{202e}é");
    }

    #[test]
    fn every_control_character_is_written_out() {
        for character in ('\0'..='\u{10ffff}').filter(|character| character.is_control()) {
            assert!(!safe(&character.to_string()).contains(character));
        }
    }
}
