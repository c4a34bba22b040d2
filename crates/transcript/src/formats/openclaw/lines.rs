//! Decodes one line of a transcript, in every shape that pi and OpenClaw have written or
//! documented: session headers, entries of a dozen types, and bare messages without an envelope.

use std::borrow::Cow;

use super::{archives, files, spawn, summary, user_text};
use crate::entry::{
    Block, Compaction, Entry, Kind, Parent, RawJson, Role, Sender, SessionFact, Stop, TitleRank,
    Usage,
};
use crate::format::Origin;
use crate::json::{self, Nullable, Oddities, Word, fields, non_empty};
use crate::message::{Content, Message};
use crate::problem::{Problem, ProblemKind};
use crate::time::Timestamp;

/// The highest header version that any release or document names.
const NEWEST_VERSION: u64 = 9;

fields! {
    /// All fields of the known entry types.
    struct Line<'a> {
        "type" => type_name: Cow<'a, str>,
        "id" => id: Word<'a>,
        "parentId" => parent: Nullable<Word<'a>>,
        "timestamp" => time: Timestamp,
        "message" => message: Box<Message<'a>>,
        /// Only in a bare message.
        "role" => role: Cow<'a, str>,
        "version" => version: Word<'a>,
        "cwd" => cwd: Cow<'a, str>,
        "parentSession" => parent_session: Cow<'a, str>,
        "provider" => provider: Cow<'a, str>,
        "modelId" => model_id: Cow<'a, str>,
        "model" => model: Cow<'a, str>,
        "thinkingLevel" => thinking_level: Cow<'a, str>,
        "usage" => usage: Usage,
        "summary" => summary: Cow<'a, str>,
        "firstKeptEntryId" => first_kept: Word<'a>,
        "compactedCount" => compacted_count: u64,
        "tokensBefore" => tokens_before: u64,
        "tokensAfter" => tokens_after: u64,
        "trigger" => trigger: Cow<'a, str>,
        "details" => details: Details<'a>,
        "fromId" => from_id: Word<'a>,
        "branchPoint" => branch_point: Word<'a>,
        "customType" => custom_type: Cow<'a, str>,
        "data" => data: RawJson<'a>,
        "content" => content: Content<'a>,
        "display" => display: bool,
        "targetId" => target: Word<'a>,
        "label" => label: Cow<'a, str>,
        "name" => name: Cow<'a, str>,
        "reason" => reason: Cow<'a, str>,
        "appendParentId" => append_parent: Word<'a>,
        "appendMode" => append_mode: Cow<'a, str>,
        "quipuCopyOf" => copy_of: Word<'a>,
    }
}

fields! {
    /// The files that a compaction or branch summary lists.
    struct Details<'a> {
        "readFiles" => read_files: Vec<Cow<'a, str>>,
        "modifiedFiles" => modified_files: Vec<Cow<'a, str>>,
        "quipu" => note: Note<'a>,
    }
}

fields! {
    /// What this program noted about a compaction.
    struct Note<'a> {
        "reason" => reason: Cow<'a, str>,
    }
}

/// Implements [`crate::format::Format::decode`].
pub(super) fn decode<'a>(origin: &Origin, json: &'a [u8]) -> serde_json::Result<Entry<'a>> {
    let mut odd = Oddities::default();
    let mut line = json::object::<Line<'a>>(json, &mut odd)?;
    let mut entry = Entry {
        id: word(line.id.take()),
        parent: parent(line.parent.take()),
        time: line.time,
        copy_of: word(line.copy_of.take()),
        ..Entry::default()
    };
    entry.marks.is_side = line.append_mode.as_deref() == Some("side");

    match non_empty(line.type_name.take()) {
        Some(type_name) => {
            entry.kind = line.fill(&type_name, origin, &mut odd, &mut entry);
            entry.type_name = type_name;
        }
        None if line.role.is_some() => {
            entry.type_name = "bare".into();
            entry.kind = Kind::Message;
            fill_message(json::object(json, &mut odd)?, &mut entry);
        }
        None => odd.note(ProblemKind::NoType, "type"),
    }
    let mut problems = odd.into_problems();
    if matches!(entry.kind, Kind::Unknown) {
        // The field types of an unknown entry type are unknown too.
        problems.retain(|problem| problem.kind != ProblemKind::BadField);
    }
    problems.append(&mut entry.problems);
    entry.problems = problems;
    Ok(entry)
}

