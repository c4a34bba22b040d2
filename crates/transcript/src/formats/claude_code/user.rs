//! Decodes a line of type `user`: a prompt, tool results, or text that the harness wrote.

use std::borrow::Cow;

use super::envelope::{self, Glued, UserText};
use super::line::{Line, ToolUseResultFields};
use super::replies;
use crate::entry::{Block, Entry, Kind, Marks, Role, SessionFact, TitleRank, ToolResult};
use crate::json::non_empty;

/// Decodes a line of type `user`.
pub(super) fn user<'a>(entry: &mut Entry<'a>, mut line: Box<Line<'a>>) {
    entry.kind = Kind::Message;
    if let Some(mut message) = line.message.take() {
        message.role = Some(Cow::Borrowed("user"));
        message.fill(entry);
    }
    entry.role = Some(Role::User);
    if entry.blocks.iter().any(|block| matches!(block, Block::ToolResult(_))) {
        entry.role = Some(Role::Tool);
        let result = line.tool_use_result.take().unwrap_or_default().0;
        beside_results(entry);
        tool_results(entry, result);
        return;
    }
    if line.is_compact_summary == Some(true) {
        entry.marks.is_compact_summary = true;
        return;
    }
    let is_notification = line.origin.as_ref().and_then(|origin| origin.0.kind.as_deref())
        == Some("task-notification");
    if is_notification {
        entry.marks.is_meta = true;
    }
    if !entry.marks.is_meta {
        let is_typed = open_envelopes(entry);
        entry.marks.is_prompt = is_typed && !entry.marks.is_command && !entry.marks.is_sidechain;
    }
}

/// Finds the author of each text block of a user's entry. Returns true if a human typed any of it;
/// the harness's text around it is then attached. Marks an entry of which the model sees nothing as
/// a command.
pub(super) fn open_envelopes(entry: &mut Entry<'_>) -> bool {
    let mut is_typed = false;
    let mut is_for_model = false;
    let mut has_injected = false;
    let mut marks = Marks::default();
    let mut blocks = Vec::with_capacity(entry.blocks.len());
    for block in entry.blocks.drain(..) {
        let text = match block {
            Block::Text(text) if !text.trim_ascii().is_empty() => text,
            // A pasted image is a prompt too.
            Block::Image { .. } => {
                is_typed = true;
                is_for_model = true;
                blocks.push((block, false));
                continue;
            }
            block => {
                blocks.push((block, false));
                continue;
            }
        };
        let Glued { before, behind, what } = envelope::read(text);
        let attached = |(label, text): (String, String)| {
            let (label, text) = (Cow::Owned(label), Cow::Owned(text));
            (Block::Attached { label, text }, false)
        };
        blocks.extend(before.into_iter().map(attached));
        blocks.push(match what {
            UserText::Prompt(text) => {
                is_typed = true;
                is_for_model = true;
                (Block::Text(text), false)
            }
            UserText::Command { text, title, is_local } => {
                is_typed = true;
                is_for_model |= !is_local;
                let title = title.map(|title| SessionFact::Title(TitleRank::Custom, title.into()));
                entry.facts.extend(title);
                (Block::Text(Cow::Owned(text)), false)
            }
            UserText::Injected(text) => {
                has_injected = true;
                (Block::Text(text), true)
            }
            UserText::Interrupt(text) => {
                marks.is_interrupt = true;
                (Block::Text(text), false)
            }
            UserText::Summary(text) => {
                marks.is_compact_summary = true;
                (Block::Text(text), false)
            }
        });
        blocks.extend(behind.into_iter().map(attached));
    }
    let is_beside = is_typed && !marks.is_compact_summary;
    entry.blocks.extend(blocks.into_iter().map(|(block, is_injected)| match block {
        Block::Text(text) if is_injected && is_beside => {
            Block::Attached { label: envelope::label(&text).into(), text }
        }
        block => block,
    }));
    if marks.is_compact_summary {
        entry.marks.is_compact_summary = true;
        return false;
    }
    entry.marks.is_command = is_typed && !is_for_model;
    if !is_typed {
        entry.marks.is_meta |= marks.is_interrupt || has_injected;
    }
    entry.marks.is_interrupt |= marks.is_interrupt;
    is_typed
}

/// Attaches the harness's text beside a tool's results. All other text there is the human's.
fn beside_results(entry: &mut Entry<'_>) {
    for block in &mut entry.blocks {
        if let Block::Text(text) = block
            && envelope::is_injected(text)
        {
            let label = envelope::label(text).into();
            *block = Block::Attached { label, text: std::mem::take(text) };
        }
    }
}

/// Adds the output files and started sub-agents that `toolUseResult` and the previews name, and the
/// words of a person that the results hold.
fn tool_results<'a>(entry: &mut Entry<'a>, result: ToolUseResultFields<'a>) {
    let mut results: Vec<&mut ToolResult<'a>> = entry
        .blocks
        .iter_mut()
        .filter_map(|block| match block {
            Block::ToolResult(result) => Some(result),
            _ => None,
        })
        .collect();
    for result in &mut results {
        result.output_file = persisted_output(&result.text).map(Cow::Owned);
    }
    let words: Vec<_> =
        results.iter().filter_map(|answer| replies::words(&answer.text, &result)).collect();
    // `toolUseResult` belongs to exactly one result.
    if let [only] = &mut results[..] {
        only_result(only, result, &mut entry.facts);
    }
    entry.blocks.extend(words.into_iter().map(Block::Text));
}

/// Adds the output file and the sub-agent that `toolUseResult` names.
fn only_result<'a>(
    only: &mut ToolResult<'a>,
    result: ToolUseResultFields<'a>,
    facts: &mut Vec<SessionFact<'a>>,
) {
    if let Some(path) = result.persisted_output_path {
        let name = base_name(&path);
        if !name.is_empty() {
            only.output_file = Some(Cow::Owned(name.to_owned()));
        }
    }
    if let Some(agent_id) = non_empty(result.agent_id)
        && let Some(call) = only.call_id.clone()
    {
        facts.push(SessionFact::Spawned { call, agent_id });
    }
}

/// Returns the base name of the file that a preview names for the whole output. The path belongs to
/// the machine that wrote it, so only the name is useful here.
fn persisted_output(text: &str) -> Option<String> {
    let text = text.trim_ascii_start().strip_prefix("<persisted-output>")?;
    let (_, path) = text.split_once("Full output saved to: ")?;
    let name = base_name(path.lines().next()?.trim());
    (!name.is_empty()).then(|| name.to_owned())
}

fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_name_of_an_output_file_is_read_on_any_system() {
        let preview = |path: &str| {
            persisted_output(&format!(
                "<persisted-output>\nOutput too large (40KB). Full output saved to: {path}\n\nPreview"
            ))
        };
        assert_eq!(preview("/home/a/x/tool-results/b1.txt").as_deref(), Some("b1.txt"));
        assert_eq!(preview(r"C:\Users\a\tool-results\b1.txt").as_deref(), Some("b1.txt"));
        assert_eq!(preview("/ends/in/slash/"), None);
        assert_eq!(persisted_output("Full output saved to: /x/b1.txt"), None);
    }
}
