//! The normal form of a record, whichever agent wrote it.
//!
//! An [`Entry`] borrows from its record wherever it can. It holds everything that projection,
//! rendering and export need; all other fields are still in the raw record.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::value::RawValue;

use crate::problem::Problem;
use crate::time::Timestamp;

/// An entry: the decoded content of a record. A damaged record may hold several entries, or none.
#[derive(Debug, Clone, Default)]
pub struct Entry<'a> {
    /// The record's own type name, exactly as written (`assistant`, `custom:model-snapshot`). For
    /// shapes without one, quipu's name for them (`bare`, `document`, `history`).
    pub type_name: Cow<'a, str>,
    /// The type in normal form, with the fields that only this type has.
    pub kind: Kind<'a>,
    /// The id that the agent gave the entry. Without one (`None`), the ledger makes a stable id
    /// from generation and offset.
    pub id: Option<Cow<'a, str>>,
    /// The parent, as the record names it.
    pub parent: Parent<'a>,
    /// The time of writing, by the agent's clock.
    pub time: Option<Timestamp>,
    /// The speaker. `None` for an entry that is not part of a conversation.
    pub role: Option<Role>,
    /// The name of the speaker as written: `toolResult`, `bashExecution`.
    pub written_role: Option<Cow<'a, str>>,
    /// The pieces of a message, in order.
    pub blocks: Vec<Block<'a>>,
    /// Model name of an assistant entry; never a placeholder such as `<synthetic>`.
    pub model: Option<Cow<'a, str>>,
    /// Provider of an assistant entry (`anthropic`).
    pub provider: Option<Cow<'a, str>>,
    /// API flavour of an assistant entry (`anthropic-messages`).
    pub api: Option<Cow<'a, str>>,
    /// The end of an assistant entry. `None` while a streamed answer continues.
    pub stop: Option<Stop>,
    /// The reason for that end as written: `end_turn`, `toolUse`.
    pub stop_reason: Option<Cow<'a, str>>,
    /// Tokens and cost, if this entry carries usage.
    pub usage: Option<Usage>,
    /// The identity of the API response behind `usage`, across all files that repeat it. With
    /// `None`, the entry is a separate response.
    pub response: Option<Response<'a>>,
    /// The entry of the same session that this one is a copy of.
    pub copy_of: Option<Cow<'a, str>>,
    /// Yes-or-no properties.
    pub marks: Marks,
    /// The sender of a message that came through a chat channel, if the record names one.
    pub sender: Option<Box<Sender>>,
    /// Facts about the session rather than about the conversation.
    pub facts: Vec<SessionFact<'a>>,
    /// Oddities of the record that did not prevent reading it.
    pub problems: Vec<Problem>,
    /// The byte range of this record in its line, if the line holds more: filler, a fragment,
    /// another record.
    pub part: Option<Range<usize>>,
}

/// The parent of an entry, as its record names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Parent<'a> {
    /// Not given: the entry follows the one before it in the file.
    #[default]
    Implicit,
    /// Explicitly none.
    Root,
    /// The entry with this id.
    Id(Cow<'a, str>),
    /// A new root that continues after the named entry (Claude Code's `logicalParentUuid`).
    After(Cow<'a, str>),
}

/// The speaker of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The human, or the program that prompts the agent.
    User,
    /// The model.
    Assistant,
    /// A tool, answering a call.
    Tool,
    /// The harness around the model.
    System,
}

impl Role {
    /// Returns the word that the ledger stores and prints.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::System => "system",
        }
    }
}

