//! The fields of a record that a story item does not show by itself.
//!
//! With everything shown, each item ends with the fields of its record that nothing else shows, so
//! that no text of a record is out of reach. What stays out is listed by [`left_out`].

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use super::{ItemKind, Piece, StoryItem};
use crate::format::Format;

/// The label of the fields among the attached texts.
pub const RECORD: &str = "record";

/// Fields that are left out of every format's records, with the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("type", "the kind of the item"),
    ("id", "identity: in `--json`"),
    ("cwd", "in the head"),
    ("version", "in the head"),
    ("timestamp", "the time of the item"),
    ("role", "the kind of the item"),
    ("model", "in the head and in `--json`"),
    ("usage", "counted by `quipu usage`"),
    ("cost", "counted by `quipu usage`"),
];

/// Returns the fields that are left out if a whole session is shown, with the reason. A single entry
/// is shown with all of them, but for pictures.
pub fn left_out(
    format: &dyn Format,
) -> impl Iterator<Item = &'static (&'static str, &'static str)> + use<> {
    LEFT_OUT.iter().chain(format.fields_left_out())
}

/// Bytes of pictures, which are never shown.
const PICTURES: &[&str] = &["data", "base64"];

/// The length from which a string is a picture or a document in base64, in bytes.
const LONG_WORD: usize = 512;

/// Adds the fields of a record that the item does not show: of a single entry all, else those that
/// are not in [`left_out`].
pub fn add_fields(format: &dyn Format, item: &mut StoryItem<'_>, record: &[u8], is_single: bool) {
    let Ok(record) = serde_json::from_slice::<Value>(record) else {
        let text = String::from_utf8_lossy(record).trim().to_owned();
        if !text.is_empty() && item.pieces.is_empty() {
            let text = Cow::Owned(text);
            item.pieces.push(Piece::Attached { label: Cow::Borrowed("unreadable"), text });
        }
        return;
    };
    let left_out = match is_single {
        true => Vec::new(),
        false => left_out(format).map(|(name, _)| *name).collect(),
    };
    let mut fields = Fields {
        left_out,
        shown: shown(item),
        text: String::new(),
        is_message: false,
        was_short: false,
    };
    fields.add(&record, &mut String::new());
    if !fields.text.is_empty() {
        let text = Cow::Owned(fields.text);
        item.pieces.push(Piece::Attached { label: Cow::Borrowed(RECORD), text });
    }
}

struct Fields {
    left_out: Vec<&'static str>,
    shown: String,
    text: String,
    is_message: bool,
    /// True if the last field was short.
    was_short: bool,
}

impl Fields {
    fn add(&mut self, value: &Value, path: &mut String) {
        let end = path.len();
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if self.left_out.contains(&&**name) || is_picture(name, value) {
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
            Value::String(text) => self.line(path, text),
            value => self.line(path, &value.to_string()),
        }
    }

    /// Returns true if the item shows a text, perhaps in several pieces. Short words outside of the message are shown with
    /// their names, even if the item has the same word elsewhere.
    fn is_shown(&self, text: &str) -> bool {
        const SHORT: usize = 16;
        text.trim().is_empty()
            || ((self.is_message || text.len() >= SHORT) && self.shown.contains(&compact(text)))
    }

    /// Adds a field: short ones one after the other, longer ones on lines of their own.
    fn line(&mut self, path: &str, value: &str) {
        const SHORT: usize = 60;
        let is_short = path.len() + value.len() <= SHORT && !value.contains('\n');
        if !self.text.is_empty() {
            self.text.push_str(if is_short && self.was_short { " · " } else { "\n" });
        }
        self.was_short = is_short;
        let _ = write!(self.text, "{path}: {value}");
    }
}

fn is_picture(name: &str, value: &Value) -> bool {
    let is_long = |text: &str| {
        text.len() >= LONG_WORD && !text.bytes().any(|byte| byte.is_ascii_whitespace())
    };
    PICTURES.contains(&name) && value.as_str().is_some_and(is_long)
}

/// Returns a text without white space. Pieces of a text lie apart by white space only.
fn compact(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Returns all text that the item shows, without white space.
fn shown(item: &StoryItem<'_>) -> String {
    let mut shown = String::new();
    let mut add = |text: &str| shown.extend(text.split_whitespace());
    for piece in &item.pieces {
        match piece {
            Piece::Words(text) | Piece::Thinking(text) | Piece::Other(text) => add(text),
            Piece::Attached { text, .. } => add(text),
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
