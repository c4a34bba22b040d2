//! The shape of reports about forgetting a session.

use serde::Serialize;

use super::none_if_empty;

/// Everything that forgetting a session removes, or would remove.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForgetReport {
    /// True if it is forgotten; false for a preview.
    pub is_forgotten: bool,
    /// True if it had been forgotten before.
    pub was_forgotten: bool,
    /// True if the ledger's file no longer holds anything of it; false while another process reads
    /// old pages.
    pub is_cleaned: bool,
    /// The session and its sub-agents.
    pub affected_sessions: Vec<ForgottenSession>,
    /// The number of files collected of these sessions.
    pub files: u64,
    /// The number of records in them.
    pub records: u64,
    /// The number of bytes in records and unterminated last lines.
    pub bytes: u64,
    /// The number of lines of these sessions in files that all sessions share. Each is overwritten
    /// with blanks.
    pub shared_lines: u64,
    /// Files that are still on disk: quipu never deletes an agent's files.
    pub paths_on_disk: Vec<String>,
    /// The number of other sessions that hold copies of its lines.
    pub copies: u64,
    /// The first of these sessions, at most twenty.
    pub sessions_with_copies: Vec<ForgottenSession>,
    /// Threads of the session, which are separate sessions and stay.
    pub thread_sessions: Vec<ForgottenSession>,
    /// Backups that may still hold it, which quipu does not change.
    pub backup_paths: Vec<String>,
}

/// A session that is forgotten, or one related to it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForgottenSession {
    /// The session's format.
    pub format: String,
    /// The agent's name; empty where the format has no agents, and `null` in JSON.
    #[serde(serialize_with = "none_if_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub agent: String,
    /// Its id.
    pub session_id: String,
    /// `transcript`, `agent`, `subagent`, `trajectory`, `prompt_history`.
    pub part: String,
    /// Its title, or the beginning of its first prompt.
    pub title: Option<String>,
    /// The project's name: the last folder of its path.
    pub project: Option<String>,
    /// Claude Code's name of the project's folder.
    pub slug: Option<String>,
}
