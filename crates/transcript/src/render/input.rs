//! Formats the arguments of a call for people.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Maximum length in bytes of arguments that are formatted. Longer ones are shown as written.
const MAX_FORMATTED_BYTES: usize = 1 << 20;

/// Maximum number of indented levels.
const MAX_INDENT_LEVELS: usize = 16;

/// Formats JSON on several lines, in the order in which it was written.
pub(super) fn pretty(json: &str) -> String {
    if json.len() > MAX_FORMATTED_BYTES
        || serde_json::from_str::<serde::de::IgnoredAny>(json).is_err()
    {
        return json.to_owned();
    }
    // Some agents write the arguments as JSON inside a string.
    if let Ok(inner) = serde_json::from_str::<String>(json)
        && serde_json::from_str::<Fields>(&inner).is_ok()
    {
        return pretty(&inner);
    }
    let mut laid_out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut characters = json.chars().filter(Spaces::default().outside_of_strings()).peekable();
    let mut is_string = false;
    let mut is_escaped = false;
    while let Some(character) = characters.next() {
        laid_out.push(character);
        if is_string {
            is_string = is_escaped || character != '"';
            is_escaped = character == '\\' && !is_escaped;
            if is_string {
                continue;
            }
        } else {
            match character {
                '"' => {
                    is_string = true;
                    continue;
                }
                '{' | '[' => {
                    depth += 1;
                    if !matches!(characters.peek(), Some('}' | ']')) {
                        new_line(&mut laid_out, depth);
                    }
                }
                ',' => new_line(&mut laid_out, depth),
                ':' => laid_out.push(' '),
                '}' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        if matches!(characters.peek(), Some('}' | ']')) && !matches!(character, '{' | '[') {
            new_line(&mut laid_out, depth.saturating_sub(1));
        }
    }
    laid_out
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth.min(MAX_INDENT_LEVELS)));
}

/// Tracks whether whitespace is inside a string.
#[derive(Default)]
struct Spaces {
    is_string: bool,
    is_escaped: bool,
}

impl Spaces {
    fn outside_of_strings(mut self) -> impl FnMut(&char) -> bool {
        move |character| {
            if self.is_string {
                self.is_string = self.is_escaped || *character != '"';
                self.is_escaped = *character == '\\' && !self.is_escaped;
                return true;
            }
            self.is_string = *character == '"';
            !character.is_ascii_whitespace()
        }
    }
}

/// Returns the arguments by name: strings without quotes, other values as JSON. `None` if there are
/// no names.
pub(super) fn fields(json: &str) -> Option<Vec<(String, String)>> {
    if json.len() > MAX_FORMATTED_BYTES {
        return None;
    }
    let Fields(fields) = serde_json::from_str(json).ok()?;
    let read = |value: Box<RawValue>| match serde_json::from_str::<String>(value.get()) {
        Ok(text) => text,
        Err(_) => pretty(value.get()),
    };
    Some(fields.into_iter().map(|(name, value)| (name, read(value))).collect())
}

/// An object in the order in which it was written.
struct Fields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        struct Ordered;
        impl<'de> Visitor<'de> for Ordered {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Ordered)
    }
}

#[cfg(test)]
mod tests {
    use super::{fields, pretty};

    #[test]
    fn arguments_are_laid_out_in_order() {
        for (json, expected) in [
            (r#"{"b":1,"a":"x"}"#, "{\n  \"b\": 1,\n  \"a\": \"x\"\n}"),
            (
                r#"{ "a" : [ 1, {} , [] ], "b":"{ \" , }" }"#,
                "{\n  \"a\": [\n    1,\n    {},\n    []\n  ],\n  \"b\": \"{ \\\" , }\"\n}",
            ),
            (r#""{\"a\":1}""#, "{\n  \"a\": 1\n}"),
            ("{}", "{}"),
            ("{", "{"),
            ("7", "7"),
        ] {
            assert_eq!(pretty(json), expected);
        }
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert!(pretty(&deep).lines().count() > 100);
    }

    #[test]
    fn arguments_are_returned_by_name() {
        let found = fields(r#"{"b":"two\nlines","a":{"c":1}}"#).unwrap();
        assert_eq!(
            found,
            [
                ("b".to_owned(), "two\nlines".to_owned()),
                ("a".to_owned(), "{\n  \"c\": 1\n}".to_owned()),
            ]
        );
        assert_eq!(fields("[1]"), None);
    }
}