impl<'a> Line<'a> {
    /// Moves the line's fields into `entry` and returns its kind.
    fn fill(
        self: Box<Self>,
        type_name: &str,
        origin: &Origin,
        odd: &mut Oddities,
        entry: &mut Entry<'a>,
    ) -> Kind<'a> {
        match type_name {
            "message" => {
                match self.message {
                    Some(message) => {
                        if message.role.is_none() {
                            odd.note(ProblemKind::BadField, "role");
                        }
                        fill_message(message, entry);
                    }
                    None => odd.note(ProblemKind::BadField, "message"),
                }
                Kind::Message
            }
            "session" => self.header(origin, entry),
            "model_change" => {
                entry.model = non_empty(self.model_id.or(self.model));
                entry.provider = non_empty(self.provider);
                Kind::ModelChange
            }
            "thinking_level_change" => Kind::ThinkingLevel(self.thinking_level.unwrap_or_default()),
            "compaction" => {
                entry.usage = self.usage;
                Kind::Compaction(self.compaction())
            }
            "branch_summary" => {
                entry.usage = self.usage;
                let parent_session = non_empty(self.parent_session);
                let forked = parent_session.clone().map(|path| SessionFact::ForkOf(session(path)));
                entry.facts.extend(forked);
                Kind::BranchSummary {
                    summary: self.summary.unwrap_or_default(),
                    from: word(self.from_id).or(word(self.branch_point)).or(parent_session),
                }
            }
            "custom_message" => {
                entry.role = Some(Role::User);
                entry.marks.is_meta = self.display == Some(false);
                entry.marks.is_extension = true;
                entry.blocks = self.content.unwrap_or_default().0;
                Kind::Message
            }
            "label" => {
                Kind::Label { target: target(self.target, odd), label: non_empty(self.label) }
            }
            "session_info" => {
                entry
                    .facts
                    .push(SessionFact::Title(TitleRank::Custom, self.name.unwrap_or_default()));
                Kind::Note
            }
            "usage" => {
                entry.usage = self.usage;
                entry.model = non_empty(self.model.or(self.model_id));
                entry.provider = non_empty(self.provider);
                Kind::Note
            }
            "context_edit" => Kind::ContextEdit { target: target(self.target, odd) },
            "reset" => {
                Kind::Reset { reason: non_empty(self.reason), first_kept: word(self.first_kept) }
            }
            "leaf" => {
                Kind::Leaf { target: word(self.target), append_parent: word(self.append_parent) }
            }
            "custom" => {
                Kind::Custom { custom_type: self.custom_type.unwrap_or_default(), data: self.data }
            }
            _ => match type_name.strip_prefix("custom:") {
                Some(custom_type) => {
                    Kind::Custom { custom_type: custom_type.to_owned().into(), data: self.data }
                }
                None => Kind::Unknown,
            },
        }
    }

    /// Decodes a header, whose `id` is the session's, not an entry's.
    fn header(self, origin: &Origin, entry: &mut Entry<'a>) -> Kind<'a> {
        // Version 1 had the model in the header.
        entry.model = non_empty(self.model_id);
        entry.provider = non_empty(self.provider);
        if let Some(Word(version)) = self.version {
            if version.parse::<u64>().is_ok_and(|version| version > NEWEST_VERSION) {
                entry.problems.push(Problem::new(ProblemKind::NewerVersion, "version"));
            }
            entry.facts.push(SessionFact::HeaderVersion(version));
        }
        if let Some(id) = entry.id.take() {
            if origin.session.as_deref().is_some_and(|session| !archives::is_named(session, &id)) {
                entry.problems.push(Problem::new(ProblemKind::HeaderMismatch, "id"));
            }
            entry.facts.push(SessionFact::SessionId(id));
        }
        entry.facts.extend(non_empty(self.cwd).map(SessionFact::Cwd));
        entry
            .facts
            .extend(non_empty(self.parent_session).map(|path| SessionFact::ForkOf(session(path))));
        Kind::Header
    }

    fn compaction(self) -> Compaction<'a> {
        let summary = self.summary.unwrap_or_default();
        let details = self.details.unwrap_or_default();
        let reason = details.note.and_then(|note| note.reason);
        Compaction {
            read_files: summary::files(details.read_files, &summary, "read-files"),
            modified_files: summary::files(details.modified_files, &summary, "modified-files"),
            summary,
            first_kept: word(self.first_kept),
            compacted_count: self.compacted_count,
            tokens_before: self.tokens_before,
            tokens_after: self.tokens_after,
            trigger: non_empty(self.trigger).or_else(|| non_empty(reason)),
        }
    }
}

