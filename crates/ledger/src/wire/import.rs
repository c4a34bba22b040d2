//! What an import did.

use serde::Serialize;

/// What became of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ImportedFile {
    /// Where it is below the folder that was named.
    pub path: String,
    /// `transcript`, `archive` or `index`; `other` for what is not imported.
    pub kind: &'static str,
    /// Whose it is.
    pub agent: String,
    /// The session that its lines are in now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Lines of a transcript, keys of an index.
    pub rows: u64,
    /// How many of them the ledger holds now.
    pub stored: u64,
    /// How many of these it did not hold before.
    pub added: u64,
    /// Why it was not imported, or not wholly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Keys of an index that were not imported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftRow>,
    /// It should have been imported, and was not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// A key that was not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftRow {
    /// The key, as written.
    pub key: String,
    /// Why.
    pub why: &'static str,
}
