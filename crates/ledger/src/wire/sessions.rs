//! Sessions and projects, as the index shows them.

use serde::Serialize;

use super::none_if_empty;

/// One session of the index.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Session {
    /// The agent's id; of a sub-agent `<parent>/<file>`.
    pub id: String,
    /// The key that last led to it.
    pub key: Option<String>,
    /// Which format it is written in.
    pub format: String,
    /// The agent that it belongs to; empty where the format has no agents, and `null` in JSON.
    #[serde(serialize_with = "none_if_empty")]
    pub agent: String,
    /// `transcript`, `agent`, `subagent` or `prompt_history`.
    pub part: String,
    /// The project's name: the last folder of its path.
    pub project: String,
    /// The project's folder: the first one that the session worked in.
    pub cwd: Option<String>,
    /// Claude Code's name of the project's folder.
    pub slug: Option<String>,
    /// The title, in the vendor's order of preference; at last the first prompt that is no command.
    pub title: Option<String>,
    /// The first prompt.
    pub first_prompt: Option<String>,
    /// The last three prompts, the oldest first.
    pub last_prompts: Vec<String>,
    /// When it began, milliseconds UTC.
    pub started_at: Option<i64>,
    /// When something last happened: as the agent's index says, or else its entries.
    pub updated_at: Option<i64>,
    /// When its newest file was last written.
    pub modified_at: Option<i64>,
    /// Lines of its files.
    pub lines: u64,
    /// Bytes of its files.
    pub size: u64,
    /// Records that are kept of it, former versions of its files included.
    pub records: u64,
    /// Turns: prompts with all that answers them.
    pub turns: u64,
    /// Messages of user and assistant.
    pub messages: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Models that answered.
    pub models: Vec<String>,
    /// Tokens of its responses, each counted once over all sessions, those that were read from or
    /// written to a cache included.
    pub tokens: u64,
    /// What its responses cost, in US dollars: each counted once over all sessions, without those of
    /// its sub-agents; `null` if none of them has a price.
    pub cost_usd: Option<f64>,
    /// `live`, `archived`, `deleted`, `gone` or `lost`.
    pub state: String,
    /// The session that it works for.
    pub parent: Option<String>,
    /// The session that it goes on from.
    pub fork_of: Option<String>,
    /// The channel that its messages came through.
    pub channel: Option<String>,
    /// Paths through its tree.
    pub branches: u64,
    /// Compactions.
    pub compactions: u64,
    /// Sessions that work for it.
    pub subagents: u64,
}

/// One project: sessions that worked in the same folder.
#[derive(Debug, Clone, Serialize)]
pub struct Project {
    /// The last folder of its path.
    pub name: String,
    /// Its folder, where sessions say so.
    pub path: Option<String>,
    /// Claude Code's names of it.
    pub slugs: Vec<String>,
    /// Which formats its sessions are written in.
    pub formats: Vec<String>,
    /// Which agents worked on it.
    pub agents: Vec<String>,
    /// Sessions, without sub-agents, stubs and empty ones.
    pub sessions: u64,
    /// When the first of them began, milliseconds UTC.
    pub started_at: Option<i64>,
    /// When something last happened in one of them.
    pub updated_at: Option<i64>,
}
