//! The shape of reports about exports.

use std::collections::BTreeMap;

use serde::Serialize;

/// The result of an export.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExportReport {
    /// The number of exported sessions, without sub-agents.
    pub sessions: u64,
    /// The number of exported sub-agents.
    pub subagents: u64,
    /// The output format: `md`, `html`, `json`, `jsonl`, `csv`, `openclaw`, `claude-code`.
    pub format: String,
    /// The files in the order of the sessions. The last one is the list of them.
    pub written: Vec<ExportedFile>,
    /// The number of different secrets masked, by kind; `null` if masking was off.
    pub masked_secrets: Option<BTreeMap<String, u32>>,
    /// Sessions that could not be read, because the ledger is damaged there.
    pub damaged_sessions: Vec<DamagedSession>,
    /// Sessions that cannot be written in this format.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out_sessions: Vec<DamagedSession>,
    /// Files that existed already and were left alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub existing_paths: Vec<String>,
    /// The number of lines left out, because they are not entries and no reader of the format
    /// accepts them.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out_lines: u64,
    /// Session keys that the format accepts only in another spelling.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub respelled_keys: Vec<RespelledKey>,
}

/// A session key that was written in another spelling.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RespelledKey {
    /// The key in the ledger.
    pub session_key: String,
    /// The key in the exported index.
    pub written_as: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A written file.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExportedFile {
    /// The path of the file.
    pub path: String,
    /// The session in it; `null` for several.
    pub session_id: Option<String>,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A session that was not exported.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DamagedSession {
    /// Its id.
    pub session_id: String,
    /// The reason.
    pub reason: String,
}
