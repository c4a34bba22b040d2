//! The shapes of all JSON output. Fields are added, never removed or renamed.
//!
//! Holds data only: no module here queries the ledger or prints.

mod backup;
mod compaction;
mod doctor;
mod events;
mod export;
mod files;
mod forget;
mod import;
mod keys;
mod notes;
mod problems;
mod repair;
mod report;
mod restore;
mod resume;
#[cfg(feature = "schema")]
pub mod schema;
mod search;
mod senders;
mod server;
mod service;
mod sessions;
mod settings;
mod sql;
mod state;
mod status;
mod store;
mod story;
mod sync;
mod tree;
mod usage;

pub use backup::{BackupReport, BackupRestored};
pub use compaction::{
    AppendedAndMore, Compacted, CompactionResult, Flush, Headroom, PlannedCompaction, PlannedFlush,
    Reason, WindowFrom,
};
pub use doctor::{CheckReport, Diagnosis, Finding, Severity};
pub use events::{EventChange, EventFrame, EventPhase, StreamNote};
pub use export::{DamagedSession, ExportReport, ExportedFile, RespelledKey};
pub use files::{FileUse, TouchedFile};
pub use forget::{ForgetReport, ForgottenSession};
pub use import::{ImportedFile, LeftRow};
pub use keys::RegisteredKey;
pub use notes::{CronJob, CronRun, Note, NoteChange, NoteVersion};
pub use problems::FoundProblem;
pub use repair::{RepairChange, RepairPlace, RepairReport};
pub use report::{ErrorReport, Fresh, SchemaName};
pub use restore::{MissingFile, RestoreReport, RestoredFile};
pub use resume::{FilePatch, Resumption, WrittenPicture};
pub use search::{
    CountedHit, Nearby, NearestWord, Scanned, SearchAnswer, SearchGaps, SearchHit, SearchWork,
};
pub use senders::Sender;
pub use server::{CreatedToken, ListedToken, McpInstallation, RevokedToken, ServerStarted};
pub use service::{DemoReport, ServiceFile, ServiceState};
pub use sessions::{Project, Session};
pub use settings::{
    FilePattern, ModelPrice, Setting, SettingOrigin, SettingValue, SupportedFormat,
};
pub use sql::SqlValue;
pub use state::SessionState;
pub use status::{
    Cursor, DatabaseStatus, FormatStatus, LedgerStatus, OldestTranscript, Overview, PriorityStatus,
    RootStatus, Status,
};
pub use store::{
    Appended, Label, Leaf, ModelContext, NotAppended, RoutedMessage, SessionBranch, StoredSession,
};
pub use story::{
    LostParts, ShownCall, ShownCompaction, ShownEntry, ShownResult, ShownRewind, StoryCounts,
    StoryHead,
};
pub(crate) use sync::{DAMAGED, NOT_A_FILE, NOWHERE, ODD, OUTSIDE, UNREADABLE};
pub use sync::{RebuildReport, SkippedFiles, SyncReport, WatchReport};
pub use tree::TreeLine;
pub use usage::{RecentUsage, RecentWindow, UsageBlock, UsageLine, UsageReport, UsageSession};

use serde::{Serialize, Serializer};

/// Serializes an empty name as `null`.
fn none_if_empty<S: Serializer>(name: &str, serializer: S) -> Result<S::Ok, S::Error> {
    Some(name).filter(|name| !name.is_empty()).serialize(serializer)
}
