//! The normal form: what a record says, whichever agent wrote it.
//!
//! An [`Entry`] borrows from the record it was read from wherever it can. It holds everything that
//! projection, rendering and export need; whatever it does not hold is still in the raw record.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::value::RawValue;

use crate::problem::Problem;
use crate::time::Timestamp;

/// What one record says. A damaged record may say several, or nothing.
#[derive(Debug, Clone, Default)]
pub struct Entry<'a> {
    /// The record's own type name, exactly as written (`assistant`, `custom:model-snapshot`);
    /// for shapes without one, the name quipu gives them (`bare`, `document`, `history`).
    pub type_name: Cow<'a, str>,
    /// The type in normal form, with what only that type carries.
    pub kind: Kind<'a>,
    /// The id that the agent gave the entry. `None` when it gave none: the ledger then makes a
    /// stable one from generation and offset.
    pub id: Option<Cow<'a, str>>,
    /// What the record says about its parent.
    pub parent: Parent<'a>,
    /// When it was written, by the agent's clock.
    pub time: Option<Timestamp>,
    /// Who speaks. `None` for everything that is not part of a conversation.
    pub role: Option<Role>,
    /// The pieces of a message, in order.
    pub blocks: Vec<Block<'a>>,
    /// Model name of an assistant entry; never a placeholder such as `<synthetic>`.
    pub model: Option<Cow<'a, str>>,
    /// Provider of an assistant entry (`anthropic`).
    pub provider: Option<Cow<'a, str>>,
    /// API flavour of an assistant entry (`anthropic-messages`).
    pub api: Option<Cow<'a, str>>,
    /// How an assistant entry ended. `None` while a streamed answer goes on.
    pub stop: Option<Stop>,
    /// Tokens and cost, where this entry carries a bill of its own.
    pub usage: Option<Usage>,
    /// What identifies the API response behind `usage`, across all files that repeat it.
    /// `None`: the entry stands for its own response.
    pub response: Option<Response<'a>>,
    /// Yes-or-no properties.
    pub marks: Marks,
    /// What the record says about its session rather than about the conversation.
    pub says: Vec<Says<'a>>,
    /// What was odd about the record although it could be read.
    pub problems: Vec<Problem>,
    /// Where in the line its record stands, if the line holds more than that: filler, a fragment,
    /// another record.
    pub part: Option<Range<usize>>,
}