/// The type of an entry, in normal form.
#[derive(Debug, Clone, Default)]
pub enum Kind<'a> {
    /// A message of the conversation: see `role` and `blocks`.
    Message,
    /// The first line of a pi or OpenClaw transcript.
    Header,
    /// The model was changed (`model` and `provider` of the entry).
    ModelChange,
    /// The thinking level was changed.
    ThinkingLevel(Cow<'a, str>),
    /// An entry that replaces those before it in the context.
    Compaction(Compaction<'a>),
    /// A summary of a branch that was abandoned.
    BranchSummary {
        /// The summary's text.
        summary: Cow<'a, str>,
        /// The entry or session it came from, as written.
        from: Option<Cow<'a, str>>,
    },
    /// State of an extension; never shown to a model.
    Custom {
        /// The extension's name for the state, without a `custom:` prefix.
        custom_type: Cow<'a, str>,
        /// The payload, exactly as written.
        data: Option<RawJson<'a>>,
    },
    /// A label set on another entry, or removed from it.
    Label {
        /// The labelled entry.
        target: Cow<'a, str>,
        /// The label; `None` clears it.
        label: Option<Cow<'a, str>>,
    },
    /// A replacement for the content of an earlier entry in the context.
    ContextEdit {
        /// The edited entry.
        target: Cow<'a, str>,
    },
    /// A reset: all earlier entries leave the context.
    Reset {
        /// The reason, as written.
        reason: Option<Cow<'a, str>>,
        /// The first entry that stays.
        first_kept: Option<Cow<'a, str>>,
    },
    /// A move of the leaf. It is not part of the conversation itself.
    Leaf {
        /// The entry that becomes the leaf; `None` is the root.
        target: Option<Cow<'a, str>>,
        /// The parent of the next entry, where it differs from the leaf.
        append_parent: Option<Cow<'a, str>>,
    },
    /// A prompt from a list of prompts (Claude Code's `history.jsonl`).
    Prompt,
    /// A whole file that belongs to a session: a persisted tool output, a sub-agent's description.
    Document,
    /// A run of a scheduled job.
    CronRun(CronRun<'a>),
    /// The definitions of all scheduled jobs, from one file.
    CronJobs(Vec<CronJob>),
    /// A message of a sub-agent, or to one, that its parent's file repeats. Its calls are counted
    /// in the sub-agent's own session.
    Relayed,
    /// A step of the agent's queue: text that the human typed while the agent worked goes in or
    /// comes out. It is not a node of the tree; another entry may repeat the text as a prompt.
    Queue,
    /// Bookkeeping of a known type; all that matters is in `facts`.
    Note,
    /// A type that this version does not know. Stored, counted and shown as unknown.
    #[default]
    Unknown,
}

impl Kind<'_> {
    /// Returns the word that the ledger stores.
    pub fn as_str(&self) -> &'static str {
        match self {
            Kind::Message => "message",
            Kind::Header => "header",
            Kind::ModelChange => "model_change",
            Kind::ThinkingLevel(_) => "thinking_level",
            Kind::Compaction(_) => "compaction",
            Kind::BranchSummary { .. } => "branch_summary",
            Kind::Custom { .. } => "custom",
            Kind::Label { .. } => "label",
            Kind::ContextEdit { .. } => "context_edit",
            Kind::Reset { .. } => "reset",
            Kind::Leaf { .. } => "leaf",
            Kind::Prompt => "prompt",
            Kind::Document => "document",
            Kind::CronRun(_) => "cron_run",
            Kind::CronJobs(_) => "cron_jobs",
            Kind::Relayed => "relayed",
            Kind::Queue => "queue",
            Kind::Note => "bookkeeping",
            Kind::Unknown => "unknown",
        }
    }
}

/// The content of a compaction entry.
#[derive(Debug, Clone, Default)]
pub struct Compaction<'a> {
    /// The text that replaces the earlier entries.
    pub summary: Cow<'a, str>,
    /// The first entry that stays in the context after the summary.
    pub first_kept: Option<Cow<'a, str>>,
    /// The number of messages that it replaces, if the record has it.
    pub compacted_count: Option<u64>,
    /// Context size before the compaction, in tokens.
    pub tokens_before: Option<u64>,
    /// Context size after the compaction, in tokens.
    pub tokens_after: Option<u64>,
    /// The trigger (`manual`, `auto`), as written.
    pub trigger: Option<Cow<'a, str>>,
    /// Files that had been read, from the summary's `<read-files>` list or the details.
    pub read_files: Vec<String>,
    /// Files that had been changed.
    pub modified_files: Vec<String>,
}

/// A run of a scheduled job.
#[derive(Debug, Clone, Default)]
pub struct CronRun<'a> {
    /// The job's id.
    pub job: Cow<'a, str>,
    /// The event (`finished`), as written.
    pub action: Option<Cow<'a, str>>,
    /// The result (`ok`, `error`, `skipped`), as written.
    pub status: Option<Cow<'a, str>>,
    /// A summary of the result.
    pub summary: Option<Cow<'a, str>>,
    /// The error message.
    pub error: Option<Cow<'a, str>>,
    /// The start of the run.
    pub run_at: Option<Timestamp>,
    /// The duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// The next time at which the job is due.
    pub next_run_at: Option<Timestamp>,
    /// The session that ran.
    pub session_id: Option<Cow<'a, str>>,
    /// The key of that session.
    pub session_key: Option<Cow<'a, str>>,
    /// The model that answered.
    pub model: Option<Cow<'a, str>>,
    /// The provider of that model.
    pub provider: Option<Cow<'a, str>>,
}

