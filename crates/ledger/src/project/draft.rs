//! Drafts: the decoded content of a record, owned and flat, so that other threads can decode.
//!
//! The same record always has the same draft. Never reads or writes the ledger.

use std::borrow::Cow;

use quipu_fts5::{DocNumber, PostingsBuilder};
use quipu_transcript::entry::{
    Block, CronJob, CronRun, Entry, Kind, Marks, Parent, Response, Role, SessionFact, Stop,
    TitleRank, Usage,
};
use quipu_transcript::format::{Format, Origin, Part};
use quipu_transcript::problem::{Problem, ProblemKind};
use quipu_transcript::record::{self, OVERSIZE_HEAD};
use quipu_transcript::story::{self, mentions_error};
use quipu_transcript::{is_stringified, stringify};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::search::{self, MAX_TARGET_BYTES, SearchText};
use super::usage::Model;
use crate::base::ids::{PackedId, Seq};
use crate::project::interned::kinds;

/// The decoded content of one record.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) entries: Vec<DraftEntry>,
    pub(crate) problems: Vec<Problem>,
    /// The record that holds the same bytes.
    pub(crate) same_as: Option<Seq>,
}

impl Draft {
    /// Collects the words of the first entry, so that FTS5 need not. Further entries of a line with
    /// several records have distant numbers, so FTS5 indexes them itself.
    pub(crate) fn collect_words(&mut self, postings: &mut PostingsBuilder) {
        if let Some(entry) = self.entries.first_mut()
            && entry.text.is_indexed()
        {
            entry.words = Some(postings.add(entry.text.columns()));
            entry.text.drop_indexed();
        }
    }

    /// Returns the approximate size of the draft in memory and in rows, in bytes.
    pub(crate) fn approximate_size(&self) -> usize {
        let boxed = size_of::<DraftUsage>() + size_of::<DraftCompaction>();
        (self.entries.len() + 1) * (size_of::<DraftEntry>() + boxed)
    }
}

/// The largest number of entries that are read from one line, against hostile input. The rest stays
/// in the record.
const MAX_ENTRIES_PER_LINE: usize = 4096;

/// One entry of a record.
#[derive(Debug)]
pub(crate) struct DraftEntry {
    pub(crate) kind: kinds::EntryKind,
    pub(crate) uuid: Option<PackedId>,
    pub(crate) parent: DraftParent,
    pub(crate) time: Option<i64>,
    pub(crate) role: Option<Role>,
    pub(crate) marks: Marks,
    /// The hash that distinguishes a repeated entry from a new version of it.
    pub(crate) content: i64,
    pub(crate) text: SearchText,
    /// The number of the entry's words among the collected words; `None` if FTS5 indexes the text.
    pub(crate) words: Option<DocNumber>,
    /// True if `text.prose` is text of the human or the agent.
    pub(crate) is_message: bool,
    pub(crate) calls: Vec<DraftCall>,
    pub(crate) results: Vec<DraftResult>,
    pub(crate) model: Option<Box<Model>>,
    pub(crate) stop: Option<Stop>,
    pub(crate) usage: Option<Box<DraftUsage>>,
    pub(crate) detail: Detail,
    pub(crate) facts: Vec<Fact>,
    pub(crate) problems: Vec<Problem>,
}

/// The parent that an entry names.
#[derive(Debug)]
pub(crate) enum DraftParent {
    /// The entry before it in the source.
    Implicit,
    /// None: the entry is a root.
    Root,
    /// The entry with this id. It is a problem if there is none.
    Id(PackedId),
    /// The entry with this id, or none if there is no such entry.
    After(PackedId),
}

