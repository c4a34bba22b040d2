//! A session and its story.

use std::borrow::Cow;

use quipu_transcript::entry::RawJson;
use quipu_transcript::story::{
    Folded, ItemKind, Outcome, Piece, Rewind, StoryItem, Telling, Tools,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::none_if_empty;

/// What is known of a session as a whole.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StoryHead {
    /// The agent's id.
    pub id: String,
    /// Whose session it is.
    pub format: String,
    /// The agent's name; empty where the format has no agents, and `null` in JSON.
    #[serde(serialize_with = "none_if_empty")]
    pub agent: String,
    /// The key that last led to it.
    pub key: Option<String>,
    /// `transcript`, `agent`, `subagent`, `prompt_history`.
    pub part: String,
    /// `live`, `archived`, `deleted`, `gone`, `lost`.
    pub state: String,
    /// The session that it works for.
    pub parent: Option<String>,
    /// The session that it goes on from.
    pub fork_of: Option<String>,
    /// The session that it goes on in.
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
    /// Its title; at last the first prompt that is no command.
    pub title: Option<String>,
    /// The first prompt.
    pub first_prompt: Option<String>,
    /// The first time, milliseconds UTC.
    pub started_at: Option<i64>,
    /// The last time, milliseconds UTC.
    pub updated_at: Option<i64>,
    /// Entries of every kind.
    pub entries: u64,
    /// Prompts with all that answers them.
    pub turns: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// How often history was compacted.
    pub compactions: u64,
    /// What is left of it, if it is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
}

/// What is left of a session whose transcript was gone before anybody collected it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Left {
    /// Prompts, in a list of them.
    pub prompts: u64,
    /// Its sub-agents' sessions.
    pub subagents: Vec<String>,
    /// Outputs of tools, in files of their own.
    pub outputs: u64,
}

/// One entry of a story.
#[derive(Debug, Clone, Serialize)]
pub struct ShownEntry<'a> {
    /// The agent's id; `#` and a number where it gave none.
    pub id: &'a str,
    /// The entry that it follows.
    pub parent: Option<&'a str>,
    /// `message`, `compaction`, `branch_summary`, `reset`, `note`.
    pub kind: &'static str,
    /// `user`, `assistant`, `tool`, `system`; `null` for what nobody says.
    pub role: Option<&'static str>,
    /// Milliseconds UTC, by the agent's clock.
    pub time: Option<i64>,
    /// The words; of a compaction its summary, where that was asked for.
    pub text: Option<Cow<'a, str>>,
    /// The name of the tool that is called or that answers; the first of several.
    pub tool: Option<&'a str>,
    /// The record's own type name.
    #[serde(rename = "type")]
    pub type_name: &'a str,
    /// The number of the entry in the ledger's tables.
    pub entry: i64,
    /// Which turn it belongs to, counted from 1.
    pub turn: Option<u64>,
    /// It begins a turn.
    pub prompt: bool,
    /// The model that speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    /// The model's reasoning, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// The calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ShownCall<'a>>,
    /// The answers of tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ShownResult<'a>>,
    /// How many pictures stand beside the words.
    #[serde(skip_serializing_if = "is_zero")]
    pub images: u64,
    /// What a compaction stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<ShownCompaction<'a>>,
    /// Why it is told only when asked for: `meta`, `mirror`, `sidechain`, `summary`, `queued`,
    /// `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folded: Option<&'static str>,
    /// The conversation went back before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewind: Option<ShownRewind<'a>>,
    /// The agent recorded a failure of its own.
    #[serde(skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// The human stopped the agent.
    #[serde(skip_serializing_if = "is_false")]
    pub interrupted: bool,
    /// From a last line without a newline.
    #[serde(skip_serializing_if = "is_false")]
    pub provisional: bool,
    /// The agent's file no longer holds it.
    #[serde(skip_serializing_if = "is_false")]
    pub absent: bool,
    /// The entry that it says it follows, where the session has none of that id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_parent: Option<&'a str>,
    /// How many bytes its line has, where that is too many for it to be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oversize: Option<u64>,
}

/// A call of a tool.
#[derive(Debug, Clone, Serialize)]
pub struct ShownCall<'a> {
    /// What pairs it with its result.
    pub id: Option<&'a str>,
    /// The tool's name.
    pub name: &'a str,
    /// The path, command or query that it is about.
    pub about: Option<&'a str>,
    /// The arguments, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<&'a RawValue>,
    /// How it ended: `fine`, `failed`, `mentions_error`; `null` without a result.
    pub outcome: Option<&'static str>,
    /// The session of the sub-agent that it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent: Option<&'a str>,
}

/// What a tool answered.
#[derive(Debug, Clone, Serialize)]
pub struct ShownResult<'a> {
    /// The call that it answers.
    pub call: Option<&'a str>,
    /// The tool's name.
    pub name: Option<&'a str>,
    /// What the call was about.
    pub about: Option<&'a str>,
    /// How it ended: `fine`, `failed`, `mentions_error`.
    pub outcome: &'static str,
    /// Its length in bytes.
    pub bytes: usize,
    /// Its text, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a str>,
    /// The file that holds all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_file: Option<&'a str>,
}

/// What a compaction stands for.
#[derive(Debug, Clone, Serialize)]
pub struct ShownCompaction<'a> {
    /// What set it off.
    pub trigger: Option<&'a str>,
    /// Context size before.
    pub tokens_before: Option<u64>,
    /// Context size after.
    pub tokens_after: Option<u64>,
    /// How many messages it stands for.
    pub compacted_count: Option<u64>,
    /// Files that had been read.
    pub read_files: &'a [String],
    /// Files that had been changed.
    pub modified_files: &'a [String],
}

