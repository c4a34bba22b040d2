//! The shapes of reports about backups.

use serde::Serialize;

/// A new backup.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BackupReport {
    /// The path of the backup.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// The number of records in it, without the journal.
    pub records: u64,
    /// The number of sessions in it, without sub-agents.
    pub sessions: u64,
    /// The number of sub-agents in it.
    pub subagents: u64,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// True if the ledger recorded it, so that `forget` can name it. False for a read-only ledger.
    pub is_recorded: bool,
}

/// A backup that replaced the ledger.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BackupRestored {
    /// The path of the backup.
    pub path: String,
    /// The path of the ledger.
    pub ledger_path: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// The number of records in it, without the journal.
    pub records: u64,
    /// The number of sessions in it, without sub-agents.
    pub sessions: u64,
    /// The number of sub-agents in it.
    pub subagents: u64,
    /// The new path of the former ledger; `null` if there was none.
    pub former_ledger_path: Option<String>,
    /// The sessions that were forgotten after the backup was made, and are restored with it.
    pub forgotten_session_ids: Vec<String>,
}
