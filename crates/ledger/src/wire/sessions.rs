//! The JSON of `quipu sessions` and `quipu projects`.

use serde::Serialize;

use super::{SessionState, none_if_empty};

/// One session of a list.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// The id that the agent gave it. A sub-agent's id is `<parent>/<file>`.
    pub session_id: String,
    /// The session key that last led to it.
    pub session_key: Option<String>,
    /// The format it is written in.
    pub format: String,
    /// The agent that it belongs to; empty where the format has no agents, and `null` in JSON.
    #[serde(serialize_with = "none_if_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub agent: String,
    /// The kind of file that it comes from: `transcript`, `agent`, `subagent`, `trajectory` or
    /// `prompt_history`.
    pub part: String,
    /// The project's name: the last part of `cwd`, or else `slug`.
    pub project: String,
    /// The first folder that it worked in. If none is recorded, the folder of another session with
    /// the same slug.
    pub cwd: Option<String>,
    /// The name of the project's folder below Claude Code's `projects`.
    pub slug: Option<String>,
    /// The title that the user or the agent gave it, or else the first prompt that is not a
    /// command.
    pub title: Option<String>,
    /// The first prompt.
    pub first_prompt: Option<String>,
    /// The last three prompts, the oldest first.
    pub last_prompts: Vec<String>,
    /// The time of its first entry, milliseconds UTC.
    pub started_at: Option<i64>,
    /// The time of the last activity, milliseconds UTC: in the agent's index or of its last entry,
    /// the later of the two.
    pub updated_at: Option<i64>,
    /// The time when its newest file was last written, milliseconds UTC.
    pub modified_at: Option<i64>,
    /// The number of lines of the file that was written last; its other files are archives and
    /// copies.
    pub lines: u64,
    /// The number of collected bytes of that file.
    pub bytes: u64,
    /// The number of stored records of all its files, including their older versions.
    pub records: u64,
    /// The number of turns.
    pub turns: u64,
    /// The number of messages by the user or the assistant.
    pub messages: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The models that answered.
    pub models: Vec<String>,
    /// The tokens of its responses, including those read from or written to a cache, without those
    /// of its sub-agents. Each response is counted once over all sessions.
    pub total_tokens: u64,
    /// The cost of its responses in US dollars, without those of its sub-agents. Each response is
    /// counted once over all sessions. `null` if no response has a price.
    pub cost_usd: Option<f64>,
    /// The state of its files.
    pub state: SessionState,
    /// The session that started it, if it is a sub-agent.
    pub parent_session_id: Option<String>,
    /// The session that it was forked from.
    pub fork_of: Option<String>,
    /// The channel of its messages.
    pub channel: Option<String>,
    /// The number of branches in its tree.
    pub branches: u64,
    /// The number of compactions.
    pub compactions: u64,
    /// The number of sessions of its sub-agents.
    pub subagents: u64,
}

/// One project: all sessions of one folder.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Project {
    /// The last part of its path, or else a slug.
    pub project: String,
    /// Its folder; `null` if no session recorded it.
    pub cwd: Option<String>,
    /// The names of its folder below Claude Code's `projects`.
    pub slugs: Vec<String>,
    /// The formats of its sessions.
    pub formats: Vec<String>,
    /// The agents that worked on it.
    pub agents: Vec<String>,
    /// The number of sessions. Sub-agents, warm-up sessions (whose only prompt is `Warmup`) and
    /// empty sessions are not counted.
    pub sessions: u64,
    /// The time of the first entry, milliseconds UTC.
    pub started_at: Option<i64>,
    /// The time of the last activity, milliseconds UTC.
    pub updated_at: Option<i64>,
}