/// A scheduled job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CronJob {
    /// The job's id.
    pub id: String,
    /// The name that a person gave it.
    pub name: Option<String>,
    /// Its purpose, in words.
    pub description: Option<String>,
    /// The agent that runs it.
    pub agent: Option<String>,
    /// The prompt that the agent receives.
    pub prompt: Option<String>,
    /// The schedule in words.
    pub schedule: String,
    /// The schedule as JSON.
    pub schedule_json: Option<String>,
    /// True if the job is switched on.
    pub is_enabled: bool,
    /// The time of creation.
    pub created_at: Option<Timestamp>,
    /// The time of the last change.
    pub updated_at: Option<Timestamp>,
    /// The next time at which the job is due.
    pub next_run_at: Option<Timestamp>,
}

/// A piece of a message.
#[derive(Debug, Clone)]
pub enum Block<'a> {
    /// Text in readable form: a slash-command envelope becomes `/name args`.
    Text(Cow<'a, str>),
    /// The model's reasoning; empty if only a signature was stored.
    Thinking(Cow<'a, str>),
    /// A call of a tool.
    ToolCall(ToolCall<'a>),
    /// The answer of a tool.
    ToolResult(ToolResult<'a>),
    /// Text that a program attached to the words: an opened file, facts about the sender, a
    /// reminder, the output of a hook.
    Attached {
        /// Its kind (`ide_selection`, `Sender`, `file`).
        label: Cow<'a, str>,
        /// Its text, as written.
        text: Cow<'a, str>,
    },
    /// An image. Its bytes stay in the record.
    Image {
        /// The media type as written (`image/png`).
        media_type: Option<Cow<'a, str>>,
    },
    /// A block of a type that this version does not know.
    Other(Cow<'a, str>),
}

/// The sender of a message that came through a chat channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sender {
    /// The name to show.
    pub name: Option<String>,
    /// The channel (`Telegram`), as written.
    pub channel: Option<String>,
    /// The channel's id of the message.
    pub message_id: Option<String>,
}

/// A call of a tool.
#[derive(Debug, Clone, Default)]
pub struct ToolCall<'a> {
    /// The id that pairs the call with its result. An empty id is `None`.
    pub id: Option<Cow<'a, str>>,
    /// The tool's name; empty if the record has none.
    pub name: Cow<'a, str>,
    /// The arguments, as written.
    pub input: Option<RawJson<'a>>,
    /// The call was cut off while it was being streamed (`partialJson`).
    pub is_partial: bool,
}

/// The answer of a tool.
#[derive(Debug, Clone, Default)]
pub struct ToolResult<'a> {
    /// The id of the call that it answers. An empty id is `None`.
    pub call_id: Option<Cow<'a, str>>,
    /// The tool's name, where the result repeats it.
    pub name: Option<Cow<'a, str>>,
    /// The text; several pieces are joined by newlines.
    pub text: Cow<'a, str>,
    /// True if the record marks the call as failed.
    pub is_error: bool,
    /// Base name of the file that holds the whole output, when the record holds only a preview.
    pub output_file: Option<Cow<'a, str>>,
    /// The number of images in it.
    pub images: u32,
}

/// A piece of JSON, exactly as written.
#[derive(Debug, Clone)]
pub enum RawJson<'a> {
    /// A slice of the record.
    Borrowed(&'a RawValue),
    /// A slice of a repaired copy of the record.
    Owned(Box<RawValue>),
}

impl RawJson<'_> {
    /// Returns the JSON text.
    pub fn get(&self) -> &str {
        match self {
            RawJson::Borrowed(raw) => raw.get(),
            RawJson::Owned(raw) => raw.get(),
        }
    }
}

/// The end of an assistant entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The model finished, or reached a length limit.
    Done,
    /// The model waits for a tool.
    ToolUse,
    /// The request failed.
    Error,
    /// The human or a program stopped it.
    Aborted,
    /// A reason that this version does not know.
    Other,
}

/// Tokens and cost of one API response.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Uncached input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache, all lifetimes together.
    pub cache_write: u64,
    /// The part of `cache_write` that was written for an hour.
    pub cache_write_1h: u64,
    /// The cost in US dollars that the agent recorded, if it did.
    pub cost_usd: Option<f64>,
    /// True if the faster, more expensive service was used.
    pub is_fast: bool,
}

impl Usage {
    /// Maximum number of tokens of one kind that a response is counted with. No response has more;
    /// a larger number is nonsense and would overflow the sums.
    pub const MOST_TOKENS: u64 = 1 << 32;

    /// Returns whether a token count is above [`Usage::MOST_TOKENS`].
    pub fn is_absurd(&self) -> bool {
        let counts =
            [self.input, self.output, self.cache_read, self.cache_write, self.cache_write_1h];
        counts.into_iter().any(|count| count > Usage::MOST_TOKENS)
    }

