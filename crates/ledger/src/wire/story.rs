//! The shapes of a session's header and of the entries of its story.
//!
//! [`ShownEntry::of`] selects the requested parts of an item. Never reads the ledger.

use std::borrow::Cow;

use quipu_transcript::entry::{RawJson, Usage};
use quipu_transcript::story::{
    Folded, ItemKind, Outcome, Piece, Rewind, StoryDetail, StoryItem, Tools,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{SessionState, none_if_empty};

/// A session as a whole.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoryHead {
    /// The id that the agent gave it.
    pub session_id: String,
    /// The session's format.
    pub format: String,
    /// The agent's name; empty where the format has no agents, and `null` in JSON.
    #[serde(serialize_with = "none_if_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub agent: String,
    /// The session key that last led to it.
    pub session_key: Option<String>,
    /// `transcript`, `agent`, `subagent`, `trajectory`, `prompt_history`.
    pub part: String,
    /// The state of its files.
    pub state: SessionState,
    /// The parent session, for which it works.
    pub parent_session_id: Option<String>,
    /// The session that it continues.
    pub fork_of: Option<String>,
    /// The session that continues it.
    pub continued_in: Option<String>,
    /// The project's name: the last folder of its path.
    pub project: Option<String>,
    /// Claude Code's name of the project's folder.
    pub slug: Option<String>,
    /// The first working directory.
    pub cwd: Option<String>,
    /// The last git branch.
    pub git_branch: Option<String>,
    /// The last model.
    pub model: Option<String>,
    /// Its title, or else the first prompt that is not a command.
    pub title: Option<String>,
    /// The first prompt.
    pub first_prompt: Option<String>,
    /// The time of its first entry, milliseconds UTC.
    pub started_at: Option<i64>,
    /// The time of its last activity, milliseconds UTC, as in the list of sessions.
    pub updated_at: Option<i64>,
    /// The number of entries of every kind.
    pub entries: u64,
    /// The number of turns.
    pub turns: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The number of compactions.
    pub compactions: u64,
    /// The known parts of a lost session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remains: Option<LostParts>,
}

/// The known parts of a session whose transcript was deleted before it could be collected.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostParts {
    /// The number of its prompts in the agent's list of prompts.
    pub prompts: u64,
    /// The sessions of its sub-agents.
    pub subagent_ids: Vec<String>,
    /// The number of tool outputs in separate files.
    pub outputs: u64,
}

/// One entry of a story.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownEntry<'a> {
    /// The id that the agent gave it; `#` and a number where it has none.
    pub entry_id: &'a str,
    /// The entry that it follows.
    pub parent_id: Option<&'a str>,
    /// `message`, `compaction`, `branch_summary`, `reset`, `note`.
    pub kind: &'static str,
    /// `user`, `assistant`, `tool`, `system`; `null` for an entry without a speaker.
    pub role: Option<&'static str>,
    /// The time, milliseconds UTC, by the agent's clock.
    pub time: Option<i64>,
    /// The text. For a compaction: its summary, on request.
    pub text: Option<Cow<'a, str>>,
    /// The first tool that it calls, or else the first tool whose result it holds.
    pub tool: Option<&'a str>,
    /// The type, as the record names it.
    #[serde(rename = "type")]
    pub type_name: &'a str,
    /// The entry's number in the ledger.
    pub entry: i64,
    /// The turn it belongs to, counted from 1.
    pub turn_number: Option<u64>,
    /// True if it begins a turn.
    pub is_prompt: bool,
    /// True for a prompt that no person wrote.
    #[serde(skip_serializing_if = "is_false")]
    pub is_automatic: bool,
    /// The sender of a message that came through a chat channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<ShownSender<'a>>,
    /// The model that answered; if the record does not name it, the model in effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    /// The provider of that model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<&'a str>,
    /// The API that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<&'a str>,
    /// The reason why the answer ended, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<&'a str>,
    /// The tokens and the cost that the entry records. Several lines of one answer repeat them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<ShownUsage>,
    /// The tokens and the cost that `quipu usage` counts for the entry. Of all lines and copies of
    /// an answer, one has them. A cost that the agent did not record is by the prices of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<ShownUsage>,
    /// The label that it sets on another entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<ShownLabel<'a>>,
    /// The reason of a reset, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// The source of the summary of a branch, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<&'a str>,
    /// The thinking level that it sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<&'a str>,
    /// The state that an extension stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<ShownCustom<'a>>,
    /// The model's reasoning, on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// The tool calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ShownCall<'a>>,
    /// The tool results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ShownResult<'a>>,
    /// Texts that a person pasted or chose to show, and on request those that programs put beside
    /// it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<ShownAttached<'a>>,
    /// The number of images.
    #[serde(skip_serializing_if = "is_zero")]
    pub images: u64,
    /// Details of a compaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<ShownCompaction<'a>>,
    /// The reason why it is shown only on request: `meta`, `mirror`, `sidechain`, `summary`,
    /// `queued`, `unknown`, `bookkeeping`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folded: Option<&'static str>,
    /// Set if the conversation was rewound before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewind: Option<ShownRewind<'a>>,
    /// True if the agent recorded its own failure.
    #[serde(skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// True if the human stopped the agent.
    #[serde(skip_serializing_if = "is_false")]
    pub is_interrupted: bool,
    /// True if it comes from a last line without a newline.
    #[serde(skip_serializing_if = "is_false")]
    pub is_provisional: bool,
    /// True if the agent's file no longer holds it.
    #[serde(skip_serializing_if = "is_false")]
    pub is_absent: bool,
    /// The id of its parent, if the session has no entry with that id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_parent_id: Option<&'a str>,
    /// The length of its line in bytes, if it is too long to be decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oversize_bytes: Option<u64>,
}

