//! Summarizes a tool call in one line, and finds error words in a result.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;
use unicode_width::UnicodeWidthChar;

/// The keys of a tool's input that summarize the call, best first.
pub const ABOUT_KEYS: &[&str] =
    &["file_path", "path", "notebook_path", "command", "query", "pattern", "url", "prompt"];

/// The words that mark a result in formats that do not always record errors.
pub const ERROR_WORDS: &[&str] = &["error", "Error", "failed", "FAILED"];

/// Returns true if a text holds one of [`ERROR_WORDS`].
pub fn mentions_error(text: &str) -> bool {
    ERROR_WORDS.iter().any(|word| memchr::memmem::find(text.as_bytes(), word.as_bytes()).is_some())
}

/// Returns a summary of a call's input: the first of [`ABOUT_KEYS`] with a value, on one line of at
/// most `columns` columns. `None` if the tool's name must be enough.
pub fn about(input: &str, columns: usize) -> Option<String> {
    let fields: HashMap<Cow<'_, str>, &RawValue> = match serde_json::from_str(input) {
        Ok(fields) => fields,
        Err(_) => {
            // Some agents write the arguments as JSON inside a string.
            let inner: String = serde_json::from_str(input).ok()?;
            return if inner.trim_start().starts_with('{') { about(&inner, columns) } else { None };
        }
    };
    ABOUT_KEYS.iter().find_map(|key| {
        let value = fields.get(*key)?.get();
        let words = match serde_json::from_str::<SummaryValue<'_>>(value).ok()? {
            SummaryValue::Text(text) => text,
            SummaryValue::List(words) => Cow::Owned(words.join(" ")),
        };
        let line = one_line(&words, columns);
        (!line.is_empty()).then_some(line)
    })
}

/// A value of such a key. A command may be a list of its words.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum SummaryValue<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    List(Vec<String>),
}

/// Returns the text on one line: a run of white space becomes a space, and text wider than
/// `columns` ends in `…`. Reads no more of the text than it shows.
pub fn one_line(text: &str, columns: usize) -> String {
    let mut line = String::new();
    let mut used = 0;
    let mut is_gap = false;
    for character in text.trim_start().chars() {
        if character.is_whitespace() {
            is_gap = true;
            continue;
        }
        let wide = character.width().unwrap_or(1) + usize::from(is_gap);
        if used + wide > columns {
            // Room for the ellipsis.
            while used + 1 > columns
                && let Some(last) = line.pop()
            {
                used -= last.width().unwrap_or(1);
            }
            if columns > 0 {
                line.truncate(line.trim_end().len());
                line.push('…');
            }
            return line;
        }
        if is_gap {
            line.push(' ');
            is_gap = false;
        }
        line.push(character);
        used += wide;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_that_says_something_is_it() {
        for (input, expected) in [
            (r#"{"query":"q","path":"src/a.rs"}"#, Some("src/a.rs")),
            (r#"{"command":"ls","file_path":""}"#, Some("ls")),
            (r#"{"command":["ls","-l"]}"#, Some("ls -l")),
            (r#"{"path":7,"url":"https://a.example"}"#, Some("https://a.example")),
            (r#""{\"path\":\"a\"}""#, Some("a")),
            (r#"{"command":"a\n  b\tc  "}"#, Some("a b c")),
            (r#"{"todos":[]}"#, None),
            ("[1]", None),
            ("\"x\"", None),
            ("nonsense", None),
        ] {
            assert_eq!(about(input, 120).as_deref(), expected, "{input}");
        }
    }

    #[test]
    fn a_line_is_cut_by_columns() {
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abcde…");
        assert_eq!(one_line("日本語日本語", 7), "日本語…");
        assert_eq!(one_line("ab cdefg", 4), "ab…");
        assert_eq!(one_line("ab", 0), "");
        assert_eq!(one_line("  \n ", 5), "");
    }
}
