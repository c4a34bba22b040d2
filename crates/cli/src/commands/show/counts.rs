//! Counts of a session's story.

use quipu_ledger::query::Story;
use quipu_ledger::wire::StoryCounts;

use crate::commands::Context;
use crate::error::Result;
use crate::output::{Style, Text, number};
use crate::reading::Reading;

pub(super) fn show(
    story: &Story<'_>,
    counts: &StoryCounts,
    reading: &Reading,
    context: &mut Context,
) -> Result<()> {
    if context.is_json {
        return reading.json(context, counts);
    }
    let head = story.head();
    let width = context.output.width().unwrap_or(usize::MAX);
    context.output.line(Text::styled(Style::Bold, super::page::title(head, width)))?;
    let all = [
        ("turns", counts.turns, Style::Plain),
        ("entries", counts.entries, Style::Plain),
        ("user messages", counts.user_entries, Style::Plain),
        ("agent messages", counts.assistant_entries, Style::Plain),
        ("tool calls", counts.tool_calls, Style::Plain),
        ("tool results", counts.tool_results, Style::Plain),
        ("✗ failed", counts.failed_results, Style::Bad),
        ("! mentions", counts.results_mentioning_errors, Style::Warning),
        ("sub-agents", counts.subagents, Style::Plain),
        ("images", counts.images, Style::Plain),
        ("compactions", counts.compactions, Style::Plain),
        ("rewinds", counts.rewinds, Style::Plain),
        ("interrupted", counts.interrupts, Style::Plain),
        ("API errors", counts.api_errors, Style::Bad),
    ];
    // The first rows are always shown, the others only if they are not 0.
    let facts: Vec<(&str, Text)> = all
        .into_iter()
        .enumerate()
        .filter(|(index, (_, count, _))| *index < 6 || *count > 0)
        .map(|(_, (label, count, style))| (label, Text::styled(style, number(count))))
        .collect();
    Ok(context.output.facts(2, &facts)?)
}
