//! The shapes of notes, and of scheduled jobs and their runs.

use serde::Serialize;

/// A memory or personality file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Note {
    /// The format: `openclaw`.
    pub format: String,
    /// The agent that owns it.
    pub agent: String,
    /// Its path inside the workspace.
    pub name: String,
    /// The number of versions seen.
    pub versions: u64,
    /// The length of the newest version in bytes.
    pub bytes: u64,
    /// The time of the last change, milliseconds UTC.
    pub updated_at: Option<i64>,
    /// True if it is no longer on disk.
    pub is_gone: bool,
}

/// One version of a note.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoteVersion {
    /// The agent that owns it.
    pub agent: String,
    /// Its path inside the workspace.
    pub name: String,
    /// The number of the version; 1 for the first one seen.
    pub version: u64,
    /// The time it was written, milliseconds UTC.
    pub time: Option<i64>,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its text.
    pub text: String,
}

/// A scheduled job.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CronJob {
    /// The agent's id of the job.
    pub job_id: String,
    /// The job's name.
    pub name: Option<String>,
    /// The job's description.
    pub description: Option<String>,
    /// The agent that runs it.
    pub agent: Option<String>,
    /// The schedule in words.
    pub schedule: String,
    /// `on`, `off`, or `gone` if it is no longer in the list.
    pub state: &'static str,
    /// The prompt that the agent gets.
    pub prompt: Option<String>,
    /// The number of runs.
    pub runs: u64,
    /// The number of failed runs.
    pub failed_runs: u64,
    /// The time of the last run, milliseconds UTC.
    pub last_run_at: Option<i64>,
    /// The status of the last run, as written.
    pub last_status: Option<String>,
    /// The time of the next run, as last recorded.
    pub next_run_at: Option<i64>,
}

/// One run of a job.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CronRun {
    /// The job.
    pub job_id: String,
    /// The time it ended, milliseconds UTC.
    pub time: Option<i64>,
    /// The status, as written: `ok`, `error`, `skipped`.
    pub status: Option<String>,
    /// The duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// The model that answered.
    pub model: Option<String>,
    /// The number of tokens that the run recorded.
    pub total_tokens: Option<u64>,
    /// The summary of the run.
    pub summary: Option<String>,
    /// The error of the run.
    pub error_message: Option<String>,
    /// The session that ran.
    pub session_id: Option<String>,
}

/// The changes of one version of a note.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoteChange<'a> {
    /// The agent that owns the note.
    pub agent: &'a str,
    /// Its path inside the workspace.
    pub name: &'a str,
    /// The number of the version.
    pub version: u64,
    /// The time it was written, milliseconds UTC.
    pub time: Option<i64>,
    /// The number of lines that were added.
    pub added_lines: usize,
    /// The number of lines that were removed.
    pub removed_lines: usize,
    /// The changes: a sign and a line, line by line.
    pub diff: String,
}
