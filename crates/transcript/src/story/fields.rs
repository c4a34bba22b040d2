//! Adds to a story item the fields of its record that it does not show otherwise.
//!
//! `show --full` ends each item with these fields. [`left_out`] lists the names that are skipped,
//! at every depth of a record; the view of a single entry has them too.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use super::{Folded, ItemKind, Piece, StoryItem};
use crate::format::Format;

/// The label of the piece that holds the fields.
pub const RECORD_LABEL: &str = "record";

/// The label of the piece that holds a record that is not JSON.
const UNREADABLE_LABEL: &str = "unreadable";

/// The names of fields that are left out for every format, each with the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("type", "the kind of the item"),
    ("id", "an id; `--json` has it"),
    ("cwd", "the first one is at the top of the story; `--entry` shows it"),
    ("version", "the release that wrote the record; `--entry` shows it"),
    ("timestamp", "the time of the item"),
    ("role", "the kind of the item"),
    ("model", "the last one is at the top of the story; `--json` has it"),
    ("usage", "counted by `quipu usage`"),
    ("cost", "counted by `quipu usage`"),
];

/// Returns the names of the fields that are left out if a whole session is shown, each with the
/// reason. If a single entry is shown, only image data is left out.
pub fn left_out(
    format: &dyn Format,
) -> impl Iterator<Item = &'static (&'static str, &'static str)> + use<> {
    LEFT_OUT.iter().chain(format.fields_left_out())
}

/// The names of fields with image data, which is never shown.
const IMAGE_FIELDS: &[&str] = &["data", "base64"];

/// The smallest length in bytes at which a field of [`IMAGE_FIELDS`] without whitespace is taken
/// for base64.
const MIN_BASE64_BYTES: usize = 512;

/// Adds the fields of `record` that the item does not show yet, and a record that is not JSON as
/// text. Fields of [`left_out`] are skipped unless the item is the only one that is shown.
pub fn add_fields(
    format: &dyn Format,
    item: &mut StoryItem<'_>,
    record: &[u8],
    is_only_item: bool,
) {
    let Ok(record) = serde_json::from_slice::<Value>(record) else {
        let text = String::from_utf8_lossy(record).trim().to_owned();
        if !text.is_empty() && item.pieces.is_empty() {
            item.pieces.push(attached(UNREADABLE_LABEL, text));
        }
        return;
    };
    let left_out = match is_only_item {
        true => Vec::new(),
        false => left_out(format).map(|(name, _)| *name).collect(),
    };
    let mut fields = FieldText {
        left_out,
        shown: ShownText::new(shown_text(item)),
        text: String::new(),
        is_message: false,
        was_short: false,
    };
    fields.add(&record, &mut String::new());
    if !fields.text.is_empty() {
        item.pieces.push(attached(RECORD_LABEL, fields.text));
    }
}

fn attached<'a>(label: &'static str, text: String) -> Piece<'a> {
    Piece::Attached { label: Cow::Borrowed(label), text: Cow::Owned(text), gist: None }
}

/// Returns the item of a record in which no entry was found.
pub fn unreadable_item<'a>(record: &[u8]) -> StoryItem<'a> {
    let text = String::from_utf8_lossy(record).trim().to_owned();
    StoryItem {
        type_name: Cow::Borrowed(UNREADABLE_LABEL),
        kind: ItemKind::Note,
        folded: Some(Folded::Bookkeeping),
        pieces: vec![attached(UNREADABLE_LABEL, text)],
        ..StoryItem::default()
    }
}

/// Collects the fields of one record as text.
struct FieldText {
    left_out: Vec<&'static str>,
    shown: ShownText,
    /// The fields so far.
    text: String,
    /// True inside the message, its content or an attachment.
    is_message: bool,
    /// True if the last field was short.
    was_short: bool,
}

impl FieldText {
    /// Adds a value and everything in it. `path` is its place in the record, like
    /// `message.content[0].text`.
    fn add(&mut self, value: &Value, path: &mut String) {
        let end = path.len();
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if self.left_out.contains(&&**name) || is_image_data(name, value) {
                        continue;
                    }
                    if end > 0 {
                        path.push('.');
                    }
                    path.push_str(name);
                    let was_message = self.is_message;
                    self.is_message |= matches!(&**name, "message" | "content" | "attachment");
                    self.add(value, path);
                    self.is_message = was_message;
                    path.truncate(end);
                }
            }
            Value::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    // Writing to a string cannot fail.
                    let _ = write!(path, "[{index}]");
                    self.add(value, path);
                    path.truncate(end);
                }
            }
            Value::Null => {}
            Value::String(text) if self.is_shown(text) => {}
            Value::String(text) => self.push_field(path, text),
            value => self.push_field(path, &value.to_string()),
        }
    }

    /// Returns whether the item already shows `text`, perhaps in several pieces. Short texts outside
    /// of the message are not compared: the item may have the same word by chance. An empty text
    /// counts as shown.
    fn is_shown(&mut self, text: &str) -> bool {
        const MIN_COMPARED_BYTES: usize = 16;
        let is_compared = self.is_message || text.len() >= MIN_COMPARED_BYTES;
        text.trim().is_empty() || (is_compared && self.shown.contains(text))
    }

    /// Adds a field. Short fields share a line; a long one gets its own line.
    fn push_field(&mut self, path: &str, value: &str) {
        const MAX_INLINE_BYTES: usize = 60;
        let is_short = path.len() + value.len() <= MAX_INLINE_BYTES && !value.contains('\n');
        if !self.text.is_empty() {
            self.text.push_str(if is_short && self.was_short { " · " } else { "\n" });
        }
        self.was_short = is_short;
        let _ = write!(self.text, "{path}: {value}");
    }
}

