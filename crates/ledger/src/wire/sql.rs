//! The shape of values that a SQL query returns.
//!
//! Blobs become hexadecimal text, because JSON has no bytes.

use std::fmt::Write as _;

use serde::{Serialize, Serializer};

/// One value. Blobs are written as hexadecimal digits.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlValue {
    /// NULL.
    Null,
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text. Bytes that are not UTF-8 are replaced.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl SqlValue {
    /// Returns the value as text; an empty string for NULL.
    pub fn to_text(&self) -> String {
        match self {
            SqlValue::Null => String::new(),
            SqlValue::Integer(number) => number.to_string(),
            SqlValue::Real(number) => number.to_string(),
            SqlValue::Text(text) => text.clone(),
            SqlValue::Blob(bytes) => hex(bytes),
        }
    }
}

impl Serialize for SqlValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            SqlValue::Null => serializer.serialize_none(),
            SqlValue::Integer(number) => serializer.serialize_i64(*number),
            SqlValue::Real(number) => serializer.serialize_f64(*number),
            SqlValue::Text(text) => serializer.serialize_str(text),
            SqlValue::Blob(bytes) => serializer.serialize_str(&hex(bytes)),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for SqlValue {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SqlValue".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A value of a SQL query. Blobs are hexadecimal digits.",
            "type": ["null", "number", "string"],
        })
    }
}