/// The data that only some kinds of entries have.
#[derive(Debug)]
pub(crate) enum Detail {
    None,
    Header,
    /// The model that answers from this entry on.
    ModelChange(Box<Model>),
    ThinkingLevel(String),
    Compaction(Box<DraftCompaction>),
    Custom {
        custom_type: String,
        data: Option<String>,
    },
    Label {
        target: PackedId,
        label: Option<String>,
    },
    Leaf {
        target: Option<PackedId>,
    },
    Prompt {
        /// The text without what was pasted.
        text: String,
        /// The files that hold pasted texts.
        pasted: Vec<String>,
    },
    Document {
        bytes: u64,
    },
    CronRun(Box<CronRun<'static>>),
    CronJobs {
        bytes: u64,
        jobs: Vec<CronJob>,
    },
}

#[derive(Debug)]
pub(crate) struct DraftCompaction {
    pub(crate) summary: String,
    pub(crate) first_kept: Option<PackedId>,
    pub(crate) compacted_count: Option<u64>,
    pub(crate) tokens_before: Option<u64>,
    pub(crate) tokens_after: Option<u64>,
    pub(crate) cause: Option<String>,
    pub(crate) read_files: Vec<String>,
    pub(crate) modified_files: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct DraftCall {
    pub(crate) id: Option<Box<str>>,
    pub(crate) name: Box<str>,
    pub(crate) target: Option<Box<str>>,
    pub(crate) is_partial: bool,
}

#[derive(Debug)]
pub(crate) struct DraftResult {
    pub(crate) call_id: Option<Box<str>>,
    pub(crate) is_error: bool,
    pub(crate) mentions_error: bool,
    pub(crate) output_name: Option<Box<str>>,
}

/// The usage of a response, with hashes that identify its copies.
#[derive(Debug)]
pub(crate) struct DraftUsage {
    pub(crate) usage: Usage,
    pub(crate) model: Model,
    /// The hash of the response's id; `None` if the entry is a separate response.
    pub(crate) message: Option<i64>,
    /// The hash of the request's id; 0 if it is unknown.
    pub(crate) request: i64,
}

/// A fact that an entry states about its session.
#[derive(Debug)]
pub(crate) enum Fact {
    Cwd(Box<str>),
    ClientVersion(Box<str>),
    GitBranch(Box<str>),
    HeaderVersion(Box<str>),
    SessionId(Box<str>),
    Title(TitleRank, Box<str>),
    Summary { title: Box<str>, leaf: Option<PackedId> },
    ForkOf(Box<str>),
    ContinuedIn(Box<str>),
    SpawnedByCall(Box<str>),
    ParentSession(Box<str>),
    AgentType(Box<str>),
    PullRequest(Box<str>),
    Spawned { call: Box<str>, agent_id: Box<str> },
    UsageTotal(Box<UsageTotal>),
}

/// An agent's own total of a session, by model.
#[derive(Debug)]
pub(crate) struct UsageTotal {
    /// The time at which the agent began to count.
    pub(crate) since: i64,
    pub(crate) models: Vec<(Box<str>, Usage)>,
}

/// A decoder that turns records of one source into drafts.
#[derive(Clone, Copy)]
pub(crate) struct Drafter<'a> {
    format: &'static dyn Format,
    origin: &'a Origin,
}

impl<'a> Drafter<'a> {
    pub(crate) fn new(format: &'static dyn Format, origin: &'a Origin) -> Drafter<'a> {
        Drafter { format, origin }
    }

    /// Decodes a whole record.
    pub(crate) fn draft(&self, bytes: &[u8]) -> Draft {
        let line = bytes.trim_ascii();
        let content = self.content(line);
        let mut entries = Vec::new();
        let mut skipped_records = 0_u64;
        let (format, origin) = (self.format, self.origin);
        let mut problems = record::read(format, origin, bytes, &mut |entry| {
            if entries.len() >= MAX_ENTRIES_PER_LINE {
                skipped_records += 1;
                return;
            }
            // A record has the same hash alone and on a line with other records.
            let content = match entry.part.clone().and_then(|part| line.get(part)) {
                Some(part) => self.content(part),
                None => content,
            };
            let drafted = self.entry(entry, content, bytes.len() as u64);
            if entries.is_empty() {
                // Most lines have one entry; without this, the vector would allocate room for four.
                entries.reserve_exact(1);
            }
            entries.push(drafted);
        });
        if skipped_records > 0 {
            let detail = format!("{skipped_records} more records on one line are not read");
            problems.push(Problem::new(ProblemKind::Oversize, detail));
        }
        Draft { entries, problems, same_as: None }
    }

    /// Returns the hash that distinguishes a repeated entry from a new version of it.
    fn content(&self, line: &[u8]) -> i64 {
        let respelled = match self.format.respells_lines() && !is_stringified(line) {
            true => std::str::from_utf8(line).ok().map(stringify),
            false => None,
        };
        short_hash(xxh3_64(respelled.as_deref().map_or(line, str::as_bytes)))
    }

    /// Decodes the head of a record that is too long to be read whole.
    pub(crate) fn draft_oversize(&self, head: &[u8], length: u64) -> Draft {
        let mut hasher = Xxh3::new();
        hasher.update(head);
        hasher.update(&length.to_le_bytes());
        let content = short_hash(hasher.digest());
        let mut entries = Vec::new();
        let (format, origin) = (self.format, self.origin);
        let problems = record::read_oversize(format, origin, head, length, &mut |entry| {
            // Each entry gets its own hash.
            let content = content.wrapping_add(entries.len() as i64);
            let mut drafted = self.entry(entry, content, length);
            drafted.text.unindexed_bytes += length - head.len() as u64;
            entries.push(drafted);
        });
        Draft { entries, problems, same_as: None }
    }

