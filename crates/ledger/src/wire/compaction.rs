//! The shapes of reports about compactions, and about the room that is left in a context.

use std::fmt;

use quipu_transcript::context::Message;
use serde::Serialize;

use super::Appended;

/// The reason for a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// A person or a runtime requested it.
    Manual,
    /// A model refused the context.
    Overflow,
    /// The context exceeded its limit.
    Threshold,
}

/// The origin of the size of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WindowFrom {
    /// The caller.
    Call,
    /// `contextTokens` in the session's metadata.
    Session,
    /// The configuration.
    Configuration,
    /// The list in quipu.
    List,
}

/// The use of the model's window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Headroom {
    /// The estimated tokens of the context.
    pub context_tokens: u64,
    /// The part of them that a model counted.
    pub counted_tokens: u64,
    /// The number of messages in the context.
    pub messages: usize,
    /// The model in use.
    pub model: Option<String>,
    /// The provider of that model.
    pub provider: Option<String>,
    /// The number of tokens that the model takes; `null` if it is not known.
    pub window_tokens: Option<u64>,
    /// The tokens that stay free for the answer.
    pub reserve_tokens: u64,
    /// The tokens of recent messages that a compaction keeps.
    pub keep_tokens: u64,
    /// The origin of `window_tokens`; `null` if it is not known.
    pub window_from: Option<WindowFrom>,
    /// The tokens above which a compaction is due.
    pub limit_tokens: Option<u64>,
    /// The tokens that are left until a compaction is due.
    pub left_tokens: Option<u64>,
    /// True if a compaction is due.
    pub is_due: bool,
}

/// A compaction that was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compacted {
    /// The entry.
    #[serde(flatten)]
    pub appended: Appended,
    /// The first entry that stays in the context.
    pub first_kept_entry_id: String,
    /// The number of messages on the path that do not stay.
    pub compacted_messages: u64,
    /// The tokens of the context before the compaction.
    pub tokens_before: u64,
    /// The tokens of the context after the compaction; `null` if the same plan was stored before.
    pub tokens_after: Option<u64>,
    /// The reason why the digest was taken instead of the summariser's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest_reason: Option<String>,
    /// The result of the memory flush before the compaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_flush: Option<Flush>,
}

/// The result of asking a model for notes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Flush {
    /// Notes were stored.
    Stored {
        /// The file.
        path: String,
        /// The bytes that were appended to it.
        bytes: usize,
    },
    /// The model had nothing to store, or there are no messages.
    Nothing,
    /// The model was asked before, since the last compaction.
    Done,
    /// The summariser has no model that could be asked.
    Skipped {
        /// The summariser.
        summariser: String,
    },
    /// The question failed.
    Failed {
        /// The reason, without any text of the transcript.
        reason: String,
    },
}

impl fmt::Display for Flush {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flush::Stored { path, bytes } => write!(formatter, "{bytes} bytes of notes in {path}"),
            Flush::Nothing => write!(formatter, "nothing to store"),
            Flush::Done => write!(formatter, "made before, since the last compaction"),
            Flush::Skipped { summariser } => {
                write!(formatter, "skipped: the summariser `{summariser}` has no model")
            }
            Flush::Failed { reason } => write!(formatter, "failed: {reason}"),
        }
    }
}

/// A model that would be asked for notes.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedFlush<'a> {
    /// True, because nothing was asked.
    pub is_dry_run: bool,
    /// The summariser whose model would be asked.
    pub summariser: &'a str,
    /// The file for the notes.
    pub path: &'a str,
    /// The configured prompt.
    pub prompt: &'a str,
    /// The number of messages in the context.
    pub messages: usize,
    /// The estimated tokens of the context.
    pub context_tokens: u64,
    /// The tokens at which the model is asked; `null` if its window is not known.
    pub limit_tokens: Option<u64>,
    /// True if the model was asked before, since the last compaction.
    pub was_asked: bool,
}

/// An appended entry with what followed it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AppendedAndMore<'a> {
    /// The entry, with the leaf after the compaction.
    #[serde(flatten)]
    pub appended: &'a Appended,
    /// The compaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<&'a Compacted>,
    /// The result of asking for notes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_flush: Option<&'a Flush>,
}

/// The result of a request for a compaction.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompactionResult<'a> {
    /// False if there is nothing to summarise.
    pub is_compacted: bool,
    /// The session that was compacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<&'a str>,
    /// The compaction.
    #[serde(flatten)]
    pub compacted: Option<&'a Compacted>,
}

/// A compaction that would be made. Messages are in pi's format, with their digits as written.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedCompaction<'a> {
    /// True, because nothing was written.
    pub is_dry_run: bool,
    /// The session.
    pub session_id: &'a str,
    /// The reason for the compaction.
    pub reason: Reason,
    /// `default` or `safeguard`.
    pub mode: &'a str,
    /// The number of pieces that are summarised one after the other.
    pub chunks: usize,
    /// The first entry that would stay in the context.
    pub first_kept_entry_id: &'a str,
    /// True if a turn is too long to stay whole.
    pub is_split_turn: bool,
    /// The number of messages on the path that would not stay.
    pub compacted_messages: u64,
    /// The tokens of the context before the compaction.
    pub tokens_before: u64,
    /// The tokens of the messages that would stay.
    pub kept_tokens: u64,
    /// The tokens that the summary may have.
    pub summary_tokens: u64,
    /// The tokens of recent messages that a compaction keeps.
    pub keep_tokens: u64,
    /// The summary of an earlier compaction.
    pub previous_summary: Option<&'a str>,
    /// The messages to summarise.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")
    )]
    pub history: &'a [Message],
    /// The beginning of the split turn, which is summarised apart.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")
    )]
    pub turn_prefix: &'a [Message],
    /// The files that were read and not changed.
    pub read_files: &'a [String],
    /// The files that were written or edited.
    pub modified_files: &'a [String],
}
