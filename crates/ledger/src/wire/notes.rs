//! The shapes of notes, and of scheduled jobs and their runs.

use serde::Serialize;

/// A memory or personality file.
#[derive(Debug, Clone, Serialize)]
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
    pub gone: bool,
}

/// One version of a note.
#[derive(Debug, Clone, Serialize)]
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
pub struct CronJob {
    /// The agent's id of the job.
    pub id: String,
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
    pub errors: u64,
    /// The time of the last run, milliseconds UTC.
    pub last_run_at: Option<i64>,
    /// The status of the last run, as written.
    pub last_status: Option<String>,
    /// The time of the next run, as last recorded.
    pub next_run_at: Option<i64>,
}

/// One run of a job.
#[derive(Debug, Clone, Serialize)]
pub struct CronRun {
    /// The job.
    pub job: String,
    /// The time it ended, milliseconds UTC.
    pub time: Option<i64>,
    /// The status, as written: `ok`, `error`, `skipped`.
    pub status: Option<String>,
    /// The duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// The model that answered.
    pub model: Option<String>,
    /// The number of tokens that the run recorded.
    pub tokens: Option<u64>,
    /// The summary of the run.
    pub summary: Option<String>,
    /// The error of the run.
    pub error: Option<String>,
    /// The session that ran.
    pub session: Option<String>,
}
