//! What the ledger holds, and how far each file was read.

use std::collections::BTreeMap;

use serde::Serialize;

use super::SkippedFiles;

/// What the ledger holds.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// The ledger file.
    pub ledger: LedgerStatus,
    /// Per format.
    pub formats: Vec<FormatStatus>,
    /// Oddities by kind.
    pub problems: BTreeMap<String, u64>,
    /// Entries whose text is in the search index only in part.
    pub partly_indexed: u64,
    /// Records above 32 MiB, of which only the first 64 KiB are read.
    pub too_long: u64,
    /// Records that their source no longer holds.
    pub absent_records: u64,
    /// Unterminated last lines that are shown provisionally.
    pub provisional: u64,
    /// Damaged compressed files that are too large to be kept as they are.
    pub not_kept: u64,
}

impl Status {
    /// Whether every byte of what is collected is kept. Of a compressed file that is damaged and
    /// very large only the lines before the damage are.
    pub fn keeps_everything(&self) -> bool {
        self.not_kept == 0
    }
}

/// The ledger file.
#[derive(Debug, Clone, Serialize)]
pub struct LedgerStatus {
    /// Where it is.
    pub path: String,
    /// False if there is no such file yet.
    pub exists: bool,
    /// Its identity.
    pub id: String,
    /// Its size with the write-ahead log.
    pub bytes: u64,
    /// All records of all formats.
    pub records: u64,
    /// Records that nothing was derived from yet; the next sync does it.
    pub unprojected: u64,
    /// The schema of the truth tables.
    pub schema: i64,
}

/// What the ledger holds of one format.
#[derive(Debug, Clone, Serialize)]
pub struct FormatStatus {
    /// Its stable name.
    pub format: String,
    /// The name people use.
    pub title: String,
    /// Where quipu looked.
    pub roots: Vec<RootStatus>,
    /// Sessions, sub-agents included.
    pub sessions: u64,
    /// Of these, sub-agents.
    pub subagents: u64,
    /// Sessions by state.
    pub states: BTreeMap<String, u64>,
    /// Files followed.
    pub sources: u64,
    /// Databases followed.
    pub databases: u64,
    /// Sessions in them, put-aside transcripts included.
    pub database_sessions: u64,
    /// Each of the databases that are on disk.
    pub database_files: Vec<DatabaseStatus>,
    /// What to know about what was collected.
    pub warnings: Vec<SkippedFiles>,
    /// Records kept.
    pub records: u64,
    /// Bytes that `restore` would give back.
    pub bytes: u64,
    /// The same by priority, the most important first.
    pub priorities: Vec<PriorityStatus>,
    /// What was seen and not collected.
    pub skipped: Vec<SkippedFiles>,
    /// Compressed files that cannot be decompressed to their end, and what is kept of them.
    pub damaged: Vec<SkippedFiles>,
    /// Record types that this version does not know, with their number.
    pub unknown_types: BTreeMap<String, u64>,
    /// Sessions that were forgotten.
    pub forgotten: u64,
    /// Sources that are no longer on disk.
    pub gone: u64,
    /// Sources that were rewritten at least once.
    pub rewritten: u64,
    /// The transcript on disk that was not changed for the longest time.
    pub oldest: Option<OldestTranscript>,
}

/// What is read of a database.
#[derive(Debug, Clone, Serialize)]
pub struct DatabaseStatus {
    /// Relative to its root.
    pub path: String,
    /// The version of its tables.
    pub schema: i64,
    /// Sessions and put-aside transcripts that were in it at the last look.
    pub transcripts: u64,
    /// Of these, how many are read to their end; `skipped` names the others.
    pub read: u64,
}

/// What is kept of one priority.
#[derive(Debug, Clone, Serialize)]
pub struct PriorityStatus {
    /// 0 transcripts and indexes, 1 scheduled jobs, 2 notes.
    pub priority: u8,
    /// Files followed.
    pub sources: u64,
    /// Transcripts in databases.
    pub database_sources: u64,
    /// Records kept.
    pub records: u64,
    /// Bytes that `restore` would give back.
    pub bytes: u64,
}

/// A place that quipu looked at.
#[derive(Debug, Clone, Serialize)]
pub struct RootStatus {
    /// The folder.
    pub path: String,
    /// `collected`, `absent`, `unreadable`, or `twin` of an earlier one.
    pub state: String,
}

/// A transcript that the agent will delete some day.
#[derive(Debug, Clone, Serialize)]
pub struct OldestTranscript {
    /// Where it is.
    pub path: String,
    /// When it was last changed, milliseconds UTC.
    pub modified_at: i64,
    /// Days until the agent's clean-up takes it; absent if the agent deletes nothing.
    pub days_left: Option<i64>,
    /// After how many days the agent deletes a transcript that nobody touched.
    pub cleanup_days: Option<u32>,
    /// Who says so: `configuration`, or `default` of the agent, whose settings are never opened.
    pub cleanup_from: String,
}

/// How far a file was read: the spec's scan state.
#[derive(Debug, Clone, Serialize)]
pub struct Cursor {
    /// Whose file it is.
    pub format: String,
    /// The root it is under.
    pub root: String,
    /// Relative to the root.
    pub path: String,
    /// Bytes that are records.
    pub offset: u64,
    /// Bytes after them without a newline.
    pub tail: u64,
    /// Size at the last look.
    pub size: u64,
    /// Modification time at the last look, milliseconds UTC.
    pub mtime: i64,
    /// How many lives the file has had.
    pub generation: i64,
    /// Why the newest one began.
    pub began: String,
    /// The file is no longer on disk.
    pub gone: bool,
    /// Why nothing is collected from it.
    pub refused: Option<String>,
    /// The session that it belongs to, by the id that `restore` takes.
    pub session: Option<String>,
    /// `file`, `database`, or `rows` of one.
    pub kind: String,
    /// The number of the last row that was read.
    pub row: Option<i64>,
    /// How many rows there were up to it; of a database, how many sessions.
    pub rows: Option<u64>,
}
