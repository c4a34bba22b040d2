//! The shapes of all JSON output. Fields are added, never removed or renamed.
//!
//! Holds data only: no module here queries the ledger or prints.

mod backup;
mod doctor;
mod export;
mod forget;
mod import;
mod keys;
mod notes;
mod problems;
mod restore;
mod search;
mod senders;
mod sessions;
mod sql;
mod state;
mod status;
mod story;
mod sync;
mod tree;
mod usage;

pub use backup::{BackupReport, BackupRestored};
pub use doctor::{CheckReport, Diagnosis, Finding, Severity};
pub use export::{DamagedSession, ExportReport, ExportedFile, RespelledKey};
pub use forget::{ForgetReport, ForgottenSession};
pub use import::{ImportedFile, LeftRow};
pub use keys::RegisteredKey;
pub use notes::{CronJob, CronRun, Note, NoteVersion};
pub use problems::FoundProblem;
pub use restore::{MissingFile, RestoreReport, RestoredFile};
pub use search::{Nearby, NearestWord, Scanned, SearchAnswer, SearchGaps, SearchHit, SearchWork};
pub use senders::Sender;
pub use sessions::{Project, Session};
pub use sql::SqlValue;
pub use state::SessionState;
pub use status::{
    Cursor, DatabaseStatus, FormatStatus, LedgerStatus, OldestTranscript, PriorityStatus,
    RootStatus, Status,
};
pub use story::{
    Left, ShownCall, ShownCompaction, ShownEntry, ShownResult, ShownRewind, StoryCounts, StoryHead,
};
pub(crate) use sync::{DAMAGED, NOT_A_FILE, NOWHERE, ODD, OUTSIDE, UNREADABLE};
pub use sync::{RebuildReport, SkippedFiles, SyncReport};
pub use tree::TreeLine;
pub use usage::{RecentUsage, RecentWindow, UsageBlock, UsageLine, UsageReport, UsageSession};

use serde::{Serialize, Serializer};

/// Serializes an empty name as `null`.
fn none_if_empty<S: Serializer>(name: &str, serializer: S) -> Result<S::Ok, S::Error> {
    Some(name).filter(|name| !name.is_empty()).serialize(serializer)
}
