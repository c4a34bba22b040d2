//! The shapes of answers of the session store.

use quipu_transcript::context::{Context, Message};
use serde::Serialize;

use crate::base::ids::Seq;

/// An entry that was appended. Runtimes read `id`, `seq`, `leaf` and `repeated`, so these names stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Appended {
    /// The entry's id.
    pub id: String,
    /// The number of the entry's record in the ledger.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub seq: Seq,
    /// The session's leaf after this append.
    pub leaf: Option<String>,
    /// True if the entry was stored already, under the same key.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// True if a compaction is due, by the limits of the store.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compaction_due: bool,
    /// True if the model should be asked for notes now, by the same limits.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub flush_due: bool,
}

impl Appended {
    /// Returns an entry that was stored just now.
    pub(crate) fn new(id: String, seq: Seq, leaf: Option<String>) -> Appended {
        Appended { id, seq, leaf, repeated: false, compaction_due: false, flush_due: false }
    }
}

/// The reason why an entry was not appended. It is printed where the appended entry would be.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "error", rename_all = "snake_case")]
pub enum NotAppended<'a> {
    /// The leaf is another entry than the caller expected.
    Conflict {
        /// The session's leaf; `null` if there are no entries yet.
        leaf: Option<&'a str>,
    },
    /// The idempotency key belongs to an entry with another text.
    KeyUsed {
        /// The id of that entry.
        id: &'a str,
    },
}

/// A session of the store.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoredSession {
    /// Its id.
    pub session_id: String,
    /// Its agent.
    pub agent: String,
    /// The session key that leads to it.
    pub session_key: Option<String>,
}

/// The leaf of a session.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Leaf {
    /// The entry that the next one attaches to; `null` if there are no entries yet.
    pub leaf: Option<String>,
}

/// A branch of a session's tree, named by its last entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionBranch {
    /// The id of its last entry, which has no children.
    pub entry_id: String,
    /// The id of the entry before it.
    pub parent_id: Option<String>,
    /// The type of its last entry, as written.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The role of its last entry, if that is a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The time of its last entry, milliseconds UTC.
    pub time: Option<i64>,
    /// The number of entries from the root to its last one.
    pub entries: u64,
    /// True if the session's leaf is its last entry.
    pub is_current: bool,
}

/// A label of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Label {
    /// The id of the entry.
    pub entry_id: String,
    /// The text of the label.
    pub label: String,
}

/// The session of a message, and what a runtime does with the message.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoutedMessage<'a> {
    /// The session key of its conversation.
    pub session_key: &'a str,
    /// The session; `null` if the message was not admitted, or if no session was created for it.
    pub session_id: Option<&'a str>,
    /// True if the session is new.
    pub is_created: bool,
    /// The reason that an existing session starts over with this message: `reset`, `daily` or
    /// `idle`.
    pub reset: Option<&'a str>,
    /// True if the sender may write.
    pub is_admitted: bool,
    /// The reason why the sender may not; `null` if they may.
    pub reason: Option<String>,
    /// The reply to send without asking a model.
    pub reply: Option<&'a str>,
    /// True if the session has no turn yet, or none since it started over.
    pub is_beginning: bool,
    /// The files of the workspace to show to the model.
    pub bootstrap: Vec<&'a str>,
    /// The text to begin a turn with; `null` if the message was only a command.
    pub text: Option<&'a str>,
}

/// The messages that a model should see, with its settings.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelContext<'a> {
    /// The entry that the context was selected for.
    pub leaf: Option<&'a str>,
    /// The model in use at the leaf.
    pub model: Option<&'a str>,
    /// The provider of that model.
    pub provider: Option<&'a str>,
    /// The thinking level at the leaf.
    pub thinking_level: &'a str,
    /// The messages in pi's format, oldest first.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")
    )]
    pub messages: &'a [Message],
    /// With a budget: the estimated tokens of the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// With a budget: the number of tool results that were shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortened_results: Option<usize>,
}

impl<'a> ModelContext<'a> {
    /// Returns the shape of a context that was not shortened.
    pub fn of(context: &'a Context) -> ModelContext<'a> {
        let model = context.model.as_ref();
        ModelContext {
            leaf: context.leaf.as_deref(),
            model: model.and_then(|model| model.model_id.as_deref()),
            provider: model.and_then(|model| model.provider.as_deref()),
            thinking_level: &context.thinking_level,
            messages: &context.messages,
            context_tokens: None,
            shortened_results: None,
        }
    }
}
