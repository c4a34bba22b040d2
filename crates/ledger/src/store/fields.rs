//! What is noted about a session, with its values as they were written: a number of twenty digits, or
//! one that is spelled 1E5, comes out as it went in.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

/// Names and values.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(BTreeMap<String, Box<RawValue>>);

impl Fields {
    /// Reads an object. Spaces between its parts are left out, so that it fits on one line.
    pub fn read(json: &str) -> serde_json::Result<Fields> {
        let mut fields: Fields = serde_json::from_str(json)?;
        for value in fields.0.values_mut() {
            // Others have to read it, too: no number without an end, nothing absurdly deep.
            let _: Value = serde_json::from_str(value.get())?;
            if value.get().contains(char::is_whitespace) {
                *value = RawValue::from_string(compact(value.get()))?;
            }
        }
        Ok(fields)
    }

    /// The value of a field, as far as a computer's numbers can tell it.
    pub fn get(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.0.get(name)?.get()).ok()
    }

    /// All fields, the same way.
    pub fn to_map(&self) -> Map<String, Value> {
        self.0.keys().filter_map(|name| Some((name.clone(), self.get(name)?))).collect()
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a field.
    pub(crate) fn put(&mut self, name: &str, value: &impl Serialize) {
        if let Ok(value) = to_raw_value(value) {
            self.0.insert(name.to_owned(), value);
        }
    }

    /// Makes these changes; `null` takes a field away.
    pub(crate) fn change(&mut self, patch: &Fields) {
        for (name, value) in &patch.0 {
            match value.get() {
                "null" => drop(self.0.remove(name)),
                _ => drop(self.0.insert(name.clone(), value.clone())),
            }
        }
    }

    /// As JSON.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// For what serde has read into memory of its own, where nothing is left as it was written.
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
        let said = |fields: &Fields| -> Vec<(String, String)> {
            fields.0.iter().map(|(name, value)| (name.clone(), value.get().to_owned())).collect()
        };
        said(self) == said(other)
    }
}

/// JSON without spaces between its parts.
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
    fn what_nobody_could_read_is_refused() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        for json in ["", "[]", "{\"a\":1e400}", "{\"a\":}", &deep] {
            assert!(Fields::read(json).is_err(), "{json}");
        }
    }
}
