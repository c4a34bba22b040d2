//! Copies of the whole ledger.

use serde::Serialize;

/// A backup that was made.
#[derive(Debug, Clone, Serialize)]
pub struct BackupReport {
    /// Where it is.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Records in it, those of the journal not counted.
    pub records: u64,
    /// Sessions in it, sub-agents included.
    pub sessions: u64,
    /// How long it took.
    pub seconds: f64,
    /// The ledger knows of it, so that `forget` can name it. False for a ledger that is only read.
    pub remembered: bool,
}

/// A backup that took the ledger's place.
#[derive(Debug, Clone, Serialize)]
pub struct BackupRestored {
    /// The backup.
    pub file: String,
    /// The ledger.
    pub ledger: String,
    /// Its length.
    pub bytes: u64,
    /// Records in it, those of the journal not counted.
    pub records: u64,
    /// Sessions in it, sub-agents included.
    pub sessions: u64,
    /// Where the ledger is that stood there before; `null` if there was none.
    pub kept: Option<String>,
    /// Sessions that were forgotten after the backup was made, and are back with it.
    pub forgotten: Vec<String>,
}
