//! Converts an entry into an item of the story.

use std::borrow::Cow;

use super::{
    CALL_COLUMNS, CustomState, Folded, ItemKind, LabelChange, Outcome, Piece, StoryCall, StoryItem,
    StoryResult,
};
use super::{about, mentions_error};
use crate::entry::{Block, Entry, Kind, Role, ToolCall, ToolResult};
use crate::format::Format;

/// Converts an entry into a story item. Never fails. Fills only the fields that follow from the
/// entry alone, without its session. The item borrows from the entry.
pub fn story_item<'e>(format: &dyn Format, entry: &'e Entry<'_>) -> StoryItem<'e> {
    StoryItem {
        id: entry.id.as_deref().map(Cow::Borrowed),
        type_name: Cow::Borrowed(&entry.type_name),
        kind: kind(entry),
        role: entry.role,
        time: entry.time,
        model: entry.model.as_deref().map(Cow::Borrowed),
        provider: entry.provider.as_deref().map(Cow::Borrowed),
        api: entry.api.as_deref().map(Cow::Borrowed),
        stop_reason: entry.stop_reason.as_deref().map(Cow::Borrowed),
        usage: entry.usage,
        custom: match &entry.kind {
            Kind::Custom { custom_type, data } => {
                Some(CustomState { custom_type: Cow::Borrowed(custom_type), data: data.clone() })
            }
            _ => None,
        },
        label: match &entry.kind {
            Kind::Label { target, label } => Some(LabelChange {
                target: Cow::Borrowed(target),
                label: label.as_deref().map(Cow::Borrowed),
            }),
            _ => None,
        },
        thinking_level: match &entry.kind {
            Kind::ThinkingLevel(level) => Some(Cow::Borrowed(level)),
            _ => None,
        },
        pieces: pieces(format, entry),
        folded: folded(entry),
        is_prompt: entry.marks.is_prompt,
        is_automatic: entry.marks.is_automatic,
        sender: entry.sender.as_deref().cloned(),
        is_error: entry.marks.is_error,
        is_interrupt: entry.marks.is_interrupt,
        is_queued: entry.marks.is_queued,
        is_relayed: matches!(entry.kind, Kind::Relayed),
        ..StoryItem::default()
    }
}

fn kind<'e>(entry: &'e Entry<'_>) -> ItemKind<'e> {
    match &entry.kind {
        // Of some sessions, only prompts in the agent's list of prompts are left.
        Kind::Message | Kind::Prompt => ItemKind::Message,
        Kind::Compaction(compaction) => ItemKind::Compaction(compaction.clone()),
        Kind::BranchSummary { summary, from } => ItemKind::BranchSummary {
            summary: Cow::Borrowed(summary),
            from: from.as_deref().map(Cow::Borrowed),
        },
        Kind::Reset { reason, .. } => {
            ItemKind::Reset { reason: reason.as_deref().map(Cow::Borrowed) }
        }
        // Newer releases of some agents record some slash commands of the human as system lines.
        Kind::Note | Kind::Queue if entry.role == Some(Role::User) => ItemKind::Message,
        // A sub-agent's message is a message, wherever it was recorded.
        Kind::Relayed => ItemKind::Message,
        _ => ItemKind::Note,
    }
}

/// Returns the reason why a story hides an entry by default; `None` if it is shown.
pub fn folded(entry: &Entry<'_>) -> Option<Folded> {
    let marks = &entry.marks;
    if marks.is_sidechain || matches!(entry.kind, Kind::Relayed) {
        return Some(Folded::Sidechain);
    }
    if marks.is_queued {
        return Some(Folded::Queued);
    }
    match &entry.kind {
        Kind::Compaction(_) | Kind::BranchSummary { .. } | Kind::Reset { .. } | Kind::Prompt => {
            None
        }
        Kind::Message if marks.is_compact_summary => Some(Folded::Summary),
        Kind::Message if marks.is_mirror => Some(Folded::Mirror),
        Kind::Message if marks.is_interrupt => None,
        // An extension's message has the role of the user, but the human did not write it.
        Kind::Message if marks.is_meta || marks.is_extension => Some(Folded::Meta),
        Kind::Message if entry.role == Some(Role::System) => Some(Folded::Meta),
        Kind::Message => None,
        Kind::Note if entry.role == Some(Role::User) && is_command(entry) => None,
        Kind::Note | Kind::Queue if !entry.blocks.is_empty() => Some(Folded::Meta),
        Kind::Unknown => Some(Folded::Unknown),
        _ => Some(Folded::Bookkeeping),
    }
}

