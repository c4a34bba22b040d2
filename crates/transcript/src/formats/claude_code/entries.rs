//! Decodes each type of line.
//!
//! An unknown type becomes [`Kind::Unknown`]: agents add types every few weeks, and dropping them
//! would lose data. Lines without a uuid are not part of the chain of parents.

use std::borrow::Cow;

use super::attachment::Attachment;
use super::envelope;
use super::line::{HistoryLine, Line, ModelUsage};
use super::user::{open_envelopes, user};
use crate::entry::{
    Block, Compaction, Entry, Kind, Marks, Parent, RawJson, Response, Role, SessionFact, Stop,
    TitleRank, Usage,
};
use crate::format::{Origin, Part};
use crate::json::object::Object;
use crate::json::{self, Nullable, Oddities, non_empty};
use crate::message::Content;
use crate::problem::ProblemKind;

/// Line types that are bookkeeping; only the fields that quipu needs are decoded.
const NOTES: &[&str] = &[
    "agent-color",
    "agent-name",
    "agent-setting",
    "ai-title",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "artifact-autoreact-ledger",
    "artifact-comment-monitor",
    "atis-latch",
    "attribution-snapshot",
    "bridge-session",
    "content-replacement",
    "continued-in",
    "cost-state",
    "custom-title",
    "data-flow-incomplete",
    "data-flow-records",
    "derived-from",
    "dev-mods",
    "ended-by-model",
    "file-history-delta",
    "file-history-snapshot",
    "fork-context-ref",
    "frame-link",
    "history-suppression",
    "isolation-latch",
    "last-prompt",
    "memory-mode",
    "mode",
    "observer-ref",
    "permission-mode",
    "pr-link",
    "relocated",
    "repl-mode",
    "resume-head-vouch",
    "session-owner",
    "summary",
    "tag",
    "tools-used",
    "worktree-state",
];

/// Decodes a line of a transcript.
pub(super) fn decode<'a>(origin: &Origin, json: &'a [u8]) -> serde_json::Result<Entry<'a>> {
    let mut odd = Oddities::default();
    let mut line = json::object::<Line<'a>>(json, &mut odd)?;
    let mut entry = Entry {
        type_name: line.type_name.take().unwrap_or_default(),
        id: non_empty(line.uuid.take()),
        parent: parent_of(&mut line),
        time: line.timestamp,
        facts: session_facts(origin, &mut line),
        ..Entry::default()
    };
    entry.marks.is_meta = line.is_meta == Some(true);
    // A sub-agent is the main conversation of its own file, and a sidechain in its parent's file.
    entry.marks.is_sidechain = line.is_sidechain == Some(true) && origin.part == Part::Transcript;
    match &*entry.type_name {
        "user" => user(&mut entry, line),
        "assistant" => assistant(&mut entry, line),
        "system" => system(&mut entry, line),
        "progress" => progress(&mut entry, line),
        "attachment" => attachment(&mut entry, line),
        "queue-operation" => queue_operation(&mut entry, line),
        "" => odd.note(ProblemKind::NoType, "type"),
        name if NOTES.binary_search(&name).is_ok() => note(&mut entry, origin, line),
        _ => {}
    }
    // The session that started a sub-agent wrote its prompts.
    let is_agent = matches!(origin.part, Part::Agent | Part::Subagent);
    entry.marks.is_automatic = entry.marks.is_prompt && is_agent;
    // Progress, hooks and bookkeeping attach to the conversation, which never continues from them.
    entry.marks.is_side = match entry.kind {
        Kind::Message => entry.id.is_none() && !matches!(&*entry.type_name, "user" | "assistant"),
        Kind::Compaction(_) => false,
        _ => true,
    };
    entry.problems = odd.into_problems();
    Ok(entry)
}

/// Decodes a line of `history.jsonl`, which is kept longer than the transcripts that it refers to.
pub(super) fn decode_history(json: &[u8]) -> serde_json::Result<Entry<'_>> {
    let mut odd = Oddities::default();
    let line = json::object::<HistoryLine<'_>>(json, &mut odd)?;
    let mut entry = Entry {
        type_name: Cow::Borrowed("history"),
        kind: Kind::Prompt,
        time: line.timestamp,
        role: Some(Role::User),
        ..Entry::default()
    };
    entry.blocks.extend(line.display.map(Block::Text));
    entry.blocks.extend(line.pasted.iter().flat_map(pasted));
    entry.facts.extend(non_empty(line.session_id).map(SessionFact::SessionId));
    entry.facts.extend(non_empty(line.project).map(SessionFact::Cwd));
    entry.problems = odd.into_problems();
    Ok(entry)
}

