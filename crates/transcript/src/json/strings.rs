//! Lengths and texts of JSON strings as JavaScript has them, halves of surrogate pairs included.

use serde_json::value::RawValue;

/// Returns the number of UTF-16 units of a text, which is JavaScript's `length`.
pub(crate) fn utf16_len(text: &str) -> u64 {
    // A continuation byte begins no unit, and a character of four bytes has two units.
    let units = |byte: &u8| u64::from(byte & 0xc0 != 0x80) + u64::from(*byte >= 0xf0);
    text.as_bytes().iter().map(units).sum()
}

/// Returns the number of UTF-16 units of a JSON string; `None` if the value is not a string.
pub(crate) fn string_len(value: &RawValue) -> Option<u64> {
    let inner = inner(value)?;
    if !inner.contains('\\') {
        return Some(utf16_len(inner));
    }
    let mut parts = inner.split('\\');
    let mut units = parts.next().map_or(0, utf16_len);
    while let Some(part) = parts.next() {
        // Every escape is one unit; `\uXXXX` has four more digits.
        units += 1;
        units += match part.as_bytes().first() {
            // The escaped backslash ends this part, and the next one is plain text.
            None => parts.next().map_or(0, utf16_len),
            Some(b'u') => utf16_len(part).saturating_sub(5),
            Some(_) => utf16_len(part).saturating_sub(1),
        };
    }
    Some(units)
}

/// Returns the text of a JSON string, with half of a surrogate pair replaced; `None` if the value
/// is not a string.
pub(crate) fn lossy_text(value: &RawValue) -> Option<String> {
    if let Some(text) = super::object::text(value) {
        return Some(text.into_owned());
    }
    let mut units = Vec::new();
    let mut characters = inner(value)?.chars();
    while let Some(character) = characters.next() {
        let mut buffer = [0; 2];
        let mut push = |character: char| {
            units.extend_from_slice(character.encode_utf16(&mut buffer));
        };
        if character != '\\' {
            push(character);
            continue;
        }
        match characters.next()? {
            'b' => push('\u{8}'),
            'f' => push('\u{c}'),
            'n' => push('\n'),
            'r' => push('\r'),
            't' => push('\t'),
            'u' => {
                let digits: String = characters.by_ref().take(4).collect();
                units.push(u16::from_str_radix(&digits, 16).ok()?);
            }
            other => push(other),
        }
    }
    Some(String::from_utf16_lossy(&units))
}

/// Returns the characters between the quotes of a JSON string.
fn inner(value: &RawValue) -> Option<&str> {
    value.get().strip_prefix('"')?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_javascript() {
        for (json, length) in [
            (r#""""#, 0),
            (r#""abc""#, 3),
            (r#""ä😀""#, 3),
            (r#""\n\"\\""#, 3),
            (r#""\\n\\\\x""#, 5),
            (r#""\u00e4b""#, 2),
            (r#""\ud83d\ude00""#, 2),
            (r#""\ud83dx""#, 2),
            (r#""\\u0041""#, 6),
            (r#""a\/b""#, 3),
        ] {
            let value: Box<RawValue> = serde_json::from_str(json).unwrap();
            assert_eq!(string_len(&value), Some(length), "{json}");
            let text = lossy_text(&value).unwrap();
            assert_eq!(utf16_len(&text), length, "{json}");
        }
        let number: Box<RawValue> = serde_json::from_str("5").unwrap();
        assert_eq!((string_len(&number), lossy_text(&number)), (None, None));
        let half: Box<RawValue> = serde_json::from_str(r#""a\ud83d\n""#).unwrap();
        assert_eq!(lossy_text(&half).as_deref(), Some("a\u{fffd}\n"));
    }
}