/// The tokens and the cost of an answer.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownUsage {
    /// Uncached input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Input tokens read from the cache.
    pub cache_read_tokens: u64,
    /// Input tokens written to the cache.
    pub cache_write_tokens: u64,
    /// The cost in US dollars, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// A label on another entry.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownLabel<'a> {
    /// The labelled entry.
    pub entry_id: &'a str,
    /// The label; `null` removes it.
    pub label: Option<&'a str>,
}

/// The state that an extension stored.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownCustom<'a> {
    /// The extension's name for the state.
    #[serde(rename = "type")]
    pub custom_type: &'a str,
    /// The state; `null` if there is none.
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub data: Option<&'a RawValue>,
}

/// The sender of a message that came through a chat channel.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownSender<'a> {
    /// The name.
    pub name: Option<&'a str>,
    /// The channel.
    pub channel: Option<&'a str>,
    /// The channel's id of the message.
    pub message_id: Option<&'a str>,
}

/// A text beside a message.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownAttached<'a> {
    /// The kind of text: `system-reminder`, `Sender`.
    pub label: &'a str,
    /// A description in a few words, if a person chose to show it to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gist: Option<&'a str>,
    /// Its text, on request; of a pasted text always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a str>,
}

/// A tool call.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownCall<'a> {
    /// The id that pairs it with its result.
    pub call_id: Option<&'a str>,
    /// The tool's name.
    pub tool: &'a str,
    /// The path, command or query that it is about.
    pub target: Option<&'a str>,
    /// The arguments, on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub input: Option<&'a RawValue>,
    /// The outcome: `fine`, `failed`, `mentions_error`; `null` without a result.
    pub outcome: Option<&'static str>,
    /// The exit code of a command that failed, if its result has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The session of the sub-agent that it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_id: Option<&'a str>,
}

/// A tool result.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownResult<'a> {
    /// The call that it answers.
    pub call_id: Option<&'a str>,
    /// The tool's name.
    pub tool: Option<&'a str>,
    /// The path, command or query of the call.
    pub target: Option<&'a str>,
    /// The outcome: `fine`, `failed`, `mentions_error`.
    pub outcome: &'static str,
    /// Its length in bytes.
    pub bytes: usize,
    /// Its text, on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a str>,
    /// The file that holds the whole output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_file: Option<&'a str>,
}

/// Details of a compaction.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownCompaction<'a> {
    /// The cause of the compaction.
    pub cause: Option<&'a str>,
    /// The context size before, in tokens.
    pub tokens_before: Option<u64>,
    /// The context size after, in tokens.
    pub tokens_after: Option<u64>,
    /// The number of messages it replaces.
    pub compacted_messages: Option<u64>,
    /// The first entry that stays in the context, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_kept_entry_id: Option<&'a str>,
    /// Files that had been read.
    pub read_files: &'a [String],
    /// Files that had been changed.
    pub modified_files: &'a [String],
}

