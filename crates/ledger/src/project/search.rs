//! Selects the words of an entry for the search index: its whole text, except base64 and text
//! beyond the first mebibyte.
//!
//! Never shortens a record: text that is not indexed stays readable.

use std::borrow::Cow;

use quipu_transcript::story::ABOUT_KEYS;
use rusqlite::Connection;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::Result;

/// The largest size of one entry's indexed text, in bytes, to bound the index.
pub(crate) const MAX_INDEXED_BYTES: usize = 1 << 20;

/// The length, in bytes, at which a run of base64 characters is not indexed, because no word is
/// that long.
const MAX_WORD_BYTES: usize = 512;

/// The text of one entry, by its kind.
#[derive(Debug, Default)]
pub(crate) struct SearchText {
    pub(crate) prose: Text,
    pub(crate) thinking: Text,
    pub(crate) tool_input: Text,
    pub(crate) tool_result: Text,
    /// Text that programs attached to the prose.
    pub(crate) attached: Text,
    /// The number of bytes that are not indexed because the text is too long.
    pub(crate) unindexed_bytes: u64,
}

impl SearchText {
    /// Returns whether the entry is in the search index.
    pub(crate) fn is_indexed(&self) -> bool {
        let texts =
            [&self.prose, &self.thinking, &self.tool_input, &self.tool_result, &self.attached];
        self.unindexed_bytes > 0 || texts.iter().any(|text| !text.whole.is_empty())
    }

    /// Returns the indexed text, in the order of the index's columns.
    pub(crate) fn columns(&self) -> [&str; quipu_fts5::COLUMNS] {
        [&self.tool_result, &self.tool_input, &self.prose, &self.thinking, &self.attached]
            .map(Text::indexed)
    }

    /// Drops the text that was needed only for the index.
    pub(crate) fn drop_indexed(&mut self) {
        self.prose.indexed = None;
        for text in self.other_than_prose() {
            *text = Text::default();
        }
    }

    fn other_than_prose(&mut self) -> [&mut Text; 4] {
        [&mut self.tool_input, &mut self.tool_result, &mut self.thinking, &mut self.attached]
    }

    /// Selects the indexed text. No text may be added after this.
    pub(crate) fn seal(&mut self) {
        let mut left = MAX_INDEXED_BYTES;
        self.unindexed_bytes += self.prose.seal(&mut left);
        let mut left_out = 0;
        for text in self.other_than_prose() {
            left_out += text.seal(&mut left);
        }
        self.unindexed_bytes += left_out;
        // Only prose is needed in its original form.
        for text in self.other_than_prose() {
            if let Some(indexed) = text.indexed.take() {
                text.whole = indexed;
            }
        }
    }
}

/// A text of several pieces, joined by newlines.
#[derive(Debug, Default)]
pub(crate) struct Text {
    whole: String,
    /// The indexed text, if it differs from the whole text.
    indexed: Option<String>,
}

impl Text {
    /// Adds a piece.
    pub(crate) fn push(&mut self, piece: &str) {
        if piece.is_empty() {
            return;
        }
        if !self.whole.is_empty() {
            self.whole.push('\n');
        }
        self.whole.push_str(piece);
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.whole
    }

    /// Returns the indexed text.
    pub(crate) fn indexed(&self) -> &str {
        self.indexed.as_ref().unwrap_or(&self.whole)
    }

    /// Selects the indexed text, at most `left` bytes. Returns the number of bytes left out.
    fn seal(&mut self, left: &mut usize) -> u64 {
        let mut text = without_base64(&self.whole);
        let end = text.floor_char_boundary(*left);
        let cut = text.len() - end;
        if cut > 0 {
            text.to_mut().truncate(end);
        }
        *left -= end;
        if let Cow::Owned(text) = text {
            self.indexed = Some(text);
        }
        cut as u64
    }
}

/// Returns the text without runs of base64. A NUL becomes a space, because SQLite would end the
/// word there.
fn without_base64(text: &str) -> Cow<'_, str> {
    let has_nul = memchr::memchr(0, text.as_bytes()).is_some();
    if text.len() < MAX_WORD_BYTES && !has_nul {
        return Cow::Borrowed(text);
    }
    let is_base64 =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'_' | b'-');
    let bytes = text.as_bytes();
    let mut kept: Option<String> = None;
    let mut copied = 0;
    let mut at = 0;
    // Looks at every MAX_WORD_BYTES-th byte only: a run of that length cannot lie between two of
    // them.
    while let Some(probe) = bytes.get(at..).and_then(|rest| rest.get(MAX_WORD_BYTES - 1)) {
        if !is_base64(*probe) {
            at += MAX_WORD_BYTES;
            continue;
        }
        let middle = at + MAX_WORD_BYTES - 1;
        let start = bytes
            .get(copied..middle)
            .unwrap_or_default()
            .iter()
            .rposition(|byte| !is_base64(*byte))
            .map_or(copied, |last| copied + last + 1);
        let end = bytes
            .get(middle..)
            .unwrap_or_default()
            .iter()
            .position(|byte| !is_base64(*byte))
            .map_or(bytes.len(), |length| middle + length);
        if end - start >= MAX_WORD_BYTES {
            let kept = kept.get_or_insert_default();
            kept.push_str(text.get(copied..start).unwrap_or_default());
            kept.push(' ');
            copied = end;
        }
        at = end;
    }
    let text = match kept {
        None => Cow::Borrowed(text),
        Some(mut kept) => {
            kept.push_str(text.get(copied..).unwrap_or_default());
            Cow::Owned(kept)
        }
    };
    if has_nul { Cow::Owned(text.replace('\0', " ")) } else { text }
}