/// Returns whether a field holds image data.
fn is_image_data(name: &str, value: &Value) -> bool {
    let is_long = |text: &str| {
        text.len() >= MIN_BASE64_BYTES && !text.bytes().any(|byte| byte.is_ascii_whitespace())
    };
    IMAGE_FIELDS.contains(&name) && value.as_str().is_some_and(is_long)
}

/// The text that an item shows, without whitespace, because only whitespace separates its pieces.
struct ShownText {
    text: String,
    /// The end of the text that was found last. Fields mostly have the order in which they are
    /// shown.
    end: usize,
    /// The number of bytes that were searched so far.
    searched: usize,
}

impl ShownText {
    /// Maximum number of bytes that are searched for fields in another order than the item's.
    /// Further fields are repeated instead, because a hostile record could take minutes.
    const MAX_SEARCHED_BYTES: usize = 64 << 20;

    fn new(text: String) -> ShownText {
        ShownText { text, end: 0, searched: 0 }
    }

    /// Returns whether a text is here, apart from whitespace.
    fn contains(&mut self, text: &str) -> bool {
        let found = self.next_is(text).or_else(|| {
            let is_affordable = self.searched <= Self::MAX_SEARCHED_BYTES;
            let text: String = text.split_whitespace().collect();
            self.searched += if is_affordable { self.text.len() } else { 0 };
            let start = is_affordable.then(|| self.text.find(&text)).flatten()?;
            Some(start + text.len())
        });
        self.end = found.unwrap_or(self.end);
        found.is_some()
    }

    /// Returns the end of a text if it directly follows the one that was found last.
    fn next_is(&self, text: &str) -> Option<usize> {
        let mut rest = self.text.get(self.end..)?;
        for word in text.split_whitespace() {
            rest = rest.strip_prefix(word)?;
        }
        Some(self.text.len() - rest.len())
    }
}

/// Returns all text that the item shows, without whitespace.
fn shown_text(item: &StoryItem<'_>) -> String {
    let mut shown = String::new();
    let mut add = |text: &str| shown.extend(text.split_whitespace());
    for piece in &item.pieces {
        match piece {
            Piece::Words(text) | Piece::Thinking(text) | Piece::Other(text) => add(text),
            Piece::Attached { text, .. } | Piece::Pasted { text, .. } => add(text),
            Piece::Call(call) => {
                add(&call.name);
                if let Some(input) = &call.input {
                    strings(&serde_json::from_str(input.get()).unwrap_or_default(), &mut add);
                }
            }
            Piece::Result(result) => {
                add(&result.text);
                result.name.iter().for_each(|name| add(name));
            }
            Piece::Image { media_type } => media_type.iter().for_each(|kind| add(kind)),
        }
    }
    match &item.kind {
        ItemKind::Compaction(compaction) => {
            add(&compaction.summary);
            compaction.read_files.iter().chain(&compaction.modified_files).for_each(|f| add(f));
        }
        ItemKind::BranchSummary { summary, .. } => add(summary),
        _ => {}
    }
    shown
}

/// Calls `add` with every string in a value, and with those in JSON inside a string.
fn strings(value: &Value, add: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => {
            add(text);
            // Some agents write the arguments as JSON inside a string.
            if let Ok(inner @ Value::Object(_)) = serde_json::from_str(text) {
                strings(&inner, add);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| strings(value, add)),
        Value::Object(fields) => fields.values().for_each(|value| strings(value, add)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_the_order_of_the_item_are_not_searched_for() {
        let words: Vec<String> = (0..1000).map(|number| format!("a word {number}")).collect();
        let mut shown = ShownText::new(words.concat().split_whitespace().collect());
        assert!(words.iter().all(|text| shown.contains(text)));
        assert_eq!(shown.searched, 0);
    }

    #[test]
    fn texts_in_another_order_are_found() {
        let mut shown = ShownText::new("onetwothree".to_owned());
        assert_eq!(
            ["three", "t w o", "one", "four"].map(|text| shown.contains(text)),
            [true, true, true, false]
        );
    }

    #[test]
    fn a_hostile_record_does_not_take_quadratic_work() {
        let words: Vec<String> = (0..100_000).map(|number| format!("word{number:06}")).collect();
        let mut shown = ShownText::new(words.concat());
        words.iter().rev().for_each(|text| _ = shown.contains(text));
        assert!(
            shown.searched <= ShownText::MAX_SEARCHED_BYTES + shown.text.len(),
            "{}",
            shown.searched
        );
    }
}
