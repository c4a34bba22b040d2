//! The shape of a problem in a source file.

use serde::Serialize;

/// A problem, and where it is.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FoundProblem {
    /// The kind, for example `opaque`.
    pub kind: String,
    /// The meaning of the kind, and the treatment of the data.
    pub meaning: &'static str,
    /// A short explanation without any text of the transcript; often empty.
    pub detail: String,
    /// The format of the file; `null` if the file was forgotten.
    pub format: Option<String>,
    /// The full path of the file.
    pub path: Option<String>,
    /// The line in the file, counted from 1. `null` if the whole file is meant, or if the lines
    /// before it are stored with another file.
    pub line: Option<u64>,
    /// The offset of the line in the file, in bytes.
    pub offset: Option<u64>,
    /// The length of the line in bytes.
    pub bytes: Option<u64>,
    /// The number of the record in the ledger, for `raw()` in `quipu sql`.
    pub seq: Option<i64>,
    /// The session.
    pub session_id: Option<String>,
}