/// Returns the texts that were pasted into a prompt, which shows only a mark for each. A long text
/// is in a file that is named after its hash.
fn pasted<'a>(contents: &RawJson<'_>) -> Vec<Block<'a>> {
    let contents = Object::read(contents.get()).unwrap_or_default();
    let texts = contents.fields().filter_map(|(number, content)| {
        let content = Object::read(content.get())?;
        // A picture's content is base64.
        let is_text = content.text("type").is_none_or(|kind| kind == "text");
        let (label, text) = match (content.text("content"), content.text("contentHash")) {
            (Some(text), _) if !text.is_empty() => {
                (format!("pasted text #{number}"), text.into_owned())
            }
            (_, Some(hash)) => (format!("paste-cache/{hash}.txt"), String::new()),
            _ => return None,
        };
        is_text.then_some(Block::Attached { label: Cow::Owned(label), text: Cow::Owned(text) })
    });
    texts.collect()
}

fn parent_of<'a>(line: &mut Line<'a>) -> Parent<'a> {
    match line.parent_uuid.take() {
        Some(Nullable(Some(id))) if !id.is_empty() => Parent::Id(id),
        // A boundary is a new root; its logical parent keeps the earlier entries connected.
        parent => match non_empty(line.logical_parent_uuid.take()) {
            Some(id) => Parent::After(id),
            None if parent.is_some() => Parent::Root,
            None => Parent::Implicit,
        },
    }
}

/// Returns the facts about the session that any line may hold.
fn session_facts<'a>(origin: &Origin, line: &mut Line<'a>) -> Vec<SessionFact<'a>> {
    let mut facts = Vec::new();
    if let Some(id) = non_empty(line.session_id.take()) {
        match origin.part {
            // The file's name is the id by which a session is resumed.
            Part::Agent | Part::Subagent if origin.parent.as_deref() != Some(&*id) => {
                facts.push(SessionFact::ParentSession(id));
            }
            Part::Transcript if origin.session.as_deref() != Some(&*id) => {
                facts.push(SessionFact::SessionId(id))
            }
            _ => {}
        }
    }
    facts.extend(non_empty(line.cwd.take()).map(SessionFact::Cwd));
    facts.extend(non_empty(line.version.take()).map(SessionFact::ClientVersion));
    facts.extend(non_empty(line.git_branch.take()).map(SessionFact::GitBranch));
    let forked = line.forked_from.take().and_then(|from| from.session_id);
    facts.extend(non_empty(forked).map(SessionFact::ForkOf));
    facts
}

fn assistant<'a>(entry: &mut Entry<'a>, mut line: Box<Line<'a>>) {
    entry.kind = Kind::Message;
    if let Some(mut message) = line.message.take() {
        message.role = Some(Cow::Borrowed("assistant"));
        message.fill(entry);
    }
    entry.role = Some(Role::Assistant);
    if line.is_aborted == Some(true) {
        entry.stop = Some(Stop::Aborted);
    }
    if let Some(response) = &mut entry.response {
        response.request = non_empty(line.request_id.take());
    }
    if let Some(usage) = &mut entry.usage
        && line.cost_usd.is_some()
    {
        usage.cost_usd = line.cost_usd;
    }
    let is_api_error = line.is_api_error == Some(true);
    let is_synthetic = entry.model.as_deref() == Some("<synthetic>");
    if is_api_error || is_synthetic {
        // Claude Code itself wrote this text: no model was called, so it has no usage.
        entry.model = None;
        entry.usage = None;
        entry.response = None;
        entry.marks.is_error = is_api_error;
        entry.marks.is_meta |= !is_api_error;
    }
}