/// What a record says about its parent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Parent<'a> {
    /// Nothing: the entry follows the one before it in the file.
    #[default]
    Unsaid,
    /// It explicitly has none.
    Root,
    /// It names one.
    Id(Cow<'a, str>),
    /// A new root that continues after the named entry (Claude Code's `logicalParentUuid`).
    After(Cow<'a, str>),
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The human, or whoever prompts the agent.
    User,
    /// The model.
    Assistant,
    /// A tool, answering a call.
    Tool,
    /// The harness around the model.
    System,
}

impl Role {
    /// The word that the ledger stores and prints.
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
    /// An entry that stands for those before it.
    Compaction(Compaction<'a>),
    /// What happened on a branch that was left.
    BranchSummary {
        /// The summary's text.
        summary: Cow<'a, str>,
        /// The entry or session it came from, as written.
        from: Option<Cow<'a, str>>,
    },
    /// State of an extension; never shown to a model.
    Custom {
        /// The extension's name for it, without a `custom:` prefix.
        custom_type: Cow<'a, str>,
        /// The payload, as written.
        data: Option<RawJson<'a>>,
    },
    /// A label set on (or, when empty, taken off) another entry.
    Label {
        /// The labelled entry.
        target: Cow<'a, str>,
        /// The label; `None` clears it.
        label: Option<Cow<'a, str>>,
    },
    /// The content of an earlier entry is replaced in the context.
    ContextEdit {
        /// The edited entry.
        target: Cow<'a, str>,
    },
    /// Everything before it leaves the context.
    Reset {
        /// Why, as written.
        reason: Option<Cow<'a, str>>,
        /// The first entry that stays.
        first_kept: Option<Cow<'a, str>>,
    },
    /// Moves the leaf without being part of the conversation.
    Leaf {
        /// The entry that becomes the leaf; `None` is the root.
        target: Option<Cow<'a, str>>,
        /// The entry that the next one hangs off, where it differs.
        append_parent: Option<Cow<'a, str>>,
    },
    /// A prompt from a list of prompts (Claude Code's `history.jsonl`).
    Prompt,
    /// A whole file that belongs to a session: a persisted tool output, a sub-agent's description.
    Document,
    /// A run of a scheduled job.
    CronRun(CronRun<'a>),
    /// The scheduled jobs that there are, as a whole file says.
    CronJobs(Vec<CronJob>),
    /// Bookkeeping of a known type that needs no understanding beyond `says`.
    Note,
    /// A type this version does not know. Kept, counted, shown as unknown.
    #[default]
    Unknown,
}

/// What a compaction entry carries.
#[derive(Debug, Clone, Default)]
pub struct Compaction<'a> {
    /// The text that stands for what was before.
    pub summary: Cow<'a, str>,
    /// The first entry that stays beside the summary.
    pub first_kept: Option<Cow<'a, str>>,
    /// How many messages it stands for, where that is what the record says.
    pub compacted_count: Option<u64>,
    /// Context size before.
    pub tokens_before: Option<u64>,
    /// Context size after.
    pub tokens_after: Option<u64>,
    /// What set it off (`manual`, `auto`), as written.
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
    /// What the line is about (`finished`), as written.
    pub action: Option<Cow<'a, str>>,
    /// How it ended (`ok`, `error`, `skipped`), as written.
    pub status: Option<Cow<'a, str>>,
    /// What came out of it.
    pub summary: Option<Cow<'a, str>>,
    /// What went wrong.
    pub error: Option<Cow<'a, str>>,
    /// When it began.
    pub run_at: Option<Timestamp>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// When the job is due again.
    pub next_run_at: Option<Timestamp>,
    /// The session that ran.
    pub session_id: Option<Cow<'a, str>>,
    /// The key of that session.
    pub session_key: Option<Cow<'a, str>>,
    /// The model that answered.
    pub model: Option<Cow<'a, str>>,
    /// Its provider.
    pub provider: Option<Cow<'a, str>>,
}

/// A scheduled job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CronJob {
    /// What names it.
    pub id: String,
    /// What people call it.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// The agent that does it.
    pub agent: Option<String>,
    /// What the agent is told.
    pub prompt: Option<String>,
    /// When it is due, in words.
    pub schedule: String,
    /// The same, as JSON.
    pub schedule_json: Option<String>,
    /// Whether it runs.
    pub is_enabled: bool,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// When it was last changed.
    pub updated_at: Option<Timestamp>,
    /// When it is due next.
    pub next_run_at: Option<Timestamp>,
}

/// A piece of a message.
#[derive(Debug, Clone)]
pub enum Block<'a> {
    /// Words, in readable form: a slash-command envelope reads `/name args`.
    Text(Cow<'a, str>),
    /// The model's reasoning; may be empty when only a signature was kept.
    Thinking(Cow<'a, str>),
    /// A call of a tool.
    ToolCall(ToolCall<'a>),
    /// What a tool answered.
    ToolResult(ToolResult<'a>),
    /// A picture. Its bytes stay in the record.
    Image {
        /// As written (`image/png`).
        media_type: Option<Cow<'a, str>>,
    },
    /// A piece of a type this version does not know.
    Other(Cow<'a, str>),
}

/// A call of a tool.
#[derive(Debug, Clone, Default)]
pub struct ToolCall<'a> {
    /// What pairs it with its result. Empty ids are `None`.
    pub id: Option<Cow<'a, str>>,
    /// The tool's name; empty if the record has none.
    pub name: Cow<'a, str>,
    /// The arguments, as written.
    pub input: Option<RawJson<'a>>,
    /// The call was cut off while it was being streamed (`partialJson`).
    pub is_partial: bool,
}

/// What a tool answered.
#[derive(Debug, Clone, Default)]
pub struct ToolResult<'a> {
    /// The call it answers. Empty ids are `None`.
    pub call_id: Option<Cow<'a, str>>,
    /// The tool's name, where the result repeats it.
    pub name: Option<Cow<'a, str>>,
    /// Its text, pieces joined by newlines.
    pub text: Cow<'a, str>,
    /// The record says that the call failed.
    pub is_error: bool,
    /// Base name of the file that holds the whole output, when the record holds only a preview.
    pub output_file: Option<Cow<'a, str>>,
    /// How many pictures it carries.
    pub images: u32,
}

/// A piece of JSON, exactly as written.
#[derive(Debug, Clone)]
pub enum RawJson<'a> {
    /// Inside the record.
    Borrowed(&'a RawValue),
    /// In a repaired copy of it.
    Owned(Box<RawValue>),
}

impl RawJson<'_> {
    /// The JSON text.
    pub fn get(&self) -> &str {
        match self {
            RawJson::Borrowed(raw) => raw.get(),
            RawJson::Owned(raw) => raw.get(),
        }
    }
}

/// How an assistant entry ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It said all it wanted, or hit a length limit.
    Done,
    /// It waits for a tool.
    ToolUse,
    /// It failed.
    Error,
    /// Somebody stopped it.
    Aborted,
    /// A reason this version does not know.
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
    /// What the agent recorded as the cost in US dollars, if it did.
    pub cost_usd: Option<f64>,
    /// The faster, dearer service was used.
    pub is_fast: bool,
}

impl Usage {
    /// No response has more tokens of a kind than this. Larger counts are nonsense, and sums of them
    /// must not leave the range of what adds them up: they are counted as this.
    pub const MOST_TOKENS: u64 = 1 << 32;

    /// Whether a count is larger than any can be.
    pub fn is_absurd(&self) -> bool {
        let counts =
            [self.input, self.output, self.cache_read, self.cache_write, self.cache_write_1h];
        counts.into_iter().any(|count| count > Usage::MOST_TOKENS)
    }

    /// All tokens.
    pub fn total(&self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }
}

/// What identifies an API response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<'a> {
    /// The response's id (`msg_…`).
    pub id: Cow<'a, str>,
    /// The request's id, where the endpoint gives one.
    pub request: Option<Cow<'a, str>>,
}