    /// Returns the whole text of each entry of a record, including text that is not indexed. For a
    /// record that is `too_long`, given its length, returns the text of its head.
    pub(crate) fn texts(&self, bytes: &[u8], too_long: Option<u64>) -> Vec<SearchText> {
        let mut texts = Vec::new();
        let mut each = |entry: &Entry<'_>| {
            if texts.len() < MAX_ENTRIES_PER_LINE {
                texts.push(collect_blocks(entry, bytes.len() as u64).text);
            }
        };
        match too_long {
            None => record::read(self.format, self.origin, bytes, &mut each),
            Some(length) => {
                let head = bytes.get(..OVERSIZE_HEAD).unwrap_or(bytes);
                record::read_oversize(self.format, self.origin, head, length, &mut each)
            }
        };
        texts
    }

    fn entry(&self, entry: &Entry<'_>, content: i64, bytes: u64) -> DraftEntry {
        let BlockContents { mut text, calls, results, detail } = collect_blocks(entry, bytes);
        text.seal();
        // Text next to a tool's result comes from the human.
        let is_message = matches!(entry.role, Some(Role::User | Role::Assistant | Role::Tool))
            && matches!(entry.kind, Kind::Message)
            && !entry.marks.is_meta
            && !text.prose.as_str().is_empty();
        let marks = Marks {
            is_side: entry.marks.is_side
                || matches!(
                    detail,
                    Detail::Header
                        | Detail::Leaf { .. }
                        | Detail::Prompt { .. }
                        | Detail::Document { .. }
                        | Detail::CronRun(_)
                        | Detail::CronJobs { .. }
                ),
            ..entry.marks
        };
        let form = match &entry.kind {
            Kind::Document => self.origin.part.as_str(),
            kind => kind.as_str(),
        };
        DraftEntry {
            kind: kinds::EntryKind::new(entry, form, &marks, story::folded(entry)),
            uuid: entry.id.as_deref().map(PackedId::pack),
            parent: match &entry.parent {
                Parent::Implicit => DraftParent::Implicit,
                Parent::Root => DraftParent::Root,
                Parent::Id(id) => DraftParent::Id(PackedId::pack(id)),
                Parent::After(id) => DraftParent::After(PackedId::pack(id)),
            },
            time: entry.time.map(|time| time.0),
            role: entry.role,
            marks,
            content,
            text,
            words: None,
            is_message,
            calls,
            results,
            model: entry.model.as_ref().map(|_| Box::new(model(entry))),
            stop: entry.stop,
            usage: usage(entry).map(Box::new),
            detail,
            facts: self.facts(&entry.facts),
            problems: entry.problems.clone(),
        }
    }

    fn facts(&self, facts: &[SessionFact<'_>]) -> Vec<Fact> {
        facts
            .iter()
            .filter_map(|fact| {
                Some(match fact {
                    SessionFact::Cwd(cwd) => Fact::Cwd(cwd.as_ref().into()),
                    SessionFact::ClientVersion(version) => {
                        Fact::ClientVersion(version.as_ref().into())
                    }
                    SessionFact::GitBranch(branch) => Fact::GitBranch(branch.as_ref().into()),
                    SessionFact::ParentSession(parent) => {
                        Fact::ParentSession(parent.as_ref().into())
                    }
                    SessionFact::HeaderVersion(version) => {
                        Fact::HeaderVersion(version.as_ref().into())
                    }
                    // The session id in the file's name takes precedence over the one in its
                    // records.
                    SessionFact::SessionId(_) if self.origin.session.is_some() => return None,
                    SessionFact::SessionId(id) => Fact::SessionId(id.as_ref().into()),
                    SessionFact::Title(rank, title) => Fact::Title(*rank, title.as_ref().into()),
                    SessionFact::Summary { title, leaf } => Fact::Summary {
                        title: title.as_ref().into(),
                        leaf: leaf.as_deref().map(PackedId::pack),
                    },
                    SessionFact::ForkOf(original) => Fact::ForkOf(original.as_ref().into()),
                    SessionFact::ContinuedIn(id) => Fact::ContinuedIn(id.as_ref().into()),
                    SessionFact::SpawnedByCall(call) => Fact::SpawnedByCall(call.as_ref().into()),
                    SessionFact::AgentType(kind) => Fact::AgentType(kind.as_ref().into()),
                    SessionFact::PullRequest(url) => Fact::PullRequest(url.as_ref().into()),
                    SessionFact::Spawned { call, agent_id } => Fact::Spawned {
                        call: call.as_ref().into(),
                        agent_id: agent_id.as_ref().into(),
                    },
                    SessionFact::UsageTotal { since, models } => {
                        let owned =
                            |(name, usage): &(Cow<'_, str>, Usage)| (name.as_ref().into(), *usage);
                        let models = models.iter().map(owned).collect();
                        Fact::UsageTotal(Box::new(UsageTotal { since: since.0, models }))
                    }
                })
            })
            .collect()
    }
}

/// The data collected from the blocks of an entry.
struct BlockContents {
    text: SearchText,
    calls: Vec<DraftCall>,
    results: Vec<DraftResult>,
    detail: Detail,
}

/// Collects the text, calls and results from the blocks of an entry.
fn collect_blocks(entry: &Entry<'_>, bytes: u64) -> BlockContents {
    let mut text = SearchText::default();
    let mut calls = Vec::new();
    let mut results = Vec::new();
    // A sub-agent's calls that another file repeats are counted only in the sub-agent's own
    // session.
    let is_repeated = matches!(entry.kind, Kind::Note | Kind::Relayed | Kind::Queue);
    for block in &entry.blocks {
        match block {
            Block::Text(words) => text.prose.push(words),
            Block::Thinking(words) => text.thinking.push(words),
            Block::ToolCall(call) => {
                text.tool_input.push(&call.name);
                let target = call
                    .input
                    .as_ref()
                    .and_then(|input| search::push_strings(&mut text.tool_input, input.get()));
                if is_repeated {
                    continue;
                }
                let about =
                    || story::about(&call.name, call.input.as_ref()?.get(), MAX_TARGET_BYTES);
                calls.push(DraftCall {
                    id: call.id.as_deref().map(Box::from),
                    name: call.name.as_ref().into(),
                    target: target.or_else(about).map(String::into_boxed_str),
                    is_partial: call.is_partial,
                });
            }
            Block::ToolResult(result) => {
                text.tool_result.push(&result.text);
                if is_repeated {
                    continue;
                }
                results.push(DraftResult {
                    call_id: result.call_id.as_deref().map(Box::from),
                    is_error: result.is_error,
                    mentions_error: mentions_error(&result.text),
                    output_name: result.output_file.as_deref().map(Box::from),
                });
            }
            // A person pasted it, and no other entry may have it.
            Block::Attached { text: pasted, .. } if matches!(entry.kind, Kind::Prompt) => {
                text.prose.push(pasted);
            }
            Block::Attached { text: attached, .. } => text.attached.push(attached),
            Block::Image { .. } | Block::Other(_) => {}
        }
    }
    let detail = detail(entry, &mut text, bytes);
    for fact in &entry.facts {
        match fact {
            SessionFact::Title(TitleRank::Ai | TitleRank::File | TitleRank::Custom, title)
            | SessionFact::Summary { title, .. } => text.prose.push(title),
            // The last prompt is indexed at the entry in which it was typed.
            _ => {}
        }
    }
    BlockContents { text, calls, results, detail }
}

/// Returns the data that only this kind of entry has. Adds its text to the search text.
fn detail(entry: &Entry<'_>, text: &mut SearchText, bytes: u64) -> Detail {
    let owned = |value: &Option<Cow<'_, str>>| value.as_deref().map(str::to_owned);
    match &entry.kind {
        Kind::Header => Detail::Header,
        Kind::Compaction(compaction) => {
            text.prose.push(&compaction.summary);
            Detail::Compaction(Box::new(DraftCompaction {
                summary: compaction.summary.as_ref().to_owned(),
                first_kept: compaction.first_kept.as_deref().map(PackedId::pack),
                compacted_count: compaction.compacted_count,
                tokens_before: compaction.tokens_before,
                tokens_after: compaction.tokens_after,
                cause: owned(&compaction.trigger),
                read_files: compaction.read_files.clone(),
                modified_files: compaction.modified_files.clone(),
            }))
        }
        Kind::BranchSummary { summary, .. } => {
            text.prose.push(summary);
            Detail::None
        }
        Kind::Custom { custom_type, data } => Detail::Custom {
            custom_type: custom_type.as_ref().to_owned(),
            data: data
                .as_ref()
                .map(|data| data.get())
                .filter(|data| data.len() <= MAX_CUSTOM_BYTES)
                .map(str::to_owned),
        },
        Kind::Label { target, label } => {
            Detail::Label { target: PackedId::pack(target), label: owned(label) }
        }
        Kind::Leaf { target, .. } => Detail::Leaf { target: target.as_deref().map(PackedId::pack) },
        Kind::Prompt => {
            let pasted = entry.blocks.iter().filter_map(|block| match block {
                Block::Attached { label, text } if text.is_empty() => Some(base_name(label)),
                _ => None,
            });
            let pasted = pasted.take(MAX_PASTED_FILES).map(str::to_owned).collect();
            Detail::Prompt { text: entry.text().into_owned(), pasted }
        }
        Kind::Document => Detail::Document { bytes },
        Kind::CronRun(run) => Detail::CronRun(Box::new(into_owned_run(run))),
        Kind::CronJobs(jobs) => Detail::CronJobs { bytes, jobs: jobs.clone() },
        Kind::ModelChange => Detail::ModelChange(Box::new(model(entry))),
        Kind::ThinkingLevel(level) => Detail::ThinkingLevel(level.as_ref().to_owned()),
        Kind::Message
        | Kind::ContextEdit { .. }
        | Kind::Reset { .. }
        | Kind::Relayed
        | Kind::Queue
        | Kind::Note
        | Kind::Unknown => Detail::None,
    }
}

fn into_owned_run(run: &CronRun<'_>) -> CronRun<'static> {
    let owned =
        |value: &Option<Cow<'_, str>>| value.as_deref().map(|value| value.to_owned().into());
    CronRun {
        job: run.job.to_string().into(),
        action: owned(&run.action),
        status: owned(&run.status),
        summary: owned(&run.summary),
        error: owned(&run.error),
        session_id: owned(&run.session_id),
        session_key: owned(&run.session_key),
        model: owned(&run.model),
        provider: owned(&run.provider),
        ..*run
    }
}

/// The largest number of pasted files that are stored for one prompt, against hostile input.
const MAX_PASTED_FILES: usize = 64;

/// Returns the last name of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The largest payload of a custom entry that is copied into the projection, in bytes. A longer one
/// stays in the record only, so that the projection stays small.
const MAX_CUSTOM_BYTES: usize = 64 << 10;

/// Returns the usage that an entry records.
fn usage(entry: &Entry<'_>) -> Option<DraftUsage> {
    let usage = entry.usage?;
    let hash = |tag: &str, parts: &[&str]| {
        let mut bytes = tag.as_bytes().to_vec();
        for part in parts {
            bytes.push(0);
            bytes.extend_from_slice(part.as_bytes());
        }
        // The value 0 means "unknown".
        xxh3_64(&bytes).max(1).cast_signed()
    };
    let (message, request) = match &entry.response {
        Some(Response { id, request }) => (
            Some(hash("response", &[id])),
            // Requests are compared only among copies of the same response, so four bytes are
            // enough.
            request.as_deref().map_or(0, |request| {
                hash("request", &[request]).rem_euclid(i64::from(i32::MAX)) + 1
            }),
        ),
        None => {
            // A fork copies entries with their id, time and model; a repair names the original.
            let id = entry.copy_of.as_deref().or(entry.id.as_deref());
            let known = id.zip(entry.time);
            let message = known.map(|(id, time)| {
                let time = time.0.to_string();
                hash("entry", &[id, &time, entry.model.as_deref().unwrap_or_default()])
            });
            (message, 0)
        }
    };
    Some(DraftUsage { usage, model: model(entry), message, request })
}

/// Returns the model that an entry names; missing parts are empty.
fn model(entry: &Entry<'_>) -> Model {
    let name = |value: &Option<Cow<'_, str>>| value.as_deref().unwrap_or_default().into();
    Model { model: name(&entry.model), provider: name(&entry.provider), api: name(&entry.api) }
}

/// Returns four bytes of a hash: enough to distinguish a repeated entry from a new version of the
/// same id.
fn short_hash(hash: u64) -> i64 {
    i64::from((hash >> 32) as u32 >> 1)
}

/// Marks the draft of a last line without a newline, to which nothing will be added.
pub(crate) fn mark_unterminated(draft: &mut Draft, part: Part) {
    if part.framing() == quipu_transcript::format::Framing::Lines {
        draft.problems.push(Problem::new(ProblemKind::Unterminated, "no newline at the end"));
    }
}