fn system<'a>(entry: &mut Entry<'a>, mut line: Box<Line<'a>>) {
    entry.kind = Kind::Note;
    match line.subtype.as_deref().unwrap_or_default() {
        "compact_boundary" => {
            let metadata = line.compact_metadata.take().unwrap_or_default();
            entry.kind = Kind::Compaction(Compaction {
                // The summary itself is in the user line that follows.
                first_kept: non_empty(metadata.preserved.and_then(|preserved| preserved.head)),
                tokens_before: metadata.tokens_before,
                tokens_after: metadata.tokens_after,
                trigger: non_empty(metadata.trigger),
                ..Compaction::default()
            });
            return;
        }
        "api_error" => entry.marks.is_error = true,
        _ => {}
    }
    if let Some(Content(blocks)) = line.content.take() {
        entry.role = Some(Role::System);
        entry.blocks = blocks;
        // Newer releases record some slash commands as system lines.
        let is_command = line.subtype.as_deref() == Some("local_command");
        if is_command && open_envelopes(entry) && !entry.marks.is_sidechain {
            entry.role = Some(Role::User);
        }
    }
    entry.marks.is_meta = true;
}

fn progress<'a>(entry: &mut Entry<'a>, mut line: Box<Line<'a>>) {
    entry.kind = Kind::Note;
    let data = line.data.take().unwrap_or_default().0;
    if let Some(agent_id) = non_empty(data.agent_id)
        && let Some(call) = non_empty(line.parent_tool_use_id.take())
    {
        entry.facts.push(SessionFact::Spawned { call, agent_id });
    }
    // If a sub-agent's own file is gone, this is the only copy of its text and usage.
    let nested = data.message.unwrap_or_default().0;
    let Some(mut message) = nested.message else { return };
    let (usage, id) = (message.usage.take(), non_empty(message.id.take()));
    let model = non_empty(message.model.take());
    let (time, is_error) = (entry.time, entry.marks.is_error);
    message.fill(entry);
    // The time and error mark of a sub-agent's message are not an event of this session.
    (entry.time, entry.marks.is_error) = (time, is_error);
    (entry.stop, entry.usage, entry.response, entry.model) = (None, None, None, None);
    if entry.blocks.is_empty() {
        entry.role = None;
    } else if entry.blocks.iter().any(|block| matches!(block, Block::ToolResult(_))) {
        entry.role = Some(Role::Tool);
    }
    if entry.role.is_some() {
        entry.kind = Kind::Relayed;
    }
    if let (Some(usage), Some(id)) = (usage, id)
        && model.as_deref() != Some("<synthetic>")
    {
        entry.usage = Some(usage);
        entry.response = Some(Response { id, request: non_empty(nested.request_id) });
        entry.model = model;
    }
}

fn attachment<'a>(entry: &mut Entry<'a>, mut line: Box<Line<'a>>) {
    entry.kind = Kind::Note;
    let attachment = line.attachment.take().unwrap_or_default();
    if attachment.type_name.as_deref() != Some("queued_command") {
        if let Some(block) = attachment.into_block() {
            entry.role = Some(Role::System);
            entry.blocks.push(block);
        }
        return;
    }
    // The user typed this while a tool ran; the agent read it in the middle of a turn.
    let is_typed = is_from_human(&attachment);
    entry.kind = Kind::Message;
    entry.role = Some(Role::User);
    entry.blocks = attachment.prompt.unwrap_or_default().0;
    if !is_typed {
        entry.marks.is_meta = true;
    } else {
        open_envelopes(entry);
    }
}

fn is_from_human(attachment: &Attachment<'_>) -> bool {
    let kind = attachment.origin.as_ref().and_then(|origin| origin.0.kind.as_deref());
    !matches!(attachment.command_mode.as_deref(), Some("task-notification"))
        && kind.is_none_or(|kind| kind == "human")
}

fn queue_operation<'a>(entry: &mut Entry<'a>, mut line: Box<Line<'a>>) {
    entry.kind = Kind::Queue;
    let Some(Content(blocks)) = line.content.take() else {
        return;
    };
    match line.operation.as_deref() {
        // The agent was shown the text in the middle of its work.
        Some("remove") => {
            entry.role = Some(Role::User);
            entry.blocks = blocks;
            entry.marks.is_meta = true;
        }
        // Most queued prompts come back as a separate line. A prompt that the agent read while
        // a tool ran does not: releases 2.1.30 to 2.1.49 write only this line.
        Some("enqueue") => {
            if let [Block::Text(text)] = &*blocks {
                entry.facts.extend(spawned_task(text));
                if is_task(text) {
                    return;
                }
            }
            entry.blocks = blocks;
            entry.role = Some(Role::User);
            let marks = entry.marks;
            let is_queued = open_envelopes(entry);
            entry.marks = Marks { is_queued, is_meta: !is_queued, ..marks };
        }
        _ => {}
    }
}