/// The number of index pages that are merged with every commit, so that a commit stays short.
const MERGED_PAGES: i64 = 16;

/// Merges some segments of the index. The work is bounded for any size of ledger; the next commit
/// continues.
pub(crate) fn merge(conn: &Connection) -> Result<()> {
    conn.prepare_cached("INSERT INTO search (search, rank) VALUES ('merge', ?1)")?
        .execute([MERGED_PAGES])?;
    Ok(())
}

/// The largest length of a target in bytes, because it is one line for people.
pub(super) const MAX_TARGET_BYTES: usize = 160;

/// The largest length of a path in bytes: Linux's own limit. Paths may be longer than other
/// targets, because the end of a path identifies it.
const MAX_PATH_BYTES: usize = 4096;

/// Adds every string inside a piece of JSON to `text`, and returns the target of the call.
pub(crate) fn push_strings(text: &mut Text, json: &str) -> Option<String> {
    let mut strings = Strings { text, target: None, rank: ABOUT_KEYS.len(), depth: 0 };
    let mut deserializer = serde_json::Deserializer::from_str(json);
    // JSON that cannot be parsed is not indexed; the record itself is kept whole.
    let _ = strings.deserialize(&mut deserializer);
    strings.target
}

/// A visitor of JSON that adds all strings to `text` and keeps the best target.
struct Strings<'t> {
    text: &'t mut Text,
    target: Option<String>,
    /// The position of the target's key in [`ABOUT_KEYS`].
    rank: usize,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for &mut Strings<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Strings<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.text.push(value);
        // Some agents write the arguments as JSON inside a string.
        if self.depth == 0 && value.trim_start().starts_with('{') {
            self.target = push_strings(&mut Text::default(), value);
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.depth += 1;
        while seq.next_element_seed(&mut *self)?.is_some() {}
        self.depth -= 1;
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.depth += 1;
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            let rank =
                ABOUT_KEYS.iter().position(|target| *target == key).unwrap_or(ABOUT_KEYS.len());
            if self.depth == 1 && rank < self.rank {
                let value = map.next_value::<serde_json::Value>()?;
                push_value(self.text, &value);
                // An empty value is not a target; the next key may have one.
                if let Some(mut value) =
                    value_as_text(value).filter(|value| !value.trim().is_empty())
                {
                    let most = match key.ends_with("path") {
                        true => MAX_PATH_BYTES,
                        false => MAX_TARGET_BYTES,
                    };
                    let mut end = most.min(value.len());
                    while !value.is_char_boundary(end) {
                        end -= 1;
                    }
                    value.truncate(end);
                    self.rank = rank;
                    self.target = Some(value);
                }
            } else if self.text.as_str().len() > MAX_INDEXED_BYTES {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(&mut *self)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }
}

/// Returns the value of a key as text: a string, or the joined words of a command.
fn value_as_text(value: serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::String(text) => Some(text),
        serde_json::Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(serde_json::Value::as_str).collect();
            words.map(|words| words.join(" "))
        }
        _ => None,
    }
}

fn push_value(text: &mut Text, value: &serde_json::Value) {
    match value {
        serde_json::Value::String(string) => text.push(string),
        serde_json::Value::Array(list) => list.iter().for_each(|value| push_value(text, value)),
        serde_json::Value::Object(map) => map.values().for_each(|value| push_value(text, value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_left_out() {
        let blob = "QUJD".repeat(400);
        let text = format!("before {blob} after");
        assert_eq!(without_base64(&text), "before   after");
        let words = "short words ".repeat(200);
        assert_eq!(without_base64(&words), words);
        assert_eq!(without_base64(&blob), " ");
    }

    #[test]
    fn a_nul_separates_words() {
        assert_eq!(without_base64("a\0b"), "a b");
    }

    #[test]
    fn the_target_belongs_to_the_first_of_the_about_keys() {
        let mut text = Text::default();
        let target = push_strings(
            &mut text,
            r#"{"query":"q","edits":[{"a":"deep"}],"path":"src/a.rs","n":1e400}"#,
        );
        assert_eq!(target.as_deref(), Some("src/a.rs"));
        assert_eq!(text.as_str(), "q\ndeep\nsrc/a.rs");
    }
}
