//! The shapes of the ledger's status and of the cursors of its sources.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{SkippedFiles, SyncReport};

/// The contents of the ledger.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// The ledger file.
    pub ledger: LedgerStatus,
    /// The contents by format.
    pub formats: Vec<FormatStatus>,
    /// The number of problems by kind.
    pub problems_by_kind: BTreeMap<String, u64>,
    /// The number of entries of which only a part is in the search index.
    pub partly_indexed_entries: u64,
    /// The number of records above 32 MiB. Only the first 64 KiB of each are read.
    pub too_long_records: u64,
    /// The number of records that their source no longer holds.
    pub absent_records: u64,
    /// The number of unterminated last lines that are shown provisionally.
    pub provisional_lines: u64,
    /// The number of damaged compressed files that are too large to be kept as they are.
    pub files_not_kept: u64,
}

impl Status {
    /// Returns whether every collected byte is kept. Only the lines before the damage are kept of a
    /// damaged compressed file above 256 MiB.
    pub fn keeps_everything(&self) -> bool {
        self.files_not_kept == 0
    }
}

/// The ledger file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LedgerStatus {
    /// The path of the file.
    pub path: String,
    /// False if there is no such file yet.
    pub has_file: bool,
    /// The ledger's id.
    pub ledger_id: String,
    /// Its size in bytes, without the write-ahead log.
    pub bytes: u64,
    /// The size of the write-ahead log in bytes. It is emptied when the last process closes the
    /// ledger.
    pub log_bytes: u64,
    /// The number of records of all formats.
    pub records: u64,
    /// The number of records that are not projected yet; the next sync projects them.
    pub unprojected_records: u64,
    /// The version of the truth schema.
    pub schema_version: i64,
}

/// The contents of one format.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormatStatus {
    /// Its stable name.
    pub format: String,
    /// The product's name.
    pub product: String,
    /// The folders that were searched.
    pub roots: Vec<RootStatus>,
    /// The number of sessions, without sub-agents.
    pub sessions: u64,
    /// The number of sub-agents.
    pub subagents: u64,
    /// The number of sessions by state, without sub-agents.
    pub sessions_by_state: BTreeMap<String, u64>,
    /// The number of files collected.
    pub sources: u64,
    /// The number of databases collected.
    pub databases: u64,
    /// The number of sessions in databases, including archived transcripts.
    pub database_sessions: u64,
    /// The databases that are on disk.
    pub database_files: Vec<DatabaseStatus>,
    /// Warnings about collected files.
    pub warnings: Vec<SkippedFiles>,
    /// The number of records.
    pub records: u64,
    /// The number of bytes that `restore` would write.
    pub bytes: u64,
    /// Records and bytes by priority, the most important first.
    pub priorities: Vec<PriorityStatus>,
    /// Files that were seen and not collected.
    pub skipped: Vec<SkippedFiles>,
    /// Compressed files that cannot be decompressed to their end. The reason names the part that is
    /// kept.
    pub damaged: Vec<SkippedFiles>,
    /// The types that this version does not know, with the number of records of each.
    pub records_by_unknown_type: BTreeMap<String, u64>,
    /// The number of forgotten sessions.
    pub forgotten_sessions: u64,
    /// The number of sources that are no longer on disk.
    pub gone_sources: u64,
    /// The number of sources that were rewritten at least once.
    pub rewritten_sources: u64,
    /// The transcript on disk that was unchanged for the longest time.
    pub oldest_transcript: Option<OldestTranscript>,
}

/// The state of a collected database.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatabaseStatus {
    /// Its path relative to its root.
    pub path: String,
    /// The version of its tables.
    pub schema_version: i64,
    /// The number of sessions and archived transcripts in it at the last sync.
    pub transcripts: u64,
    /// The number of these that are read to their end; `skipped` lists the others.
    pub read_transcripts: u64,
}

/// The contents of one priority.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PriorityStatus {
    /// The priority: 0 for transcripts and indexes, 1 for scheduled jobs, 2 for notes.
    pub priority: u8,
    /// The number of files collected.
    pub sources: u64,
    /// The number of transcripts in databases.
    pub database_sources: u64,
    /// The number of records.
    pub records: u64,
    /// The number of bytes that `restore` would write.
    pub bytes: u64,
}

/// A folder that was searched.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RootStatus {
    /// The folder.
    pub path: String,
    /// `collected`, `absent`, `unreadable`, or `duplicate` if it is the same folder as an earlier root.
    pub state: String,
}

/// The transcript that the agent's clean-up will delete first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OldestTranscript {
    /// The path of the transcript.
    pub path: String,
    /// The time of its last change, milliseconds UTC.
    pub modified_at: i64,
    /// The number of days until the agent deletes it; absent if the agent deletes nothing.
    pub left_days: Option<i64>,
    /// The number of days without a change after which the agent deletes a transcript.
    pub cleanup_days: Option<u32>,
    /// The origin of `cleanup_days`: `configuration`, or the agent's `default`. The agent's own
    /// settings are never opened.
    pub cleanup_from: String,
}

/// The position up to which a file was read.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cursor {
    /// The file's format.
    pub format: String,
    /// The root it is in.
    pub root: String,
    /// Its path relative to the root.
    pub path: String,
    /// The number of bytes that are records.
    pub offset: u64,
    /// The number of bytes after them, without a newline.
    pub tail_bytes: u64,
    /// The size at the last sync.
    pub bytes: u64,
    /// The modification time at the last sync, milliseconds UTC.
    pub modified_at: i64,
    /// The number of the file's newest generation.
    pub generation: i64,
    /// The reason why that generation began.
    pub began: String,
    /// True if the file is no longer on disk.
    pub is_gone: bool,
    /// The reason why nothing is collected from it.
    pub refused: Option<String>,
    /// The session it belongs to, by the id that `restore` accepts.
    pub session_id: Option<String>,
    /// `file`, `database`, or `rows` for a session in a database.
    pub kind: String,
    /// The number of the last row that was read.
    pub last_row: Option<i64>,
    /// The number of rows up to it; of a database, the number of sessions.
    pub rows: Option<u64>,
}

/// The result of `quipu` without a command.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overview<'a> {
    /// The result of the sync; `null` if nothing could be collected.
    pub sync: Option<&'a SyncReport>,
    /// The contents of the ledger.
    pub status: &'a Status,
}
