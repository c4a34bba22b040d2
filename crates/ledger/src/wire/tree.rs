//! The shape of a session's tree.

use serde::Serialize;

/// One line of a session's tree: a run of entries without a fork, or an event between two runs.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeLine {
    /// Its number, from 1, in the order of the lines.
    pub node: usize,
    /// The line that it continues; `null` where a conversation begins.
    pub parent_node: Option<usize>,
    /// `run`, `compaction`, `branch_summary`, `reset`, `label`, `subagent`, `sidechain`,
    /// `forked_from` or `fork`. `forked_from` is a first line that names the session this one was
    /// forked from. `fork` names a session that was forked from this one, after the last entry that
    /// both share.
    pub kind: &'static str,
    /// The number of abandoned branches that contain it; 0 on the path to the leaf.
    pub depth: usize,
    /// For a sub-agent: the number of sub-agents between it and the session.
    pub nested: usize,
    /// The first entry.
    pub first_entry_id: Option<String>,
    /// The last entry, which `--branch` accepts.
    pub last_entry_id: Option<String>,
    /// The time of the first entry, milliseconds UTC.
    pub time: Option<i64>,
    /// The number of entries.
    pub entries: u64,
    /// The number of prompts among them.
    pub turns: u64,
    /// The number of tool calls in them.
    pub tool_calls: u64,
    /// The id of its first entry's parent, if the session has no entry with that id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_parent_id: Option<String>,
    /// The first prompt, the label, or the prompt of a sub-agent. For the first run of a branch
    /// without a prompt: its first answer.
    pub text: Option<String>,
    /// The number of branches that follow it, if there are several.
    pub branches: usize,
    /// True if the next entry attaches here.
    pub is_leaf: bool,
    /// True if it is on the path from the root to the leaf.
    pub is_current: bool,
    /// The sub-agent's session, or the other session of a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The sub-agent's type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// For a compaction: the size of the context before it, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_before: Option<u64>,
    /// For a compaction: the size of the context after it, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_after: Option<u64>,
}
