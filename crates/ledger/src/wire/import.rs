//! The shape of reports about imported files.

use serde::Serialize;

/// The result for one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImportedFile {
    /// Its path below the imported folder.
    pub path: String,
    /// `transcript`, `archive` or `index`; `other` for a file that is not imported.
    pub kind: &'static str,
    /// The agent that owns it.
    pub agent: String,
    /// The session that holds its lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The number of lines of a transcript, or of keys of an index.
    pub rows: u64,
    /// The number of these that the ledger holds now.
    pub stored: u64,
    /// The number of these that the ledger did not hold before.
    pub added: u64,
    /// The reason why it was not imported, or only in part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The keys of an index that were not imported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out_keys: Vec<LeftRow>,
    /// True if the import of this file failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_failed: bool,
}

/// A key that was not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftRow {
    /// The key, as written.
    pub session_key: String,
    /// The reason.
    pub reason: &'static str,
}
