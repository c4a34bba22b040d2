//! Masks secrets inside JSON, which stays JSON.
//!
//! Only strings that hold a secret are rewritten; every other byte stays unchanged.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::IgnoredAny;

use super::{Redactor, find, merge};

/// Maximum length in bytes of a string of base64 characters that is searched. Longer ones are
/// binary data such as images.
const MAX_BASE64_BYTES: usize = 1024;

/// Maximum length in bytes of a value that is masked because of its key alone.
const MAX_KEYED_BYTES: usize = 4096;

impl Redactor {
    /// Returns a record with secrets masked. JSON stays JSON; anything else is masked as text.
    pub fn mask_record<'t>(&mut self, record: &'t [u8]) -> Cow<'t, [u8]> {
        if let Ok(text) = std::str::from_utf8(record) {
            return match self.mask_json(text) {
                Cow::Borrowed(_) => Cow::Borrowed(record),
                Cow::Owned(masked) => Cow::Owned(masked.into_bytes()),
            };
        }
        let mut masked = Vec::with_capacity(record.len());
        for chunk in record.utf8_chunks() {
            masked.extend_from_slice(self.mask(chunk.valid()).as_bytes());
            masked.extend_from_slice(chunk.invalid());
        }
        Cow::Owned(masked)
    }

    /// Returns JSON with secrets masked. Text that is not JSON is masked as text.
    pub fn mask_json<'t>(&mut self, json: &'t str) -> Cow<'t, str> {
        if serde_json::from_str::<IgnoredAny>(json).is_err() {
            return self.mask(json);
        }
        let mut masked = String::new();
        let mut written = 0;
        for string in Strings::of(json) {
            if let Some(changed) = self.mask_string(&json[string.at.clone()], string.key(json)) {
                masked.push_str(&json[written..string.at.start]);
                masked.push_str(&changed);
                written = string.at.end;
            }
        }
        if written == 0 {
            return Cow::Borrowed(json);
        }
        masked.push_str(&json[written..]);
        Cow::Owned(masked)
    }

    /// Masks one string with its quotes; returns `None` if it holds no secret. Its key may mark it
    /// as a secret.
    fn mask_string(&mut self, quoted: &str, key: Option<&str>) -> Option<String> {
        let inner = quoted.get(1..quoted.len().checked_sub(1)?)?;
        if inner.len() > MAX_BASE64_BYTES && is_blob(inner) {
            return None;
        }
        let text: Cow<'_, str> = if inner.contains('\\') {
            match serde_json::from_str::<String>(quoted) {
                Ok(text) => Cow::Owned(text),
                // Half of a surrogate pair, which a Rust string cannot hold.
                Err(_) => return self.mask_escaped(inner),
            }
        } else {
            Cow::Borrowed(inner)
        };
        let mut found = self.find(&text);
        if let Some(key) = key
            && text.len() <= MAX_KEYED_BYTES
            && may_name_secret(key)
        {
            let start = key.len() + 2;
            let assignment = format!("{key}=\"{text}\"");
            found.extend(find::by_rules(&assignment).into_iter().filter_map(|mut found| {
                let end = found.at.end.min(start + text.len());
                found.at = found.at.start.max(start).checked_sub(start)?..end.checked_sub(start)?;
                (!found.at.is_empty()).then_some(found)
            }));
            found = merge(found);
        }
        match self.replace(&text, &found) {
            Cow::Borrowed(_) => None,
            Cow::Owned(masked) => serde_json::to_string(&masked).ok(),
        }
    }

    /// Masks the text between quotes without decoding its escapes.
    fn mask_escaped(&mut self, inner: &str) -> Option<String> {
        let mut found = self.find(inner);
        for secret in &mut found {
            // An escape is masked whole or not at all.
            let before = &inner.as_bytes()[..secret.at.end];
            let slashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
            if slashes % 2 == 1 {
                secret.at.end += inner[secret.at.end..].chars().next().map_or(0, char::len_utf8);
            }
        }
        match self.replace(inner, &merge(found)) {
            Cow::Borrowed(_) => None,
            Cow::Owned(masked) => Some(format!("\"{masked}\"")),
        }
    }
}

/// Returns whether secrets may be stored under this key.
fn may_name_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["pass", "secret", "token", "key", "auth", "cred"].iter().any(|word| key.contains(word))
}

fn is_blob(text: &str) -> bool {
    text.bytes().all(|byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=')
    })
}

/// A string in JSON.
struct JsonString {
    /// The range of the string, with its quotes.
    at: Range<usize>,
    /// The range of its key, with its quotes.
    key: Option<Range<usize>>,
}

impl JsonString {
    fn key<'t>(&self, json: &'t str) -> Option<&'t str> {
        let key = self.key.clone()?;
        json.get(key.start + 1..key.end.checked_sub(1)?)
    }
}

/// Iterates over the strings of valid JSON.
struct Strings<'t> {
    bytes: &'t [u8],
    at: usize,
    last: Option<Range<usize>>,
    key: Option<Range<usize>>,
}

impl<'t> Strings<'t> {
    fn of(json: &'t str) -> Strings<'t> {
        Strings { bytes: json.as_bytes(), at: 0, last: None, key: None }
    }
}

impl Iterator for Strings<'_> {
    type Item = JsonString;

    fn next(&mut self) -> Option<JsonString> {
        loop {
            let next = memchr::memchr3(b'"', b':', b',', self.bytes.get(self.at..)?)?;
            let start = self.at + next;
            self.at = start + 1;
            match self.bytes[start] {
                b':' => self.key = self.last.take(),
                b',' => self.key = None,
                _ => {
                    while let Some(next) = memchr::memchr2(b'"', b'\\', &self.bytes[self.at..]) {
                        let is_escape = self.bytes[self.at + next] == b'\\';
                        self.at =
                            (self.at + next + 1 + usize::from(is_escape)).min(self.bytes.len());
                        if !is_escape {
                            break;
                        }
                    }
                    let at = start..self.at;
                    self.last = Some(at.clone());
                    return Some(JsonString { at, key: self.key.clone() });
                }
            }
        }
    }
}
