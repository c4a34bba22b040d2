//! `quipu tree`: the branches of a session.

use std::collections::{HashMap, HashSet};

use quipu_ledger::query::Story;
use quipu_ledger::wire::TreeLine;
use quipu_transcript::render::GAP;
use quipu_transcript::story::one_line;

use super::Context;
use super::show::page;
use crate::error::Result;
use crate::output::{ShortIds, Style, Text, WIDEST_IN_PIPE, count, number};
use crate::reading;

/// Show a session's tree: branches, forks, compactions, labels, sub-agents
///
/// Entries without a branch between them are one line, with the id of the last
/// entry; `quipu show --branch ID` shows the path to it. `@` marks the leaf, where the next
/// entry attaches; abandoned branches are indented. Parallel tool calls are not a
/// branch. The session that this one was forked from is at the top; forks of it
/// are shown where they begin. `--json` prints one object per line of the tree.
///
/// SESSION is an id or the beginning of one, a session key, or `last`.
///
/// Examples:
///   quipu tree last
///   quipu show b20f --branch 9aff9ee1
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The session to show
    #[arg(value_name = "SESSION", allow_hyphen_values = true)]
    session: String,

    #[command(flatten)]
    reading: reading::Args,
}

/// Depth after which branches are not indented further.
const MAX_INDENTS: usize = 8;

/// Limit for the width of an entry's text, in columns.
const MAX_TEXT_WIDTH: usize = 100;

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let reading = reading::open(context, args.reading)?;
    let session = reading.name(context, &args.session)?;
    let lines = quipu_ledger::query::tree(&reading.ledger, &session)?;
    if context.is_json {
        for line in &lines {
            reading.json(context, line)?;
        }
        return Ok(());
    }
    context.output.page()?;
    let story = Story::find(&reading.ledger, &session)?;
    let width = context.output.width().unwrap_or(WIDEST_IN_PIPE);
    context.output.line(Text::styled(Style::Bold, page::title(story.head(), width)))?;
    let id = &story.head().session_id;
    context.output.laid_out(&context.linked_id(&reading.ledger, Some(story.row()), id))?;
    context.output.gap()?;
    let ids = reading.short_ids()?;
    let clashes = clashes(&lines);
    let mut depth = 0;
    for (index, line) in lines.iter().enumerate() {
        let begins_branch = line.depth > depth
            || (line.depth > 0 && line.parent_node.is_some_and(|parent| parent < index));
        if begins_branch && line.depth > 0 && !matches!(line.kind, "subagent" | "fork") {
            let stem = "│ ".repeat((line.depth - 1).min(MAX_INDENTS));
            context.output.laid_out(&Text::styled(Style::Dim, format!("{stem}├─╮")))?;
        } else if line.missing_parent_id.is_some() {
            let stem = "│ ".repeat(line.depth.min(MAX_INDENTS));
            let gap = Text::styled(Style::Dim, format!("{stem}⋯  {GAP}"));
            let width = context.output.width().unwrap_or(WIDEST_IN_PIPE);
            context.output.laid_out(&gap.shorten(width))?;
        } else if index > 0 && line.parent_node.is_none() && line.kind == "run" {
            context.output.gap()?;
        }
        depth = line.depth;
        let shown = draw(line, &ids, &clashes);
        let shown = match context.output.width() {
            Some(width) => shown.shorten(width),
            None => shown,
        };
        context.output.laid_out(&shown)?;
    }
    if lines.is_empty() {
        context.output.line(Text::styled(Style::Dim, "no messages"))?;
    }
    Ok(())
}

