//! `quipu` without a command: collects, then prints a short overview of the ledger.

mod calendar;

use quipu_ledger::wire::{FormatStatus, Overview, Status, SyncReport};
use quipu_ledger::{Ledger, Trouble};

use super::{Context, status, sync};
use crate::error::Result;
use crate::output::{Column, Style, Text, bytes, count, ledger_ratio, number, sessions};
use crate::reading;

pub(super) fn run(context: &mut Context) -> Result<()> {
    let mut ledger = match context.open_to_collect() {
        Err(error) if matches!(error.trouble(), Some(Trouble::ReadOnly | Trouble::DiskFull)) => {
            return print_read_only(context);
        }
        opened => opened?,
    };
    let report = sync::collect_with_progress(context, &mut ledger)?;
    if report.sources_changed > 0 {
        // Otherwise new data would be in the write-ahead log, and missing in the ledger's size.
        ledger.checkpoint()?;
    }
    let status = quipu_ledger::status::status(&ledger, &context.roots())?;
    if context.is_json {
        context.output.json(&Overview { sync: Some(&report), status: &status })?;
        return Ok(());
    }
    let holds_nothing = status.ledger.records == 0;
    if report.sources == 0 && holds_nothing {
        return sync::nothing_found(context, Some(&report));
    }
    show(context, Some(&report), &status, &ledger)
}

/// Prints the overview of a ledger that is read-only.
fn print_read_only(context: &mut Context) -> Result<()> {
    let reading = reading::open(context, reading::Args::default())?;
    let status = quipu_ledger::status::status(&reading.ledger, &context.roots())?;
    if context.is_json {
        context.output.json(&Overview { sync: None, status: &status })?;
        return Ok(());
    }
    show(context, None, &status, &reading.ledger)
}

fn show(
    context: &mut Context,
    report: Option<&SyncReport>,
    status: &Status,
    ledger: &Ledger,
) -> Result<()> {
    let sum = |field: fn(&FormatStatus) -> u64| status.formats.iter().map(field).sum::<u64>();
    let kept = if status.keeps_everything() { "every byte stored" } else { "stored" };
    let mut places = Vec::new();
    let (files, databases) = (sum(|format| format.sources), sum(|format| format.databases));
    if files > 0 || databases == 0 {
        places.push(count(files, "file"));
    }
    if databases > 0 {
        places.push(count(databases, "database"));
    }
    let sessions = sessions(sum(|format| format.sessions), sum(|format| format.subagents));
    let headline = format!("{sessions} in {}, {kept}", places.join(" and "));
    let facts = facts(context, report, status);
    let out = &mut context.output;
    out.line(Text::styled(Style::Bold, headline))?;
    out.gap()?;
    out.table(2, &COLUMNS, status.formats.iter().map(row).collect())?;
    out.gap()?;
    calendar::show(context, ledger)?;
    let out = &mut context.output;
    out.facts(2, &facts)?;
    if !out.is_quiet() {
        out.gap()?;
        out.facts(
            2,
            &[
                ("quipu search", Text::plain("search all text, tool results included")),
                ("quipu sessions", Text::plain("list sessions, the newest first")),
                ("quipu usage", Text::plain("tokens and cost, by day")),
                ("quipu status", Text::plain("files that are left out and why, and problems")),
                ("quipu --help", Text::plain("all commands")),
            ],
        )?;
    }
    Ok(())
}

const COLUMNS: [Column; 5] = [
    Column::words(""),
    Column::numbers("sessions"),
    Column::numbers("sub-agents"),
    Column::numbers("records"),
    Column::numbers("size"),
];

fn row(format: &FormatStatus) -> Vec<Text> {
    let is_empty = format.sources == 0 && format.databases == 0;
    let style = if is_empty { Style::Dim } else { Style::Plain };
    let number = |value| Text::styled(style, number(value));
    vec![
        Text::styled(style, &format.product),
        number(format.sessions),
        number(format.subagents),
        number(format.records),
        Text::styled(style, bytes(format.bytes)),
    ]
}

fn facts(
    context: &Context,
    report: Option<&SyncReport>,
    status: &Status,
) -> Vec<(&'static str, Text)> {
    let source_bytes = status.formats.iter().map(|format| format.bytes).sum();
    let mut size = bytes(status.ledger.bytes);
    if let Some(ratio) = ledger_ratio(status.ledger.bytes, source_bytes) {
        size = format!("{size}, {ratio} × the size of the sources");
    }
    let mut facts =
        vec![("ledger", context.linked(&status.ledger.path)), ("", Text::styled(Style::Dim, size))];
    let collected = report.map(|report| sync::summary(report, &context.shell)).unwrap_or_default();
    facts.extend(collected.into_iter().filter(|(label, _)| *label != "problems"));
    let sessions = |state: &str| -> u64 {
        status.formats.iter().filter_map(|format| format.sessions_by_state.get(state)).sum()
    };
    if sessions("gone") > 0 {
        let sessions = count(sessions("gone"), "session");
        let gone = format!("{sessions} no longer on disk; kept in the ledger");
        facts.push(("gone", Text::styled(Style::Good, gone)));
    }
    if sessions("lost") > 0 {
        let sessions = count(sessions("lost"), "session");
        let lost = format!("{sessions} whose transcript was gone before the first sync");
        facts.push(("lost", Text::styled(Style::Warning, lost)));
    }
    for format in &status.formats {
        if let Some(oldest) =
            format.oldest_transcript.as_ref().filter(|oldest| oldest.left_days.is_some())
        {
            facts.push(("oldest", status::oldest(&format.product, oldest)));
        }
    }
    let problems: u64 = status.problems_by_kind.values().sum();
    if problems > 0 {
        let lost = if status.keeps_everything() { "; nothing was lost" } else { "" };
        let problems = Text::styled(Style::Warning, count(problems, "problem"))
            .and(context.shell.sentence(&format!(" in source files{lost}; see `quipu problems`")));
        facts.push(("problems", problems));
    }
    facts
}