    /// Returns the sum of all tokens.
    pub fn total(&self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }
}

/// The identity of an API response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<'a> {
    /// The response's id (`msg_…`).
    pub id: Cow<'a, str>,
    /// The request's id, if the endpoint returns one.
    pub request: Option<Cow<'a, str>>,
}

/// Yes-or-no properties of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// True for a user prompt that begins a turn.
    pub is_prompt: bool,
    /// True for a prompt that no person wrote: a heartbeat, a scheduled job, a start-up prompt, a
    /// sub-agent's task.
    pub is_automatic: bool,
    /// True if the harness injected it: neither the human nor the model wrote it.
    pub is_meta: bool,
    /// True if it is part of a sub-agent's work in its parent's file.
    pub is_sidechain: bool,
    /// True for text that replaces compacted history.
    pub is_compact_summary: bool,
    /// True for a copy of an answer that was sent to a chat channel.
    pub is_mirror: bool,
    /// True for an error that the agent itself recorded (API failure).
    pub is_error: bool,
    /// True if it was appended beside the conversation: it never becomes the leaf.
    pub is_side: bool,
    /// True where the human stopped the agent.
    pub is_interrupt: bool,
    /// True if an extension wrote it to the model in the human's place.
    pub is_extension: bool,
    /// True for a command of a person that the agent carries out itself, without the model. It
    /// begins no turn.
    pub is_command: bool,
    /// True for a prompt that waits in the agent's queue. When the agent reads it, another entry
    /// may repeat the text.
    pub is_queued: bool,
}

/// A fact about the session, found in a record.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionFact<'a> {
    /// The working directory.
    Cwd(Cow<'a, str>),
    /// The agent's release.
    ClientVersion(Cow<'a, str>),
    /// The git branch.
    GitBranch(Cow<'a, str>),
    /// The transcript's header version, as written.
    HeaderVersion(Cow<'a, str>),
    /// The session id in the record. The id in the file's name has precedence.
    SessionId(Cow<'a, str>),
    /// A title. The highest rank wins, and the last one among equals. An empty text removes the
    /// title.
    Title(TitleRank, Cow<'a, str>),
    /// A summary of the conversation that ends at the entry `leaf`. It is a title of the lowest
    /// rank, and only for the session that has the leaf, because agents also write summaries of
    /// other sessions into a file.
    Summary {
        /// The text.
        title: Cow<'a, str>,
        /// The last entry of the summarized conversation.
        leaf: Option<Cow<'a, str>>,
    },
    /// The session that this one continues (a path or an id, as written).
    ForkOf(Cow<'a, str>),
    /// The session that continues this one.
    ContinuedIn(Cow<'a, str>),
    /// The tool call of the parent session that started this sub-agent.
    SpawnedByCall(Cow<'a, str>),
    /// The id of the session that this sub-agent works for.
    ParentSession(Cow<'a, str>),
    /// The sub-agent's type (`Explore`).
    AgentType(Cow<'a, str>),
    /// A pull request that the session created.
    PullRequest(Cow<'a, str>),
    /// The tool call `call` of this session started the sub-agent `agent_id`.
    Spawned {
        /// The call.
        call: Cow<'a, str>,
        /// The sub-agent's id.
        agent_id: Cow<'a, str>,
    },
    /// The agent's own total of everything that the session and its sub-agents used so far. It
    /// includes requests of which no line exists.
    UsageTotal {
        /// The time at which the agent began to count. A fork continues the count of its original.
        since: Timestamp,
        /// The total of each model.
        models: Vec<(Cow<'a, str>, Usage)>,
    },
}

/// The rank of a title; later variants win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TitleRank {
    /// A line of the `summary` type.
    Summary,
    /// The last prompt, as the agent noted it.
    LastPrompt,
    /// Written by a model.
    Ai,
    /// Written by a person, in a file beside the transcript. The transcript's own lines win, so that
    /// the order of collecting does not matter.
    File,
    /// Written by a person.
    Custom,
}

impl<'a> Entry<'a> {
    /// Returns the text blocks of a message, joined by newlines.
    pub fn text(&self) -> Cow<'_, str> {
        let mut texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text(text) if !text.is_empty() => Some(text.as_ref()),
            _ => None,
        });
        let Some(first) = texts.next() else { return Cow::Borrowed("") };
        let Some(second) = texts.next() else { return Cow::Borrowed(first) };
        let mut joined = String::with_capacity(first.len() + second.len() + 1);
        joined.push_str(first);
        for text in std::iter::once(second).chain(texts) {
            joined.push('\n');
            joined.push_str(text);
        }
        Cow::Owned(joined)
    }
}