/// A rewind of the conversation.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownRewind<'a> {
    /// The last turn that still counts; `null` if the conversation started again.
    pub to_turn_number: Option<u64>,
    /// The entry that it continues from.
    pub to_entry_id: Option<&'a str>,
}

impl ShownUsage {
    fn of(usage: Usage) -> ShownUsage {
        ShownUsage {
            input_tokens: usage.input,
            output_tokens: usage.output,
            cache_read_tokens: usage.cache_read,
            cache_write_tokens: usage.cache_write,
            cost_usd: usage.cost_usd,
        }
    }
}

impl<'a> ShownEntry<'a> {
    /// Returns the shape of an item, with the parts that `detail` requests.
    pub fn of(item: &'a StoryItem<'_>, detail: StoryDetail) -> ShownEntry<'a> {
        let mut shown = ShownEntry {
            entry_id: item.id.as_deref().unwrap_or_default(),
            parent_id: item.parent.as_deref(),
            kind: item.kind.as_str(),
            role: item.role.map(|role| role.as_str()),
            time: item.time.map(|time| time.0),
            text: None,
            tool: None,
            type_name: &item.type_name,
            entry: item.entry,
            turn_number: item.turn,
            is_prompt: item.is_prompt,
            is_automatic: item.is_automatic,
            sender: item.sender.as_ref().map(|sender| ShownSender {
                name: sender.name.as_deref(),
                channel: sender.channel.as_deref(),
                message_id: sender.message_id.as_deref(),
            }),
            model: item.model.as_deref(),
            provider: item.provider.as_deref(),
            api: item.api.as_deref(),
            stop_reason: item.stop_reason.as_deref(),
            usage: item.usage.map(ShownUsage::of),
            counted: item.counted.map(ShownUsage::of),
            label: item.label.as_ref().map(|change| ShownLabel {
                entry_id: &change.target,
                label: change.label.as_deref(),
            }),
            reason: None,
            from: None,
            thinking_level: item.thinking_level.as_deref(),
            custom: item.custom.as_ref().map(|custom| ShownCustom {
                custom_type: &custom.custom_type,
                data: custom.data.as_ref().map(raw_value),
            }),
            thinking: None,
            calls: Vec::new(),
            results: Vec::new(),
            attached: Vec::new(),
            images: 0,
            compaction: None,
            folded: item.folded.map(Folded::as_str),
            rewind: item.rewind.as_ref().map(|Rewind { to_turn, to, .. }| ShownRewind {
                to_turn_number: *to_turn,
                to_entry_id: to.as_deref(),
            }),
            is_error: item.is_error,
            is_interrupted: item.is_interrupt,
            is_provisional: item.is_provisional,
            is_absent: item.is_absent,
            missing_parent_id: item.missing_parent.as_deref(),
            oversize_bytes: item.oversize,
        };
        let words = item.words();
        shown.text = (!words.is_empty()).then_some(words);
        match &item.kind {
            ItemKind::Compaction(compaction) => {
                if detail.compactions && !compaction.summary.is_empty() {
                    shown.text = Some(Cow::Borrowed(&compaction.summary));
                }
                shown.compaction = Some(ShownCompaction {
                    cause: compaction.trigger.as_deref(),
                    tokens_before: compaction.tokens_before,
                    tokens_after: compaction.tokens_after,
                    compacted_messages: compaction.compacted_count,
                    first_kept_entry_id: compaction.first_kept.as_deref(),
                    read_files: &compaction.read_files,
                    modified_files: &compaction.modified_files,
                });
            }
            ItemKind::BranchSummary { summary, from } => {
                shown.text = Some(Cow::Borrowed(summary));
                shown.from = from.as_deref();
            }
            ItemKind::Reset { reason } => shown.reason = reason.as_deref(),
            _ => {}
        }
        item.pieces.iter().for_each(|piece| shown.add(piece, detail));
        let called = shown.calls.first().map(|call| call.tool);
        shown.tool = called.or(shown.results.iter().find_map(|result| result.tool));
        shown
    }

    fn add(&mut self, piece: &'a Piece<'_>, detail: StoryDetail) {
        match piece {
            Piece::Thinking(words) if piece.is_shown(detail) => {
                let thinking = self.thinking.get_or_insert_default();
                if !thinking.is_empty() {
                    thinking.push('\n');
                }
                thinking.push_str(words);
            }
            Piece::Call(call) => self.calls.push(ShownCall {
                call_id: call.id.as_deref(),
                tool: &call.name,
                target: call.about.as_deref().filter(|_| detail.tools > Tools::Names),
                input: call.input.as_ref().filter(|_| detail.tools >= Tools::Inputs).map(raw_value),
                outcome: call.outcome.map(Outcome::as_str),
                exit_code: call.exit_code,
                subagent_id: call.subagent.as_deref(),
            }),
            Piece::Result(result) => self.results.push(ShownResult {
                call_id: result.call_id.as_deref(),
                tool: result.name.as_deref(),
                target: result.about.as_deref(),
                outcome: result.outcome.as_str(),
                bytes: result.text.len(),
                text: (detail.tools == Tools::Full).then_some(&*result.text),
                output_file: result.output_file.as_deref(),
            }),
            Piece::Image { .. } => self.images += 1,
            Piece::Attached { label, text, gist } => {
                if piece.is_shown(detail) {
                    let text = detail.folded.then_some(&**text);
                    self.attached.push(ShownAttached { label, gist: gist.as_deref(), text });
                }
            }
            Piece::Pasted { label, text } => {
                self.attached.push(ShownAttached { label, gist: None, text: Some(text) });
            }
            Piece::Words(_) | Piece::Thinking(_) | Piece::Other(_) => {}
        }
    }
}

