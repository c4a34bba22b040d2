//! What an export did.

use std::collections::BTreeMap;

use serde::Serialize;

/// What an export did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ExportReport {
    /// Sessions that were exported.
    pub sessions: u64,
    /// What they were written as: `md`, `html`, `json`, `jsonl`, `csv`, `openclaw`, `claude-code`.
    pub format: String,
    /// The files, in the order of the sessions; a list of them last.
    pub files: Vec<ExportedFile>,
    /// How many different secrets of each kind were masked; `null` if nothing was to be masked.
    pub redacted: Option<BTreeMap<String, u32>>,
    /// Sessions that could not be read, because the ledger is damaged there.
    pub damaged: Vec<DamagedSession>,
    /// Sessions that cannot be written as this.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<DamagedSession>,
    /// Files that were there and were left alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub there: Vec<String>,
    /// Lines that are no entries and that no reader of such files would take.
    #[serde(skip_serializing_if = "is_zero")]
    pub lines_left_out: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A file that was written.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ExportedFile {
    /// Where it is.
    pub path: String,
    /// The session in it; `null` for several.
    pub session: Option<String>,
    /// How long it is.
    pub bytes: u64,
}

/// A session that could not be read.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DamagedSession {
    /// Its id.
    pub session: String,
    /// What is wrong.
    pub why: String,
}
