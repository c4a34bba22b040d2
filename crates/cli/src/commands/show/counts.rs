//! What a story is made of, in numbers.

use quipu_ledger::Story;
use quipu_ledger::wire::StoryCounts;

use crate::commands::Context;
use crate::error::Result;
use crate::output::{Look, Text, number};
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
    context.output.line(Text::of(Look::Bold, super::page::title(head, width)))?;
    let all = [
        ("turns", counts.turns, Look::Plain),
        ("entries", counts.entries, Look::Plain),
        ("user's words", counts.user, Look::Plain),
        ("agent's words", counts.assistant, Look::Plain),
        ("tool calls", counts.tool_calls, Look::Plain),
        ("answers", counts.tool_results, Look::Plain),
        ("✗ failed", counts.errors, Look::Bad),
        ("! mentions", counts.mentions, Look::Warning),
        ("sub-agents", counts.subagents, Look::Plain),
        ("pictures", counts.images, Look::Plain),
        ("compactions", counts.compactions, Look::Plain),
        ("went back", counts.rewinds, Look::Plain),
        ("interrupted", counts.interrupts, Look::Plain),
        ("API errors", counts.api_errors, Look::Bad),
    ];
    // What is there always, and the rest where there is any.
    let facts: Vec<(&str, Text)> = all
        .into_iter()
        .enumerate()
        .filter(|(index, (_, count, _))| *index < 6 || *count > 0)
        .map(|(_, (label, count, look))| (label, Text::of(look, number(count))))
        .collect();
    Ok(context.output.facts(2, &facts)?)
}
