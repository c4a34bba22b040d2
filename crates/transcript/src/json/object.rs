//! A JSON object whose values stay as written, in their order. Messages are changed field by field,
//! so numbers keep their digits, and deeply nested values are never decoded.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::Key;

/// A value as written, owned or borrowed from the record.
pub(crate) type Json<'a> = Cow<'a, RawValue>;

/// The fields of an object, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

impl<'a> Object<'a> {
    /// Reads an object; returns `None` for any other JSON value.
    pub(crate) fn read(json: &'a str) -> Option<Object<'a>> {
        serde_json::from_str(json).ok()
    }

    /// Returns the value of a field; of repeated fields, the last one.
    pub(crate) fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    /// Returns the value of a field that is present and not `null`.
    pub(crate) fn some(&self, key: &str) -> Option<&RawValue> {
        self.get(key).filter(|value| value.get() != "null")
    }

    /// Returns the text of a field.
    pub(crate) fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        text(self.get(key)?)
    }

    /// Returns whether the field is present.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets a field in place, or appends it.
    pub(crate) fn set(&mut self, key: &'static str, value: Json<'a>) {
        let place = self.0.iter().position(|(name, _)| name == key);
        let mut value = Some(value);
        match place {
            Some(place) => {
                let mut index = 0;
                self.0.retain_mut(|(name, old)| {
                    let is_first = index == place;
                    index += 1;
                    if is_first && let Some(value) = value.take() {
                        *old = value;
                    }
                    is_first || name != key
                });
            }
            None => self.0.extend(value.map(|value| (Cow::Borrowed(key), value))),
        }
    }

    /// Sets a field to the serialized `value`.
    pub(crate) fn put(&mut self, key: &'static str, value: &impl Serialize) {
        if let Ok(value) = to_raw_value(value) {
            self.set(key, Cow::Owned(value));
        }
    }

    /// Appends a field, even if one of that name is present.
    pub(crate) fn push(&mut self, key: Cow<'a, str>, value: Json<'a>) {
        self.0.push((key, value));
    }

    /// Returns all fields as written, in their order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Removes and returns a field.
    pub(crate) fn take(&mut self, key: &str) -> Option<Json<'a>> {
        let mut taken = None;
        self.0.retain_mut(|(name, value)| {
            if name == key {
                taken = Some(value.clone());
            }
            name != key
        });
        taken
    }

    /// Renames a field, unless one named `to` is present.
    pub(crate) fn rename(&mut self, from: &str, to: &'static str) {
        if !self.has(to) {
            for (name, _) in &mut self.0 {
                if name == from {
                    *name = Cow::Borrowed(to);
                }
            }
        }
    }

    /// Returns the object as JSON.
    pub(crate) fn json(&self) -> Option<Box<RawValue>> {
        to_raw_value(self).ok()
    }
}

/// Returns the text of a JSON string.
pub(crate) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let json = value.get();
    if !json.starts_with('"') {
        return None;
    }
    match json.get(1..json.len() - 1) {
        Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
        _ => serde_json::from_str::<String>(json).ok().map(Cow::Owned),
    }
}

/// Returns the elements of a JSON list.
pub(crate) fn list(value: &RawValue) -> Option<Vec<&RawValue>> {
    value.get().starts_with('[').then(|| serde_json::from_str(value.get()).ok()).flatten()
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(key) = map.next_key_seed(Key)? {
                    fields.push((key, Cow::Borrowed(map.next_value::<&'de RawValue>()?)));
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}
