//! What forgetting a session removes.

use serde::Serialize;

use super::none_if_empty;

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