/// Where a conversation went back to.
#[derive(Debug, Clone, Serialize)]
pub struct ShownRewind<'a> {
    /// The last turn that still counts; `null` if it began anew.
    pub to_turn: Option<u64>,
    /// The entry that it goes on from.
    pub to: Option<&'a str>,
}

impl<'a> ShownEntry<'a> {
    /// An item, as far as it is to be told.
    pub fn of(item: &'a StoryItem<'_>, telling: Telling) -> ShownEntry<'a> {
        let mut shown = ShownEntry {
            id: item.id.as_deref().unwrap_or_default(),
            parent: item.parent.as_deref(),
            kind: item.kind.as_str(),
            role: item.role.map(|role| role.as_str()),
            time: item.time.map(|time| time.0),
            text: None,
            tool: None,
            type_name: &item.type_name,
            entry: item.entry,
            turn: item.turn,
            prompt: item.is_prompt,
            model: item.model.as_deref(),
            thinking: None,
            calls: Vec::new(),
            results: Vec::new(),
            images: 0,
            compaction: None,
            folded: item.folded.map(Folded::as_str),
            rewind: item.rewind.as_ref().map(|Rewind { to_turn, to, .. }| ShownRewind {
                to_turn: *to_turn,
                to: to.as_deref(),
            }),
            is_error: item.is_error,
            interrupted: item.is_interrupt,
            provisional: item.is_provisional,
            absent: item.is_absent,
            missing_parent: item.missing_parent.as_deref(),
            oversize: item.oversize,
        };
        let words = item.words();
        shown.text = (!words.is_empty()).then_some(words);
        match &item.kind {
            ItemKind::Compaction(compaction) => {
                if telling.compactions && !compaction.summary.is_empty() {
                    shown.text = Some(Cow::Borrowed(&compaction.summary));
                }
                shown.compaction = Some(ShownCompaction {
                    trigger: compaction.trigger.as_deref(),
                    tokens_before: compaction.tokens_before,
                    tokens_after: compaction.tokens_after,
                    compacted_count: compaction.compacted_count,
                    read_files: &compaction.read_files,
                    modified_files: &compaction.modified_files,
                });
            }
            ItemKind::BranchSummary { summary, .. } => {
                shown.text = Some(Cow::Borrowed(summary));
            }
            _ => {}
        }
        item.pieces.iter().for_each(|piece| shown.add(piece, telling));
        let called = shown.calls.first().map(|call| call.name);
        shown.tool = called.or(shown.results.iter().find_map(|result| result.name));
        shown
    }

    fn add(&mut self, piece: &'a Piece<'_>, telling: Telling) {
        match piece {
            Piece::Thinking(words) if piece.is_told(telling) => {
                let thinking = self.thinking.get_or_insert_default();
                if !thinking.is_empty() {
                    thinking.push('\n');
                }
                thinking.push_str(words);
            }
            Piece::Call(call) => self.calls.push(ShownCall {
                id: call.id.as_deref(),
                name: &call.name,
                about: call.about.as_deref().filter(|_| telling.tools > Tools::Names),
                input: match &call.input {
                    Some(RawJson::Borrowed(raw)) if telling.tools >= Tools::Inputs => Some(raw),
                    Some(RawJson::Owned(raw)) if telling.tools >= Tools::Inputs => Some(raw),
                    _ => None,
                },
                outcome: call.outcome.map(Outcome::as_str),
                subagent: call.subagent.as_deref(),
            }),
            Piece::Result(result) => self.results.push(ShownResult {
                call: result.call_id.as_deref(),
                name: result.name.as_deref(),
                about: result.about.as_deref(),
                outcome: result.outcome.as_str(),
                bytes: result.text.len(),
                text: (telling.tools == Tools::Full).then_some(&*result.text),
                output_file: result.output_file.as_deref(),
            }),
            Piece::Image { .. } => self.images += 1,
            Piece::Words(_) | Piece::Injected(_) | Piece::Thinking(_) | Piece::Other(_) => {}
        }
    }
}

/// What a story is made of.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StoryCounts {
    /// Entries that were told.
    pub entries: u64,
    /// Prompts.
    pub turns: u64,
    /// Entries with words of the human.
    pub user: u64,
    /// Entries with words of the agent.
    pub assistant: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Answers of tools.
    pub tool_results: u64,
    /// Of these, how many were recorded as errors.
    pub errors: u64,
    /// Of the others, how many mention an error.
    pub mentions: u64,
    /// Sub-agents that were started.
    pub subagents: u64,
    /// Pictures.
    pub images: u64,
    /// How often history was compacted.
    pub compactions: u64,
    /// How often the conversation went back.
    pub rewinds: u64,
    /// How often the human stopped the agent.
    pub interrupts: u64,
    /// Failures that the agent recorded of itself.
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
                    self.errors += u64::from(result.outcome == Outcome::Failed);
                    self.mentions += u64::from(result.outcome == Outcome::Mentions);
                }
                Piece::Image { .. } => self.images += 1,
                Piece::Injected(_) | Piece::Thinking(_) | Piece::Other(_) => {}
            }
        }
        if has_words && !item.is_interrupt && item.folded.is_none() {
            match item.role {
                Some(Role::User | Role::Tool) => self.user += 1,
                Some(Role::Assistant) => self.assistant += 1,
                _ => {}
            }
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references")]
fn is_false(value: &bool) -> bool {
    !*value
}
