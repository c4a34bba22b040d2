//! The shape of an error, and the fields that say how current a result is.

use serde::Serialize;

/// An error. It is printed on standard error.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorReport<'a> {
    /// The kind of error: `no_match`, `check_failed`, `usage`, `busy`, `disk_full`, `read_only`,
    /// `damaged`, `disk`, `failed` or `interrupted`.
    pub error: &'a str,
    /// The event, and its causes.
    pub message: String,
    /// The action that resolves it; `null` if none is known.
    pub hint: Option<String>,
    /// If nothing was found: the result holds everything written before this time, milliseconds
    /// UTC; `null` if there is no ledger yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fresh_as_of: Option<Option<i64>>,
    /// If nothing was found: the number of new bytes in files that are not collected yet; `null` if
    /// that was not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_bytes: Option<Option<u64>>,
}

/// An object of a result, with how current it is.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fresh<'a, T> {
    /// The object.
    #[serde(flatten)]
    pub value: &'a T,
    /// The result holds everything written before this time, milliseconds UTC.
    pub fresh_as_of: i64,
    /// The number of new bytes in files that are not collected yet; `null` if that was not checked.
    pub pending_bytes: Option<u64>,
    /// The number of records that are not in the readable tables yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unprojected_records: Option<u64>,
    /// The number of files that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable_files: Option<usize>,
}

/// The name of a schema.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SchemaName<'a> {
    /// The command whose output it describes.
    pub name: &'a str,
}
