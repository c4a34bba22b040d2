//! Fields of a session or a session key. Values keep their spelling: a number of twenty digits, or
//! one written as `1E5`, is stored and returned unchanged.

use std::collections::BTreeMap;

use quipu_transcript::index::Binding;
use serde::de::Error as D;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

/// Named JSON values.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(BTreeMap<String, Box<RawValue>>);

impl Fields {
    /// Reads a JSON object. Whitespace between values is removed, so that it fits on one line.
    pub fn read(json: &str) -> serde_json::Result<Fields> {
        let mut fields: Fields = serde_json::from_str(json)?;
        for (name, value) in &mut fields.0 {
            // Other programs have to read it: no number that is too large, no excessive depth.
            if let Err(why) = decoded(value.get()) {
                return Err(D::custom(format!("`{}`: {why}", name.escape_debug())));
            }
            if value.get().contains(char::is_whitespace) {
                *value = RawValue::from_string(compact(value.get()))?;
            }
        }
        Ok(fields)
    }

    /// Returns the fields of a key in an index, as they are written there.
    pub(crate) fn of(binding: &Binding) -> Fields {
        let mut fields = Fields::from(binding.fields.clone());
        for (name, value) in &binding.written {
            if let Ok(value) = RawValue::from_string(compact(value)) {
                fields.0.insert(name.clone(), value);
            }
        }
        fields
    }

    /// Returns the decoded value of a field. A number loses digits that `f64` cannot hold.
    pub fn get(&self, name: &str) -> Option<Value> {
        decoded(self.0.get(name)?.get()).ok()
    }

    /// Returns all fields, decoded.
    pub fn to_map(&self) -> Map<String, Value> {
        self.0.keys().filter_map(|name| Some((name.clone(), self.get(name)?))).collect()
    }

    /// Returns the names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a field.
    pub(crate) fn put(&mut self, name: &str, value: &impl Serialize) {
        if let Ok(value) = to_raw_value(value) {
            self.0.insert(name.to_owned(), value);
        }
    }

    /// Removes the fields that `is_kept` rejects.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_kept(name));
    }

    /// Adds `others`, replacing fields with the same name.
    pub fn extend(&mut self, others: Fields) {
        self.0.extend(others.0);
    }

    /// Returns JSON on several lines, with two spaces per level, as `JSON.stringify` indents.
    pub fn pretty(&self) -> String {
        indented(&compact(&self.json()))
    }

    /// Applies a patch; `null` removes a field.
    pub(crate) fn change(&mut self, patch: &Fields) {
        for (name, value) in &patch.0 {
            match value.get() {
                "null" => drop(self.0.remove(name)),
                _ => drop(self.0.insert(name.clone(), value.clone())),
            }
        }
    }

    /// Returns JSON on one line.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Deserializes values that serde has already decoded, where the spelling is lost.
    pub(crate) fn deserialize_plain<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Fields, D::Error> {
        Map::<String, Value>::deserialize(deserializer).map(Fields::from)
    }
}

impl From<Map<String, Value>> for Fields {
    fn from(map: Map<String, Value>) -> Fields {
        let mut fields = Fields::default();
        map.iter().for_each(|(name, value)| fields.put(name, value));
        fields
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Fields) -> bool {
        let spelled = |fields: &Fields| -> Vec<(String, String)> {
            fields.0.iter().map(|(name, value)| (name.clone(), value.get().to_owned())).collect()
        };
        spelled(self) == spelled(other)
    }
}

/// Decodes a value. An unpaired surrogate becomes the replacement character.
fn decoded(json: &str) -> serde_json::Result<Value> {
    serde_json::from_str(json).or_else(|error| match mended(json) {
        Some(mended) => serde_json::from_str(&mended),
        None => Err(error),
    })
}

