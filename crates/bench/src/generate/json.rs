//! Writes JSON strings directly into a `String`, with the escapes of `JSON.stringify`.
//!
//! `serde_json::Value` is not used: it would copy every text, and sort fields whose order matters.

use std::fmt::Write as _;

/// Appends `text` as a JSON string, quotes included.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    push_escaped(out, text);
    out.push('"');
}

/// Appends `text` escaped for the inside of a JSON string.
pub(crate) fn push_escaped(out: &mut String, text: &str) {
    out.reserve(text.len() + text.len() / 16);
    let mut unescaped_from = 0;
    for (index, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[unescaped_from..index]);
        unescaped_from = index + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            _ => push_display(out, format_args!("\\u{byte:04x}")),
        }
    }
    out.push_str(&text[unescaped_from..]);
}

/// Appends formatted text.
pub(crate) fn push_display(out: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing into a String cannot fail.
    let _ = out.write_fmt(what);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_by_json_stringify() {
        for text in ["", "plain", "\"\\\n\t\r\u{8}\u{c}\u{1b}[0m", "größe → 12"] {
            let mut json = String::new();
            push_string(&mut json, text);
            // serde_json escapes like JavaScript.
            assert_eq!(json, serde_json::to_string(text).unwrap());
        }
    }
}
