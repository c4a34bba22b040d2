//! The shapes of all JSON output. They only grow.

mod export;
mod import;
mod notes;
mod search;
mod senders;
mod sessions;
mod sql;
mod usage;

pub use export::{DamagedSession, ExportReport, ExportedFile};
pub use import::{ImportedFile, LeftRow};
pub use notes::{CronJob, CronRun, Note, NoteVersion};
pub use search::{Nearby, Scanned, SearchAnswer, SearchGaps, SearchHit};
pub use senders::Sender;
pub use sessions::{Project, Session};
pub use sql::SqlValue;
pub use usage::{UsageLine, UsageReport, UsageSession};

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::collect::Written;
use crate::ids::Seq;
use crate::project::Fold;

mod story;
mod tree;

pub use story::{
    ShownCall, ShownCompaction, ShownEntry, ShownResult, ShownRewind, StoryCounts, StoryHead,
};
pub use tree::TreeLine;

/// Writes a name that may be missing as everywhere in JSON: `null`.
fn none_if_empty<S: Serializer>(name: &str, serializer: S) -> Result<S::Ok, S::Error> {
    Some(name).filter(|name| !name.is_empty()).serialize(serializer)
}

/// What a sync did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SyncReport {
    /// Files, and transcripts in databases, that quipu follows and found.
    pub sources: u64,
    /// Of these, how many are transcripts in databases.
    pub database_sources: u64,
    /// Of these, how many had to be looked into.
    pub sources_changed: u64,
    /// Of these, how many were new.
    pub sources_added: u64,
    /// Records that were added.
    pub records_added: u64,
    /// New bytes read from sources.
    pub bytes_read: u64,
    /// Old bytes read again to see whether a source was rewritten.
    pub bytes_verified: u64,
    /// Lines and documents that were decoded.
    pub lines_parsed: u64,
    /// Chunks of the ledger that were opened for that.
    #[serde(skip)]
    pub chunks_opened: u64,
    /// Databases that were opened, because they changed since the last sync.
    pub databases_opened: u64,
    /// Oddities that were noted, without those that what came later explained.
    pub problems: u64,
    /// The first record that was written.
    #[serde(skip)]
    pub(crate) since: Option<Seq>,
    /// Sources that were found rewritten.
    pub rewritten: u64,
    /// Sources that were found under another name.
    pub renamed: u64,
    /// Sources that were found gone.
    pub gone: u64,
    /// What was seen and not collected, or not wholly.
    pub skipped: Vec<SkippedFiles>,
    /// What to know about what was collected.
    pub warnings: Vec<SkippedFiles>,
}

impl SyncReport {
    /// What is there and could not be read, with the reason.
    pub fn unreadable(&self) -> impl Iterator<Item = (&SkippedFiles, &str)> {
        self.skipped
            .iter()
            .filter_map(|skipped| Some((skipped, skipped.reason.strip_prefix(UNREADABLE)?)))
    }

    /// What could not be decompressed to its end, with what is wrong and what is kept.
    pub fn damaged(&self) -> impl Iterator<Item = (&SkippedFiles, &str)> {
        self.skipped
            .iter()
            .filter_map(|skipped| Some((skipped, skipped.reason.strip_prefix(DAMAGED)?)))
    }

    /// Symbolic links that lead out of their root, or nowhere.
    pub fn outside(&self) -> impl Iterator<Item = &SkippedFiles> {
        self.skipped.iter().filter(|skipped| skipped.reason == OUTSIDE)
    }

    /// What was collected and is not what it says it is.
    pub fn odd(&self) -> impl Iterator<Item = (&SkippedFiles, &str)> {
        self.skipped.iter().filter_map(|skipped| Some((skipped, skipped.reason.strip_prefix(ODD)?)))
    }

    pub(crate) fn add(&mut self, written: &Written, fold: &Fold) {
        self.records_added += written.records;
        self.sources_added += written.sources;
        self.rewritten += written.generations;
        // It went on counting where the last one stopped.
        self.problems = fold.problems;
        self.since = fold.since;
    }
}

/// How the reason begins for which something could not be read.
pub(crate) const UNREADABLE: &str = "unreadable: ";

/// How the reason begins for which something could not be decompressed to its end.
pub(crate) const DAMAGED: &str = "damaged: ";

/// The reason for which a symbolic link is not followed.
pub(crate) const OUTSIDE: &str = "symbolic link that leaves its root; not followed";

/// How the reason begins for which something that was collected is worth a word.
pub(crate) const ODD: &str = "odd: ";