/// Returns whether a queued text is a notification about a background task.
fn is_task(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("<task-notification>")
        || (text.starts_with('{') && text.contains("\"task_id\""))
}

/// Returns the sub-agent that a queued notification is about, from XML or JSON.
fn spawned_task(text: &str) -> Option<SessionFact<'static>> {
    json::fields! {
        struct Task<'a> {
            "task_id" => id: Cow<'a, str>,
            "tool_use_id" => call: Cow<'a, str>,
            "task_type" => kind: Cow<'a, str>,
        }
    }
    let text = text.trim_start();
    let (call, id) = if text.starts_with("<task-notification>") {
        let call = envelope::inner(text, "tool-use-id")?;
        (call.trim().to_owned(), envelope::inner(text, "task-id")?.trim().to_owned())
    } else if text.starts_with('{') {
        let task = json::object::<Task<'_>>(text.as_bytes(), &mut Oddities::default()).ok()?;
        // Background shell commands are queued in the same shape.
        task.kind.filter(|kind| kind.ends_with("agent"))?;
        (task.call?.into_owned(), task.id?.into_owned())
    } else {
        return None;
    };
    (!call.is_empty() && !id.is_empty())
        .then_some(SessionFact::Spawned { call: Cow::Owned(call), agent_id: Cow::Owned(id) })
}

fn note<'a>(entry: &mut Entry<'a>, origin: &Origin, mut line: Box<Line<'a>>) {
    entry.kind = Kind::Note;
    let title = |rank, text: Option<Cow<'a, str>>| text.map(|text| SessionFact::Title(rank, text));
    let facts = match &*entry.type_name {
        "summary" => non_empty(line.summary.take())
            .map(|title| SessionFact::Summary { title, leaf: non_empty(line.leaf_uuid) }),
        "last-prompt" => title(TitleRank::LastPrompt, non_empty(line.last_prompt)),
        "ai-title" => title(TitleRank::Ai, line.ai_title),
        // An empty title removes the title.
        "custom-title" => title(TitleRank::Custom, line.custom_title),
        "pr-link" => non_empty(line.pr_url).map(SessionFact::PullRequest),
        "continued-in" => non_empty(line.continued_in).map(SessionFact::ContinuedIn),
        "derived-from" => non_empty(line.derived_from)
            .or(non_empty(line.source_session))
            .or(non_empty(line.parent_session))
            .map(SessionFact::ForkOf),
        "fork-context-ref" => non_empty(line.parent_session).map(|id| match origin.part {
            Part::Agent | Part::Subagent => SessionFact::ParentSession(id),
            _ => SessionFact::ForkOf(id),
        }),
        "cost-state" => usage_total(&line),
        _ => None,
    };
    entry.facts.extend(facts);
}

/// Maximum number of models in a total. A session uses a few; a line with more is hostile.
const MAX_MODELS: usize = 64;

/// Returns Claude Code's own total of the session.
fn usage_total(line: &Line<'_>) -> Option<SessionFact<'static>> {
    let models = Object::read(line.model_usage.as_ref()?.get())?;
    let models = models.fields().take(MAX_MODELS).filter_map(|(name, sum)| {
        let sum =
            json::object::<ModelUsage>(sum.get().as_bytes(), &mut Oddities::default()).ok()?;
        let usage = Usage {
            input: sum.input.unwrap_or_default(),
            output: sum.output.unwrap_or_default(),
            cache_read: sum.cache_read.unwrap_or_default(),
            cache_write: sum.cache_write.unwrap_or_default(),
            cache_write_1h: sum.cache_write_1h.unwrap_or_default(),
            cost_usd: sum.cost_usd,
            is_fast: false,
        };
        Some((Cow::Owned(name.to_owned()), usage))
    });
    Some(SessionFact::UsageTotal { since: line.start_time?, models: models.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_notes_are_sorted_for_the_binary_search() {
        assert!(NOTES.is_sorted());
    }
}
