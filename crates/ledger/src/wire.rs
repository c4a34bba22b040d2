//! The shapes of all JSON output. They only grow.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::collect::Written;

/// What a sync did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SyncReport {
    /// Files that quipu follows and found.
    pub sources: u64,
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
    /// Oddities that were noted.
    pub problems: u64,
    /// Sources that were found rewritten.
    pub rewritten: u64,
    /// Sources that were found under another name.
    pub renamed: u64,
    /// Sources that were found gone.
    pub gone: u64,
    /// What was seen and not collected.
    pub skipped: Vec<SkippedFiles>,
}

impl SyncReport {
    pub(crate) fn add(&mut self, written: &Written, problems: u64) {
        self.records_added += written.records;
        self.sources_added += written.sources;
        self.rewritten += written.generations;
        self.problems += problems;
    }
}

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
    /// Records kept.
    pub records: u64,
    /// Bytes that `restore` would give back.
    pub bytes: u64,
    /// What was seen and not collected.
    pub skipped: Vec<SkippedFiles>,
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

/// A place that quipu looked at.
#[derive(Debug, Clone, Serialize)]
pub struct RootStatus {
    /// The folder.
    pub path: String,
    /// `collected`, `absent`, or `twin` of an earlier one.
    pub state: String,
}

/// A transcript that the agent will delete some day.
#[derive(Debug, Clone, Serialize)]
pub struct OldestTranscript {
    /// Where it is.
    pub path: String,
    /// When it was last changed, milliseconds UTC.
    pub modified_at: i64,
    /// Days until the agent's clean-up takes it, under its default setting.
    pub days_left: Option<i64>,
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
}

/// What was given back.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RestoreReport {
    /// Files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Each of them.
    pub restored: Vec<RestoredFile>,
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
    /// Lines of forgotten sessions in it; blanks stand there instead.
    pub forgotten_lines: u64,
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
    /// Files that may still hold it and that quipu cannot reach.
    pub backups: Vec<String>,
}

/// A session that is forgotten, or one that has something to do with it.
#[derive(Debug, Clone, Serialize)]
pub struct ForgottenSession {
    /// Whose session it is.
    pub format: String,
    /// The agent's name; empty where the format has no agents.
    pub agent: String,
    /// Its id.
    pub session_id: String,
    /// `transcript`, `agent`, `subagent`, `prompt_history`.
    pub part: String,
    /// Its title, or how its first prompt begins.
    pub title: Option<String>,
    /// The folder that groups sessions by project.
    pub project: Option<String>,
}