/// Files that are not collected, for one reason.
#[derive(Debug, Clone, Serialize)]
pub struct SkippedFiles {
    /// Whose root they are under.
    pub format: String,
    /// Why.
    pub reason: String,
    /// How many.
    pub files: u64,
    /// The first of them, relative to their root, at most twenty.
    pub paths: Vec<String>,
    /// They are transcripts in a database; their paths begin with the database's.
    pub in_database: bool,
}

/// What a rebuild did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RebuildReport {
    /// Records that were projected.
    pub records: u64,
    /// Sessions that there are now.
    pub sessions: u64,
    /// Oddities that were noted.
    pub problems: u64,
}

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

/// What was given back.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RestoreReport {
    /// Files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Of these files, how many were compressed and are not any more.
    pub decompressed: u64,
    /// Of these files, how many could not be decompressed to their end and are as they were.
    pub as_found: u64,
    /// Each of them.
    pub restored: Vec<RestoredFile>,
    /// Files of which the ledger is damaged: nothing was written of these.
    pub damaged: Vec<DamagedFile>,
}

/// A file that could not be given back.
#[derive(Debug, Clone, Serialize)]
pub struct DamagedFile {
    /// Where it would be.
    pub path: String,
    /// Which of its lives.
    pub generation: i64,
    /// What is damaged.
    pub why: String,
}

/// A file that was given back.
#[derive(Debug, Clone, Serialize)]
pub struct RestoredFile {
    /// Where it is now.
    pub path: String,
    /// Its format.
    pub format: String,
    /// Which of its lives.
    pub generation: i64,
    /// Its length.
    pub bytes: u64,
    /// The file was compressed; this is what was in it, without the `.zst` in its name.
    pub decompressed: bool,
    /// The file is compressed and could not be decompressed to its end: this is what it was.
    pub as_found: bool,
    /// There was no such file: it was rows of a database, and is one event per line now.
    pub from_rows: bool,
    /// Lines of forgotten sessions in it; blanks stand there instead.
    pub forgotten_lines: u64,
}

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

/// Whether all is well, and what is not.
#[derive(Debug, Clone, Serialize)]
pub struct Diagnosis {
    /// False if there is an error among the findings.
    pub ok: bool,
    /// The ledger.
    pub ledger: String,
    /// Every byte was read.
    pub deep: bool,
    /// What was checked.
    pub checks: Vec<CheckReport>,
    /// What was found.
    pub findings: Vec<Finding>,
}

/// One kind of check.
#[derive(Debug, Clone, Serialize)]
pub struct CheckReport {
    /// Its stable name.
    pub check: String,
    /// False if there was nothing to check.
    pub done: bool,
    /// What holds, since it found nothing; absent if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fine: Option<String>,
}

/// Something that a check found.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The check that found it.
    pub check: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub what: String,
    /// How often it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Where it was found first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// What to do about it.
    #[serde(rename = "do")]
    pub advice: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something is wrong.
    Error,
    /// Something may go wrong.
    Warning,
    /// Good to know.
    Note,
}

/// What forgetting a session removes, or would remove.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ForgetReport {
    /// It is forgotten; false if this only says what would go.
    pub forgotten: bool,
    /// It had been forgotten before.
    pub already: bool,
    /// Nothing of it is left in the ledger's file; false as long as another process reads old pages.
    pub cleaned: bool,
    /// The session, and the sub-agents that work for it.
    pub sessions: Vec<ForgottenSession>,
    /// Files that were collected of these sessions.
    pub files: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes in those, and in unterminated last lines.
    pub bytes: u64,
    /// Lines of these sessions in files that all sessions share; blanks stand there instead.
    pub shared_lines: u64,
    /// Files that are still on disk: quipu never deletes an agent's files.
    pub on_disk: Vec<String>,
    /// How many other sessions hold copies of its lines.
    pub copies: u64,
    /// The first of them, at most twenty.
    pub copied_in: Vec<ForgottenSession>,
    /// Threads of it, which are sessions of their own and stay.
    pub threads: Vec<ForgottenSession>,
    /// Files that may still hold it and that quipu cannot reach.
    pub backups: Vec<String>,
}

/// A session that is forgotten, or one that has something to do with it.
#[derive(Debug, Clone, Serialize)]
pub struct ForgottenSession {
    /// Whose session it is.
    pub format: String,
    /// The agent's name; empty where the format has no agents, and `null` in JSON.
    #[serde(serialize_with = "none_if_empty")]
    pub agent: String,
    /// Its id.
    pub session_id: String,
    /// `transcript`, `agent`, `subagent`, `prompt_history`.
    pub part: String,
    /// Its title, or how its first prompt begins.
    pub title: Option<String>,
    /// The project's name: the last folder of its path.
    pub project: Option<String>,
    /// Claude Code's name of the project's folder.
    pub slug: Option<String>,
}
