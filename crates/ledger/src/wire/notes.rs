//! The shapes of notes, and of scheduled jobs and their runs.

use serde::Serialize;

/// A memory or personality file.
#[derive(Debug, Clone, Serialize)]
pub struct Note {
    /// `openclaw`.
    pub format: String,
    /// Whose it is.
    pub agent: String,
    /// Its path inside the workspace.
    pub name: String,
    /// How many versions were seen.
    pub versions: u64,
    /// Of the newest version.
    pub bytes: u64,
    /// When it was last changed, in milliseconds UTC.
    pub updated_at: Option<i64>,
    /// It is no longer on disk.
    pub gone: bool,
}

/// One version of a note.
#[derive(Debug, Clone, Serialize)]
pub struct NoteVersion {
    /// Whose it is.
    pub agent: String,
    /// Its path inside the workspace.
    pub name: String,
    /// 1 for the first that was seen.
    pub version: u64,
    /// When it was written, in milliseconds UTC.
    pub time: Option<i64>,
    /// How long it is.
    pub bytes: u64,
    /// What it says.
    pub text: String,
}

/// A scheduled job.
#[derive(Debug, Clone, Serialize)]
pub struct CronJob {
    /// The agent's id of it.
    pub id: String,
    /// What people call it.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Who runs it.
    pub agent: Option<String>,
    /// In words.
    pub schedule: String,
    /// `on`, `off`, or `gone` if it is no longer in the list.
    pub state: &'static str,
    /// What the agent is told to do.
    pub prompt: Option<String>,
    /// How often it ran.
    pub runs: u64,
    /// How often it failed.
    pub errors: u64,
    /// The last run, in milliseconds UTC.
    pub last_run_at: Option<i64>,
    /// How that ended, as written.
    pub last_status: Option<String>,
    /// The next run, as of the last word about it.
    pub next_run_at: Option<i64>,
}

/// One run of a job.
#[derive(Debug, Clone, Serialize)]
pub struct CronRun {
    /// The job.
    pub job: String,
    /// When it ended, in milliseconds UTC.
    pub time: Option<i64>,
    /// How it ended, as written: `ok`, `error`, `skipped`.
    pub status: Option<String>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// What answered.
    pub model: Option<String>,
    /// All tokens that it says it used.
    pub tokens: Option<u64>,
    /// What came of it.
    pub summary: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// The session that ran.
    pub session: Option<String>,
}
