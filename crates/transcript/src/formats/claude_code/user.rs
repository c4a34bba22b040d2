//! Decodes a line of type `user`: a prompt, tool results, or text that the harness wrote.

use std::borrow::Cow;

use super::envelope::{self, UserText};
use super::line::{Line, ToolUseResultFields};
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
        entry.marks.is_prompt = is_typed && !entry.marks.is_sidechain;
    }
}

/// Finds the author of each text block of a user's entry. Returns true if a human typed any of it;
/// the harness's text around it is then removed.
pub(super) fn open_envelopes(entry: &mut Entry<'_>) -> bool {
    let mut is_typed = false;
    let mut marks = Marks::default();
    let mut is_injected = Vec::with_capacity(entry.blocks.len());
    for block in &mut entry.blocks {
        let mut injected = false;
        match block {
            Block::Text(text) if text.trim_ascii().is_empty() => {}
            Block::Text(text) => match envelope::read(std::mem::take(text)) {
                UserText::Prompt(inner) => {
                    *text = inner;
                    is_typed = true;
                }
                UserText::Command { text: inner, title } => {
                    *text = Cow::Owned(inner);
                    is_typed = true;
                    entry.facts.extend(
                        title.map(|title| SessionFact::Title(TitleRank::Custom, title.into())),
                    );
                }
                UserText::Injected(inner) => {
                    *text = inner;
                    injected = true;
                }
                UserText::Interrupt(inner) => {
                    *text = inner;
                    marks.is_interrupt = true;
                }
                UserText::Summary(inner) => {
                    *text = inner;
                    marks.is_compact_summary = true;
                }
            },
            // A pasted picture is a prompt too.
            Block::Image { .. } => is_typed = true,
            _ => {}
        }
        is_injected.push(injected);
    }
    if marks.is_compact_summary {
        entry.marks.is_compact_summary = true;
        return false;
    }
    if is_typed {
        let mut injected = is_injected.into_iter();
        entry.blocks.retain(|_| !injected.next().unwrap_or_default());
    } else {
        entry.marks.is_meta |= marks.is_interrupt || is_injected.contains(&true);
    }
    entry.marks.is_interrupt |= marks.is_interrupt;
    is_typed
}

/// Adds the output files and started sub-agents that `toolUseResult` and the previews name.
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
    // `toolUseResult` belongs to exactly one result.
    let [only] = &mut results[..] else { return };
    if let Some(path) = result.persisted_output_path {
        let name = base_name(&path);
        if !name.is_empty() {
            only.output_file = Some(Cow::Owned(name.to_owned()));
        }
    }
    if let Some(agent_id) = non_empty(result.agent_id)
        && let Some(call) = only.call_id.clone()
    {
        entry.facts.push(SessionFact::Spawned { call, agent_id });
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
    fn output_files_are_known_by_base_name_on_any_system() {
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