/// Formats one line: the stems of the branches beside it, its mark, and its text.
fn draw(line: &TreeLine, ids: &ShortIds, clashes: &HashSet<String>) -> Text {
    let style = if line.is_current { Style::Plain } else { Style::Dim };
    let stems = "│ ".repeat(line.depth.min(MAX_INDENTS));
    let start = Text::styled(Style::Dim, stems);
    if line.kind == "subagent" {
        return subagent(line, ids, start);
    }
    if matches!(line.kind, "fork" | "forked_from") {
        return fork(line, ids, clashes, start);
    }
    let mark = match line.kind {
        _ if line.is_leaf => Text::styled(Style::Good, "@"),
        "run" => Text::styled(style, "○"),
        "label" => Text::styled(Style::Warning, "★"),
        "sidechain" => Text::styled(Style::Dim, "↳"),
        _ => Text::styled(Style::Accent, "◆"),
    };
    let mut shown = start.join(mark).and("  ");
    if let Some(last) = &line.last_entry_id {
        shown = shown.with(Style::Code, unique_id(last, clashes)).and("  ");
    }
    let description = match line.kind {
        "run" => counts(line),
        "compaction" => match (line.tokens_before, line.tokens_after) {
            (Some(before), Some(after)) => {
                format!("compacted, {} → {} tokens", number(before), number(after))
            }
            (Some(before), None) => format!("compacted, {} tokens", number(before)),
            _ => "compacted".to_owned(),
        },
        "branch_summary" => "summary of an abandoned branch".to_owned(),
        "reset" => "the context was reset".to_owned(),
        "label" => "label".to_owned(),
        "sidechain" => format!("{} of sub-agents in this file", entries(line.entries)),
        other => other.to_owned(),
    };
    shown = shown.with(Style::Dim, description);
    if line.is_leaf {
        shown = shown.with(Style::Good, ", leaf");
    }
    if let Some(text) = &line.text {
        shown = shown.and("  ").with(style, one_line(text, MAX_TEXT_WIDTH));
    }
    shown
}

/// Formats the session that this one was forked from, or a fork of it.
fn fork(line: &TreeLine, ids: &ShortIds, clashes: &HashSet<String>, start: Text) -> Text {
    let session = line.session_id.as_deref().unwrap_or_default();
    let (stem, description) = match line.kind {
        "fork" => ("│  ⑂ ", "forked into "),
        _ => ("⑂  ", "forked from "),
    };
    let mut shown = start.with(Style::Dim, stem).with(Style::Dim, description);
    shown = shown.with(Style::Code, ids.of(session));
    if let Some(last) = &line.last_entry_id {
        shown = shown.with(Style::Dim, " at ").with(Style::Code, unique_id(last, clashes));
    }
    shown
}

/// Shortens an entry's id as far as it stays unique.
fn unique_id(id: &str, clashes: &HashSet<String>) -> String {
    let beginning = short(id);
    if clashes.contains(&beginning) { id.to_owned() } else { beginning }
}

fn subagent(line: &TreeLine, ids: &ShortIds, start: Text) -> Text {
    let stem =
        Text::styled(Style::Dim, format!("│  {}↳ ", "  ".repeat(line.nested.min(MAX_INDENTS))));
    let mut shown = start.join(stem);
    if let Some(session) = &line.session_id {
        shown = shown.with(Style::Code, ids.of(session)).and("  ");
    }
    let kind = line.agent_type.as_deref().map(|kind| format!("{kind}, ")).unwrap_or_default();
    shown = shown.with(Style::Dim, format!("{kind}{}", counts(line)));
    if let Some(text) = &line.text {
        shown = shown.and("  ").with(Style::Dim, one_line(text, MAX_TEXT_WIDTH));
    }
    shown
}

fn counts(line: &TreeLine) -> String {
    let mut description = entries(line.entries);
    if line.turns > 0 {
        description.push_str(&format!(", {}", count(line.turns, "turn")));
    }
    description
}

fn entries(count: u64) -> String {
    format!("{} {}", number(count), if count == 1 { "entry" } else { "entries" })
}

/// Returns the beginnings of ids that several entries share.
fn clashes(lines: &[TreeLine]) -> HashSet<String> {
    let mut ids: HashMap<String, &str> = HashMap::new();
    let mut clashes = HashSet::new();
    for id in lines.iter().filter_map(|line| line.last_entry_id.as_deref()) {
        if ids.insert(short(id), id).is_some_and(|other| other != id) {
            clashes.insert(short(id));
        }
    }
    clashes
}

/// Returns the beginning of an entry's id.
fn short(id: &str) -> String {
    id.chars().take(8).collect()
}
