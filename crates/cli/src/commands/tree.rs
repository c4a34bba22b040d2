//! `quipu tree`: where a session forked, and what became of each way.

use std::collections::{HashMap, HashSet};

use quipu_ledger::Story;
use quipu_ledger::wire::TreeLine;
use quipu_transcript::render::GAP;
use quipu_transcript::story::one_line;

use super::Context;
use super::show::page;
use crate::error::Result;
use crate::output::{Look, ShortIds, Text, WIDEST_IN_PIPE, count, number};
use crate::reading;

/// Show a session's tree: branches, forks, compactions, labels, sub-agents
///
/// Runs of entries that no fork interrupts are one line, with the last entry's id,
/// which `quipu show --branch` takes. `@` is where the next entry attaches; what
/// was left behind stands aside. Tool calls that were made together are no fork.
/// What it was forked from stands at the top, what was forked from it where that
/// was. `--json` prints one object per line of the tree.
///
/// SESSION is the beginning of an id, a session key, or `last`.
///
/// Examples:
///   quipu tree last
///   quipu show 640ab4c7 --branch 3fa9c1d2
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "SESSION", allow_hyphen_values = true)]
    session: String,

    #[command(flatten)]
    reading: reading::Args,
}

/// Deeper branches are not indented any further.
const DEEPEST: usize = 8;

/// A text is at most so wide in a pipe.
const WIDEST: usize = 100;

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let reading = reading::open(context, args.reading)?;
    let session = reading.name(context, &args.session)?;
    let lines = quipu_ledger::tree(&reading.ledger, &session)?;
    if context.is_json {
        for line in &lines {
            reading.json(context, line)?;
        }
        return Ok(());
    }
    context.output.page()?;
    let story = Story::find(&reading.ledger, &session)?;
    let width = context.output.width().unwrap_or(WIDEST_IN_PIPE);
    context.output.line(Text::of(Look::Bold, page::title(story.head(), width)))?;
    context.output.line(Text::of(Look::Dim, &story.head().id))?;
    context.output.gap()?;
    let ids = reading.short_ids()?;
    let clashes = clashes(&lines);
    let mut depth = 0;
    for (index, line) in lines.iter().enumerate() {
        let begins_branch = line.depth > depth
            || (line.depth > 0 && line.parent.is_some_and(|parent| parent < index));
        if begins_branch && line.depth > 0 && !matches!(line.kind, "subagent" | "fork") {
            let stem = "│ ".repeat((line.depth - 1).min(DEEPEST));
            context.output.laid_out(&Text::of(Look::Dim, format!("{stem}├─╮")))?;
        } else if line.missing_parent.is_some() {
            let stem = "│ ".repeat(line.depth.min(DEEPEST));
            let gap = Text::of(Look::Dim, format!("{stem}⋯  {GAP}"));
            let width = context.output.width().unwrap_or(WIDEST_IN_PIPE);
            context.output.laid_out(&gap.shorten(width))?;
        } else if index > 0 && line.parent.is_none() && line.kind == "run" {
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
        context.output.line(Text::of(Look::Dim, "nothing was said"))?;
    }
    Ok(())
}

/// One line: the stems of the ways that go on beside it, its mark, and what it is.
fn draw(line: &TreeLine, ids: &ShortIds, clashes: &HashSet<String>) -> Text {
    let look = if line.current { Look::Plain } else { Look::Dim };
    let stems = "│ ".repeat(line.depth.min(DEEPEST));
    let start = Text::of(Look::Dim, stems);
    if line.kind == "subagent" {
        return agent(line, ids, start);
    }
    if matches!(line.kind, "fork" | "forked_from") {
        return fork(line, ids, clashes, start);
    }
    let mark = match line.kind {
        _ if line.leaf => Text::of(Look::Good, "@"),
        "run" => Text::of(look, "○"),
        "label" => Text::of(Look::Warning, "★"),
        "sidechain" => Text::of(Look::Dim, "↳"),
        _ => Text::of(Look::Accent, "◆"),
    };
    let mut shown = start.join(mark).and("  ");
    if let Some(last) = &line.last {
        shown = shown.with(Look::Code, told(last, clashes)).and("  ");
    }
    let said = match line.kind {
        "run" => counts(line),
        "compaction" => match line.tokens {
            Some((Some(before), Some(after))) => {
                format!("compacted, {} → {} tokens", number(before), number(after))
            }
            Some((Some(before), None)) => format!("compacted, {} tokens", number(before)),
            _ => "compacted".to_owned(),
        },
        "branch_summary" => "summary of a branch that was left".to_owned(),
        "reset" => "the context was reset".to_owned(),
        "label" => "label".to_owned(),
        "sidechain" => format!("{} of sub-agents in this file", entries(line.entries)),
        other => other.to_owned(),
    };
    shown = shown.with(Look::Dim, said);
    if line.leaf {
        shown = shown.with(Look::Good, ", leaf");
    }
    if let Some(text) = &line.text {
        shown = shown.and("  ").with(look, one_line(text, WIDEST));
    }
    shown
}

/// Where a session comes from, or where it went on as another one.
fn fork(line: &TreeLine, ids: &ShortIds, clashes: &HashSet<String>, start: Text) -> Text {
    let session = line.session.as_deref().unwrap_or_default();
    let (stem, said) = match line.kind {
        "fork" => ("│  ⑂ ", "forked into "),
        _ => ("⑂  ", "forked from "),
    };
    let mut shown = start.with(Look::Dim, stem).with(Look::Dim, said);
    shown = shown.with(Look::Code, ids.of(session));
    if let Some(last) = &line.last {
        shown = shown.with(Look::Dim, " at ").with(Look::Code, told(last, clashes));
    }
    shown
}

/// As much of an entry's id as tells it from the others.
fn told(id: &str, clashes: &HashSet<String>) -> String {
    let beginning = short(id);
    if clashes.contains(&beginning) { id.to_owned() } else { beginning }
}

fn agent(line: &TreeLine, ids: &ShortIds, start: Text) -> Text {
    let stem = Text::of(Look::Dim, format!("│  {}↳ ", "  ".repeat(line.nested.min(DEEPEST))));
    let mut shown = start.join(stem);
    if let Some(session) = &line.session {
        shown = shown.with(Look::Code, ids.of(session)).and("  ");
    }
    let kind = line.agent_type.as_deref().map(|kind| format!("{kind}, ")).unwrap_or_default();
    shown = shown.with(Look::Dim, format!("{kind}{}", counts(line)));
    if let Some(text) = &line.text {
        shown = shown.and("  ").with(Look::Dim, one_line(text, WIDEST));
    }
    shown
}

fn counts(line: &TreeLine) -> String {
    let mut said = entries(line.entries);
    if line.turns > 0 {
        said.push_str(&format!(", {}", count(line.turns, "turn")));
    }
    said
}

fn entries(count: u64) -> String {
    format!("{} {}", number(count), if count == 1 { "entry" } else { "entries" })
}

/// Beginnings of ids that are not enough, because several entries share them.
fn clashes(lines: &[TreeLine]) -> HashSet<String> {
    let mut ids: HashMap<String, &str> = HashMap::new();
    let mut clashes = HashSet::new();
    for id in lines.iter().filter_map(|line| line.last.as_deref()) {
        if ids.insert(short(id), id).is_some_and(|other| other != id) {
            clashes.insert(short(id));
        }
    }
    clashes
}

/// As much of an entry's id as people need.
fn short(id: &str) -> String {
    id.chars().take(8).collect()
}
