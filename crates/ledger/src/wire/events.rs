//! The shapes of the event stream: what followed from each record of the ledger.
//!
//! A frame is one record. Texts in it are short: a long one is cut, and ends with `…`.

use serde::Serialize;
use serde_json::value::RawValue;

/// Everything that followed from one record.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventFrame {
    /// The position after this frame. What is not stored in the ledger has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The time of the record by its writer's clock, milliseconds UTC.
    pub time: Option<i64>,
    /// The session; `null` for what concerns none, or several.
    pub session_id: Option<String>,
    /// The agent; `null` where the format has none.
    pub agent: Option<String>,
    /// The name of the session's project.
    pub project: Option<String>,
    /// The changes, in the order in which they happened.
    pub changes: Vec<EventChange>,
    /// True if the record has more changes than are listed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

/// One change.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum EventChange {
    /// The ledger has a new session.
    #[serde(rename = "session.created")]
    SessionCreated {
        /// The session's format.
        format: String,
    },
    /// A session has a new entry, or a new version of one.
    #[serde(rename = "entry.appended")]
    EntryAppended {
        /// The id that the agent gave it; `#` and a number where it has none.
        entry_id: String,
        /// The kind: `message`, `compaction`, `reset`, `custom`, `header`, …
        kind: String,
        /// `user`, `assistant`, `tool`, `system`; `null` for an entry without a speaker.
        role: Option<String>,
        /// The turn it belongs to, counted from 1.
        turn: Option<u64>,
        /// The entry as `quipu show --json` prints it, on request, up to 16 KB.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<super::ShownEntry<'static>>"))]
        entry: Option<Box<RawValue>>,
    },
    /// The next entry attaches to another one.
    #[serde(rename = "leaf.moved")]
    LeafMoved {
        /// The entry; `null` for the root.
        leaf: Option<String>,
    },
    /// An entry has another label.
    #[serde(rename = "label.set")]
    LabelSet {
        /// The labelled entry.
        entry_id: String,
        /// The label; `null` if it was removed.
        label: Option<String>,
    },
    /// A session is compacted.
    #[serde(rename = "compaction")]
    Compaction {
        /// How far it is.
        phase: EventPhase,
        /// The entry, at its end.
        entry_id: Option<String>,
        /// The cause, as written.
        reason: Option<String>,
        /// The tokens of the context before it.
        tokens_before: Option<u64>,
        /// The tokens of the context after it.
        tokens_after: Option<u64>,
    },
    /// A model was asked for notes before a compaction.
    #[serde(rename = "memory.flush")]
    MemoryFlush {
        /// `end`, or `failed`.
        phase: EventPhase,
    },
    /// The context was emptied.
    #[serde(rename = "session.reset")]
    SessionReset {
        /// The entry.
        entry_id: String,
    },
    /// The metadata of a session changed.
    #[serde(rename = "session.meta")]
    SessionMeta {
        /// The session key that holds them.
        session_key: String,
    },
    /// A session key leads to this session now. Without a session, it leads to none.
    #[serde(rename = "key.bound")]
    KeyBound {
        /// The session key.
        session_key: String,
    },
    /// An unknown sender asked to be paired.
    #[serde(rename = "sender.asked")]
    SenderAsked {
        /// The channel.
        channel: String,
        /// The sender's id there.
        sender: String,
    },
    /// A person decided about a sender.
    #[serde(rename = "sender.decided")]
    SenderDecided {
        /// The channel.
        channel: String,
        /// The sender's id there.
        sender: String,
        /// `allowed`, `denied`, or `revoked` if the decision was withdrawn.
        decision: String,
    },
    /// A file is no longer on disk. The ledger keeps it.
    #[serde(rename = "source.gone")]
    SourceGone {
        /// The file.
        path: String,
    },
    /// A file is on disk again.
    #[serde(rename = "source.back")]
    SourceBack {
        /// The file.
        path: String,
    },
    /// A file was renamed.
    #[serde(rename = "source.renamed")]
    SourceRenamed {
        /// The file's new path.
        path: String,
    },
    /// A file was rewritten. The ledger keeps its earlier content.
    #[serde(rename = "source.rewritten")]
    SourceRewritten {
        /// The file.
        path: String,
    },
    /// Something in the record is odd.
    #[serde(rename = "problem")]
    Problem {
        /// The kind of problem, as `quipu problems` lists it.
        kind: String,
    },
    /// A session was removed for good.
    #[serde(rename = "session.forgotten")]
    SessionForgotten,
}

/// How far something is that takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EventPhase {
    /// It begins.
    Start,
    /// It is stored.
    End,
    /// It has failed.
    Failed,
}

impl EventChange {
    /// Returns the type of the change, as it is written.
    pub fn type_name(&self) -> &'static str {
        match self {
            EventChange::SessionCreated { .. } => "session.created",
            EventChange::EntryAppended { .. } => "entry.appended",
            EventChange::LeafMoved { .. } => "leaf.moved",
            EventChange::LabelSet { .. } => "label.set",
            EventChange::Compaction { .. } => "compaction",
            EventChange::MemoryFlush { .. } => "memory.flush",
            EventChange::SessionReset { .. } => "session.reset",
            EventChange::SessionMeta { .. } => "session.meta",
            EventChange::KeyBound { .. } => "key.bound",
            EventChange::SenderAsked { .. } => "sender.asked",
            EventChange::SenderDecided { .. } => "sender.decided",
            EventChange::SourceGone { .. } => "source.gone",
            EventChange::SourceBack { .. } => "source.back",
            EventChange::SourceRenamed { .. } => "source.renamed",
            EventChange::SourceRewritten { .. } => "source.rewritten",
            EventChange::Problem { .. } => "problem",
            EventChange::SessionForgotten => "session.forgotten",
        }
    }

    /// All types, as they are written.
    pub const TYPES: [&'static str; 17] = [
        "session.created",
        "entry.appended",
        "leaf.moved",
        "label.set",
        "compaction",
        "memory.flush",
        "session.reset",
        "session.meta",
        "key.bound",
        "sender.asked",
        "sender.decided",
        "source.gone",
        "source.back",
        "source.renamed",
        "source.rewritten",
        "problem",
        "session.forgotten",
    ];
}

/// A message of the stream that is no frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamNote {
    /// The stream begins.
    Hello {
        /// The position that it begins after.
        after: String,
    },
    /// The cursor is not one of this ledger: read everything anew, then follow with `after=now`.
    StartOver,
    /// The stream ends.
    End {
        /// Why: `slow`, `shutdown`, `revoked`, `failed`.
        reason: &'static str,
        /// The position to go on from.
        after: String,
    },
}

impl StreamNote {
    /// Returns the type of the note, as it is written.
    pub fn type_name(&self) -> &'static str {
        match self {
            StreamNote::Hello { .. } => "hello",
            StreamNote::StartOver => "start_over",
            StreamNote::End { .. } => "end",
        }
    }
}
