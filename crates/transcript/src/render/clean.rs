//! Makes untrusted text harmless to show.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns the text without terminal control sequences (colours, titles, cursor moves), with
/// newlines as line ends, and with every character visible that could reorder or hide others.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|character| character == '\r' || is_odd(character)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => match characters.peek() {
                Some('[') => {
                    characters.next();
                    // The sequence ends at the letter that names its command.
                    while let Some(next) = characters.next_if(|next| matches!(next, ' '..='\u{7e}'))
                    {
                        if matches!(next, '@'..='~') {
                            break;
                        }
                    }
                }
                Some(']') => {
                    characters.next();
                    // A title or a link target, up to its end or the end of the line.
                    while let Some(next) = characters.next_if(|next| *next != '\n') {
                        if next == '\u{7}' || next == '\u{9c}' {
                            break;
                        }
                        if next == '\u{1b}' {
                            characters.next_if_eq(&'\\');
                            break;
                        }
                    }
                }
                _ => shown.push('␛'),
            },
            '\r' => {
                if characters.peek() != Some(&'\n') {
                    shown.push('\n');
                }
            }
            '\0'..='\u{1f}' if is_odd(character) => {
                let picture = char::from_u32(0x2400 + u32::from(character));
                shown.push(picture.unwrap_or('\u{fffd}'));
            }
            character if is_odd(character) => {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
            }
            character => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// Returns the cleaned text on one line.
pub fn line(text: &str) -> String {
    let text = clean(text);
    let mut words = text.split_whitespace();
    let mut line = words.next().unwrap_or_default().to_owned();
    for word in words {
        line.push(' ');
        line.push_str(word);
    }
    line
}

/// Returns true for control characters, characters that change the direction of text, and tags.
/// Joiners stay, because languages and emoji need them.
pub(super) fn is_odd(character: char) -> bool {
    (character.is_control() && !matches!(character, '\n' | '\t'))
        || matches!(character,
            '\u{61c}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0001}'
            | '\u{e0020}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::{clean, is_odd, line};

    #[test]
    fn control_sequences_are_removed() {
        for (text, shown) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[1;32mgreen\u{1b}[0m", "green"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;https://x\u{1b}\\b", "ab"),
            ("a\r\nb\rc", "a\nb\nc"),
            ("a\u{1b}", "a␛"),
            ("a\u{1b}[", "a"),
            ("a\0b\u{8}", "a␀b␈"),
            ("a\u{202e}b\u{9b}31m", "a\\u{202e}b\\u{9b}31m"),
            ("👩‍💻 می‌خواهم", "👩‍💻 می‌خواهم"),
        ] {
            assert_eq!(clean(text), shown, "{text:?}");
            assert!(!clean(text).contains(is_odd));
        }
        assert_eq!(line(" a \n b\t"), "a b");
    }
}