/// Counts over the entries of a story.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoryCounts {
    /// The number of entries shown.
    pub entries: u64,
    /// The number of prompts.
    pub turns: u64,
    /// The number of entries with text of the human.
    pub user_entries: u64,
    /// The number of entries with text of the agent.
    pub assistant_entries: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The number of tool results.
    pub tool_results: u64,
    /// The number of tool results that were recorded as errors.
    pub failed_results: u64,
    /// The number of other tool results that mention an error.
    pub results_mentioning_errors: u64,
    /// The number of sub-agents started.
    pub subagents: u64,
    /// The number of images.
    pub images: u64,
    /// The number of compactions.
    pub compactions: u64,
    /// The number of rewinds.
    pub rewinds: u64,
    /// The number of times the human stopped the agent.
    pub interrupts: u64,
    /// The number of its own failures that the agent recorded.
    pub api_errors: u64,
}

impl StoryCounts {
    /// Counts an item.
    pub fn add(&mut self, item: &StoryItem<'_>) {
        use quipu_transcript::entry::Role;
        self.entries += 1;
        self.turns += u64::from(item.is_prompt);
        self.compactions += u64::from(matches!(item.kind, ItemKind::Compaction(_)));
        self.rewinds += u64::from(item.rewind.is_some());
        self.interrupts += u64::from(item.is_interrupt);
        self.api_errors += u64::from(item.is_error);
        let mut has_words = false;
        for piece in &item.pieces {
            match piece {
                Piece::Words(words) => has_words |= !words.trim().is_empty(),
                Piece::Call(call) => {
                    self.tool_calls += 1;
                    self.subagents += u64::from(call.subagent.is_some());
                }
                Piece::Result(result) => {
                    self.tool_results += 1;
                    self.failed_results += u64::from(result.outcome == Outcome::Failed);
                    self.results_mentioning_errors +=
                        u64::from(result.outcome == Outcome::Mentions);
                }
                Piece::Image { .. } => self.images += 1,
                Piece::Attached { .. }
                | Piece::Pasted { .. }
                | Piece::Thinking(_)
                | Piece::Other(_) => {}
            }
        }
        if has_words && !item.is_interrupt && item.folded.is_none() {
            match item.role {
                Some(Role::User | Role::Tool) => self.user_entries += 1,
                Some(Role::Assistant) => self.assistant_entries += 1,
                _ => {}
            }
        }
    }
}

fn raw_value<'a>(raw: &'a RawJson<'_>) -> &'a RawValue {
    match raw {
        RawJson::Borrowed(raw) => raw,
        RawJson::Owned(raw) => raw,
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}
