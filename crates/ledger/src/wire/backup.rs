//! The shapes of reports about backups.

use serde::Serialize;

/// A new backup.
#[derive(Debug, Clone, Serialize)]
pub struct BackupReport {
    /// The path of the backup.
    pub file: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// The number of records in it, without the journal.
    pub records: u64,
    /// The number of sessions in it, without sub-agents.
    pub sessions: u64,
    /// The number of sub-agents in it.
    pub subagents: u64,
    /// The duration in seconds.
    pub seconds: f64,
    /// True if the ledger recorded it, so that `forget` can name it. False for a read-only ledger.
    pub remembered: bool,
}

/// A backup that replaced the ledger.
#[derive(Debug, Clone, Serialize)]
pub struct BackupRestored {
    /// The path of the backup.
    pub file: String,
    /// The path of the ledger.
    pub ledger: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// The number of records in it, without the journal.
    pub records: u64,
    /// The number of sessions in it, without sub-agents.
    pub sessions: u64,
    /// The number of sub-agents in it.
    pub subagents: u64,
    /// The new path of the former ledger; `null` if there was none.
    pub kept: Option<String>,
    /// The sessions that were forgotten after the backup was made, and are restored with it.
    pub forgotten: Vec<String>,
}
