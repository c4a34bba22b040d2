//! The shape of reports about exports.

use std::collections::BTreeMap;

use serde::Serialize;

/// The result of an export.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ExportReport {
    /// The number of exported sessions.
    pub sessions: u64,
    /// The output format: `md`, `html`, `json`, `jsonl`, `csv`, `openclaw`, `claude-code`.
    pub format: String,
    /// The files in the order of the sessions. The last one is the list of them.
    pub files: Vec<ExportedFile>,
    /// The number of different secrets masked, by kind; `null` if masking was off.
    pub redacted: Option<BTreeMap<String, u32>>,
    /// Sessions that could not be read, because the ledger is damaged there.
    pub damaged: Vec<DamagedSession>,
    /// Sessions that cannot be written in this format.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<DamagedSession>,
    /// Files that existed already and were left alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub there: Vec<String>,
    /// The number of lines left out, because they are not entries and no reader of the format
    /// accepts them.
    #[serde(skip_serializing_if = "is_zero")]
    pub lines_left_out: u64,
    /// Session keys that the format accepts only in another spelling.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub respelled_keys: Vec<RespelledKey>,
}

/// A session key that was written in another spelling.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RespelledKey {
    /// The key in the ledger.
    pub key: String,
    /// The key in the exported index.
    pub written: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A written file.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ExportedFile {
    /// The path of the file.
    pub path: String,
    /// The session in it; `null` for several.
    pub session: Option<String>,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A session that was not exported.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DamagedSession {
    /// Its id.
    pub session: String,
    /// The reason.
    pub why: String,
}