/// Returns whether a text of the entry is a typed command, for example `/model`.
fn is_command(entry: &Entry<'_>) -> bool {
    entry.blocks.iter().any(|block| matches!(block, Block::Text(text) if text.starts_with('/')))
}

fn pieces<'e>(format: &dyn Format, entry: &'e Entry<'_>) -> Vec<Piece<'e>> {
    let is_prompt_list = matches!(entry.kind, Kind::Prompt);
    let mut pieces: Vec<Piece<'e>> = entry
        .blocks
        .iter()
        .map(|block| match block {
            Block::Attached { label, text } if is_prompt_list => {
                Piece::Pasted { label: Cow::Borrowed(label), text: Cow::Borrowed(text) }
            }
            block => piece(format, block),
        })
        .collect();
    // If the human ran a command (`! ls`), the texts after it are the command's output.
    if let [Piece::Words(command), rest @ ..] = &mut pieces[..]
        && entry.role == Some(Role::User)
        && command.starts_with("! ")
    {
        for piece in rest {
            if let Piece::Words(output) = piece {
                let text = std::mem::take(output);
                let label = Cow::Borrowed("output");
                *piece = Piece::Attached { label, text, gist: None };
            }
        }
    }
    pieces
}

fn piece<'e>(format: &dyn Format, block: &'e Block<'_>) -> Piece<'e> {
    match block {
        Block::Attached { label, text } => Piece::Attached {
            gist: format.shown_by_person(label, text),
            label: Cow::Borrowed(label),
            text: Cow::Borrowed(text),
        },
        Block::Text(text) => Piece::Words(Cow::Borrowed(text)),
        Block::Thinking(text) => Piece::Thinking(Cow::Borrowed(text)),
        Block::ToolCall(call) => Piece::Call(self::call(call)),
        Block::ToolResult(result) => Piece::Result(self::result(format, result)),
        Block::Image { media_type } => {
            Piece::Image { media_type: media_type.as_deref().map(Cow::Borrowed) }
        }
        Block::Other(name) => Piece::Other(Cow::Borrowed(name)),
    }
}

fn call<'e>(call: &'e ToolCall<'_>) -> StoryCall<'e> {
    let name = call.name.chars().count() + 1;
    let columns = CALL_COLUMNS.saturating_sub(name);
    StoryCall {
        id: call.id.as_deref().map(Cow::Borrowed),
        name: Cow::Borrowed(&call.name),
        about: call.input.as_ref().and_then(|input| about(&call.name, input.get(), columns)),
        input: call.input.clone(),
        is_partial: call.is_partial,
        outcome: None,
        exit_code: None,
        subagent: None,
    }
}

fn result<'e>(format: &dyn Format, result: &'e ToolResult<'_>) -> StoryResult<'e> {
    let mentions = format.error_words_count() && mentions_error(&result.text);
    StoryResult {
        call_id: result.call_id.as_deref().map(Cow::Borrowed),
        name: result.name.as_deref().map(Cow::Borrowed),
        about: None,
        text: Cow::Borrowed(&result.text),
        outcome: Outcome::of(result.is_error, mentions),
        output_file: result.output_file.as_deref().map(Cow::Borrowed),
        images: result.images,
        is_orphan: false,
    }
}