/// Yes-or-no properties of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// A user prompt that begins a turn.
    pub is_prompt: bool,
    /// Injected by the harness; not the human's or the agent's words.
    pub is_meta: bool,
    /// Part of a sub-agent's work recorded in its parent's file.
    pub is_sidechain: bool,
    /// Text that stands for compacted history.
    pub is_compact_summary: bool,
    /// A copy of an answer that was sent to a chat channel.
    pub is_mirror: bool,
    /// An error recorded by the agent itself (API failure).
    pub is_error: bool,
    /// Appended beside the conversation: never becomes the leaf.
    pub is_side: bool,
    /// The human stopped the agent here.
    pub is_interrupt: bool,
    /// The human's words while they wait for the agent to listen. Where it heard them, another
    /// entry may say them again.
    pub is_queued: bool,
}

/// What a record says about its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says<'a> {
    /// The working directory.
    Cwd(Cow<'a, str>),
    /// The agent's release.
    ClientVersion(Cow<'a, str>),
    /// The git branch.
    GitBranch(Cow<'a, str>),
    /// The transcript's header version, as written.
    HeaderVersion(Cow<'a, str>),
    /// The session id that the record claims; the file's name wins over it.
    SessionId(Cow<'a, str>),
    /// A title. The best rank wins; among equals the last one. An empty text takes it away.
    Title(TitleRank, Cow<'a, str>),
    /// A summary of the conversation that ends at the entry `leaf`. Agents also write those of
    /// other sessions into a file; it is a title of the lowest rank only where the leaf is.
    Summary {
        /// The text.
        title: Cow<'a, str>,
        /// Where that conversation ends.
        leaf: Option<Cow<'a, str>>,
    },
    /// The session goes on from this one (a path or an id, as written).
    ForkOf(Cow<'a, str>),
    /// The session goes on in this one.
    ContinuedIn(Cow<'a, str>),
    /// This sub-agent was started by that tool call of the parent session.
    SpawnedByCall(Cow<'a, str>),
    /// The session that this sub-agent works for, by id.
    ParentSession(Cow<'a, str>),
    /// The sub-agent's kind (`Explore`).
    AgentType(Cow<'a, str>),
    /// A pull request that came out of the session.
    PullRequest(Cow<'a, str>),
    /// The tool call `call` of this session started the sub-agent `agent_id`.
    Spawned {
        /// The call.
        call: Cow<'a, str>,
        /// The sub-agent's id.
        agent_id: Cow<'a, str>,
    },
}

/// How much a title is worth; later variants win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TitleRank {
    /// A line of the `summary` type.
    Summary,
    /// The agent's note of the last prompt.
    LastPrompt,
    /// Made by a model.
    Ai,
    /// Given by a person.
    Custom,
}

impl<'a> Entry<'a> {
    /// The words of a message: its text blocks, joined by newlines.
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