/// Returns the JSON with unpaired surrogates replaced; `None` if it has none.
fn mended(json: &str) -> Option<String> {
    let half = |at: usize| {
        let digits = json.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u32::from_str_radix(digits, 16).ok().filter(|half| (0xd800..0xe000).contains(half))
    };
    let mut mended = String::with_capacity(json.len());
    let (mut at, mut is_changed) = (0, false);
    while let Some(letter) = json.get(at..).and_then(|rest| rest.chars().next()) {
        let length = match (half(at), half(at + 6)) {
            (Some(0xd800..0xdc00), Some(0xdc00..)) => 12,
            (Some(_), _) => {
                mended.push_str("\\ufffd");
                (at, is_changed) = (at + 6, true);
                continue;
            }
            // A backslash and the character after it are copied together.
            (None, _) if letter == '\\' => 2,
            (None, _) => letter.len_utf8(),
        };
        mended.push_str(json.get(at..at + length)?);
        at += length;
    }
    is_changed.then_some(mended)
}

/// Indents compact JSON.
fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut in_text, mut is_escaped, mut depth) = (false, false, 0_usize);
    let mut letters = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(letter) = letters.next() {
        if !in_text && matches!(letter, '}' | ']') {
            depth = depth.saturating_sub(1);
            line(&mut out, depth);
        }
        out.push(letter);
        match letter {
            '"' if !is_escaped => in_text = !in_text,
            '{' | '[' if !in_text => match letters.next_if(|next| matches!(next, '}' | ']')) {
                Some(end) => out.push(end),
                None => {
                    depth += 1;
                    line(&mut out, depth);
                }
            },
            ',' if !in_text => line(&mut out, depth),
            ':' if !in_text => out.push(' '),
            _ => {}
        }
        is_escaped = in_text && letter == '\\' && !is_escaped;
    }
    out
}

/// Removes whitespace between the parts of JSON.
fn compact(json: &str) -> String {
    let mut compact = String::with_capacity(json.len());
    let (mut in_text, mut is_escaped) = (false, false);
    for letter in json.chars() {
        if in_text || !letter.is_ascii_whitespace() {
            compact.push(letter);
        }
        match letter {
            '"' if !is_escaped => in_text = !in_text,
            _ => {}
        }
        is_escaped = in_text && letter == '\\' && !is_escaped;
    }
    compact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_as_they_were_written() {
        let json = "{\"b\": 1E5, \"a\":\n 123456789012345678901234567890.10,
                     \"c\": {\"x\" : [ 1.50, \"a \\\" b\\\\\", true ] }}";
        let fields = Fields::read(json).unwrap();
        let compact =
            r#"{"a":123456789012345678901234567890.10,"b":1E5,"c":{"x":[1.50,"a \" b\\",true]}}"#;
        assert_eq!(fields.json(), compact);
        assert_eq!(Fields::read(compact).unwrap(), fields);
        assert_eq!(fields.get("b"), Some(1e5.into()));
    }

    #[test]
    fn unpaired_surrogates_are_kept_and_distinguished() {
        let json =
            r#"{"a":"cut \ud83d","b":["\ud83d\ude00","\\ud83d","\ude00\ud83d\ud83d\ude00"]}"#;
        let fields = Fields::read(json).unwrap();
        assert_eq!(fields.json(), json);
        assert_eq!(fields.get("a"), Some("cut \u{fffd}".into()));
        let b = serde_json::json!(["\u{1f600}", "\\ud83d", "\u{fffd}\u{fffd}\u{1f600}"]);
        assert_eq!(fields.get("b"), Some(b));
    }

    #[test]
    fn fields_are_indented_like_json_stringify() {
        let json = r#"{"a":{},"b":[],"c":{"x":[1.5,"a,{[\" \\"],"y":{"z":null}},"d":""}"#;
        let value: Value = serde_json::from_str(json).unwrap();
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(Fields::read(json).unwrap().pretty(), pretty);
        assert_eq!(Fields::default().pretty(), "{}");
    }

    #[test]
    fn unreadable_values_are_refused() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        for json in ["", "[]", "{\"a\":1e400}", "{\"a\":}", &deep] {
            assert!(Fields::read(json).is_err(), "{json}");
        }
    }
}
