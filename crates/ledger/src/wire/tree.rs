//! The tree of a session.

use serde::Serialize;

/// One line of a session's tree: a run of entries that no fork interrupts, or something that
/// happened between two of them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TreeLine {
    /// Its number, from 1, in the order of the lines.
    pub line: usize,
    /// The line that it goes on from; `null` where a conversation begins.
    pub parent: Option<usize>,
    /// `run`, `compaction`, `branch_summary`, `reset`, `label`, `subagent`, `sidechain`; `forked_from`,
    /// a first line for what the session was forked from, and `fork` for a session that was forked
    /// from it, with the last entry that both have.
    pub kind: &'static str,
    /// How many branches that were left it stands in; 0 is the way to the leaf.
    pub depth: usize,
    /// For a sub-agent: how many others stand between it and the session.
    pub nested: usize,
    /// The first entry.
    pub first: Option<String>,
    /// The last entry: what `--branch` takes.
    pub last: Option<String>,
    /// When the first entry was written, milliseconds UTC.
    pub time: Option<i64>,
    /// How many entries.
    pub entries: u64,
    /// How many of them are prompts.
    pub turns: u64,
    /// The calls in them.
    pub tool_calls: u64,
    /// What its first entry says it follows, where the session has no entry of that id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_parent: Option<String>,
    /// The first prompt, the label, or what a sub-agent was told.
    pub text: Option<String>,
    /// How many ways go on after it, where that is more than one.
    pub branches: usize,
    /// The next entry attaches here.
    pub leaf: bool,
    /// It is on the way from the root to the leaf.
    pub current: bool,
    /// A sub-agent's session, or the other one of a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// A sub-agent's kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// Of a compaction: the size of the context before and after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<(Option<u64>, Option<u64>)>,
}
