//! Objects of answers, with how current the answer is. The command line and the gateway both print
//! these shapes.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::freshness::Freshness;
use crate::wire::{Fresh, SqlValue};

/// Returns one object of an answer, with how current the answer is.
pub fn fresh<'a, T>(value: &'a T, freshness: &Freshness) -> Fresh<'a, T> {
    Fresh {
        value,
        fresh_as_of: freshness.fresh_as_of,
        pending_bytes: freshness.pending_bytes,
        unprojected_records: Some(freshness.unprojected).filter(|records| *records > 0),
        unreadable_files: Some(freshness.unreadable.len()).filter(|files| *files > 0),
    }
}

/// A row of a SQL answer as JSON: its columns in order, then how current the answer is. A column
/// with the name of such a field replaces it.
#[derive(Debug)]
pub struct SqlRow<'a> {
    /// The names of the columns, each once ([`SqlRow::keys`]).
    pub keys: &'a [String],
    /// The values.
    pub values: &'a [SqlValue],
    /// How current the answer is; `None` if the rows do not state it.
    pub freshness: Option<&'a Freshness>,
}

impl SqlRow<'_> {
    /// Returns names that can be the keys of one object: a repeated name gets a number.
    pub fn keys(names: &[String]) -> Vec<String> {
        let mut keys: Vec<String> = Vec::with_capacity(names.len());
        for name in names {
            let mut key = name.clone();
            let mut number = 2;
            while keys.contains(&key) {
                key = format!("{name}_{number}");
                number += 1;
            }
            keys.push(key);
        }
        keys
    }
}

impl Serialize for SqlRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.keys.iter().zip(self.values) {
            map.serialize_entry(key, value)?;
        }
        let is_free = |name: &str| self.keys.iter().all(|key| key != name);
        if let Some(freshness) = self.freshness {
            if is_free("fresh_as_of") {
                map.serialize_entry("fresh_as_of", &freshness.fresh_as_of)?;
            }
            if is_free("pending_bytes") {
                map.serialize_entry("pending_bytes", &freshness.pending_bytes)?;
            }
            if is_free("unprojected_records") && freshness.unprojected > 0 {
                map.serialize_entry("unprojected_records", &freshness.unprojected)?;
            }
        }
        map.end()
    }
}