/// Moves a message into `entry`.
fn fill_message<'a>(mut message: Box<Message<'a>>, entry: &mut Entry<'a>) {
    // Only `responseId` identifies an API response; the `id` of a bare line is its own.
    message.id = None;
    let role = message.role.clone().unwrap_or_default();
    let is_hidden = message.display == Some(false);
    let author = message.provenance.take().and_then(|provenance| provenance.kind);
    let output = non_empty(message.output.take());
    let details = message.details.take();
    let tool = message.tool_name.take().or(message.custom_type.clone());
    message.fill(entry);
    entry.facts.extend(spawn::started(tool.as_deref(), details.as_ref(), &entry.blocks));
    match &*role {
        "user" => {
            let is_result = |block: &Block<'_>| matches!(block, Block::ToolResult(_));
            if !entry.blocks.is_empty() && entry.blocks.iter().all(is_result) {
                entry.role = Some(Role::Tool);
            } else {
                entry.marks.is_prompt = true;
                open_user_texts(entry, author.as_deref());
            }
        }
        "assistant" => finish_assistant(entry),
        "custom" | "hookMessage" => entry.marks.is_meta = is_hidden,
        // Plain text instead of a tool result, because a result without a call could be paired with
        // another call.
        "bashExecution" => entry.blocks.extend(output.map(Block::Text)),
        _ => {}
    }
}

/// Separates the words of a user's message from what OpenClaw put around them.
pub(super) fn open_user_texts(entry: &mut Entry<'_>, author: Option<&str>) {
    let mut blocks = Vec::with_capacity(entry.blocks.len());
    let mut sender = Sender::default();
    let mut is_automatic = false;
    for block in entry.blocks.drain(..) {
        let Block::Text(text) = block else {
            blocks.push(block);
            continue;
        };
        let found = user_text::read(&text);
        is_automatic |= found.is_automatic;
        sender.name = sender.name.or(found.sender);
        sender.channel = sender.channel.or(found.channel);
        sender.message_id = sender.message_id.or(found.message_id);
        if let [user_text::Piece { label: None, .. }] | [] = &found.pieces[..] {
            blocks.push(Block::Text(text));
            continue;
        }
        blocks.extend(found.pieces.iter().map(|piece| {
            let text = text.get(piece.range.clone()).unwrap_or_default().to_owned().into();
            match piece.label {
                Some(label) => Block::Attached { label: label.to_owned().into(), text },
                None => Block::Text(text),
            }
        }));
    }
    entry.blocks = blocks;
    entry.marks.is_automatic = match author {
        Some("external_user") => false,
        Some("internal_system" | "inter_session") => true,
        _ => is_automatic,
    };
    if sender != Sender::default() {
        entry.sender = Some(Box::new(sender));
    }
}

fn finish_assistant(entry: &mut Entry<'_>) {
    // OpenClaw leaves the streaming buffer (`partialArgs`) on complete calls. Only an interrupted
    // answer has interrupted calls.
    let is_finished = matches!(entry.stop, Some(Stop::Done | Stop::ToolUse));
    for block in &mut entry.blocks {
        if let Block::ToolCall(call) = block {
            call.is_partial &= !is_finished;
        }
    }
    if entry.stop == Some(Stop::Aborted) {
        // Its error message only reports that the answer was stopped.
        entry.marks.is_error = false;
    }
    if is_mirror(entry) {
        entry.marks.is_mirror = true;
        entry.usage = None;
        entry.response = None;
        entry.model = None;
    }
}

/// Returns true for a copy of an answer that was sent to a chat channel. No model wrote it.
fn is_mirror(entry: &Entry<'_>) -> bool {
    matches!(entry.model.as_deref(), Some("delivery-mirror" | "gateway-injected"))
        && matches!(entry.provider.as_deref(), None | Some("openai-responses" | "openclaw"))
}

fn parent<'a>(written: Option<Nullable<Word<'a>>>) -> Parent<'a> {
    match written {
        None => Parent::Implicit,
        Some(Nullable(id)) => word(id).map_or(Parent::Root, Parent::Id),
    }
}

fn word<'a>(written: Option<Word<'a>>) -> Option<Cow<'a, str>> {
    non_empty(written.map(|word| word.0))
}

fn target<'a>(written: Option<Word<'a>>, odd: &mut Oddities) -> Cow<'a, str> {
    word(written).unwrap_or_else(|| {
        odd.note(ProblemKind::BadField, "targetId");
        Cow::Borrowed("")
    })
}

/// Returns the session that a path to a transcript names; other text is returned as written.
fn session(path: Cow<'_, str>) -> Cow<'_, str> {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    match files::session_of(name.as_bytes()) {
        Some(session) => Cow::Owned(session),
        None => path,
    }
}
