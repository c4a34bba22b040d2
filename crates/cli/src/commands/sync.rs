//! `quipu sync`: collect once.

use quipu_ledger::wire::SyncReport;
use quipu_ledger::{Ledger, Progress, collect};
use quipu_transcript::format;

use super::Context;
use crate::error::Result;
use crate::output::{Look, Text, bytes, count, number};

/// Collect everything new into the ledger
///
/// Reads what was written since the last time, and nothing else. Files that
/// were rewritten, renamed or deleted lose nothing that was collected before.
/// It can be interrupted at any time and run from cron: what is in the ledger
/// is complete, the rest follows with the next run.
///
/// Example:
///   quipu sync --json | jq .records_added
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, context: &mut Context) -> Result<()> {
    let mut ledger = context.open_to_collect()?;
    let report = gather(context, &mut ledger)?;
    if context.is_json {
        context.output.json(&report)?;
    } else if !context.output.is_quiet() {
        if report.sources == 0 && ledger.is_empty()? {
            nothing_found(context)?;
        } else {
            context.output.facts(0, &summary(&report))?;
        }
    }
    Ok(())
}

/// Collects, showing how far it is.
pub(super) fn gather(context: &Context, ledger: &mut Ledger) -> Result<SyncReport> {
    let mut bar = context.output.bar();
    let report = collect(ledger, &context.roots(), &mut |progress| match progress {
        Progress::Planned { bytes, .. } => bar.plan_bytes("collecting", bytes),
        Progress::Stored { bytes } => bar.advance(bytes),
        Progress::Rebuilding { done, total } => bar.records("rebuilding", done, total),
    })?;
    tracing::info!(
        sources = report.sources,
        changed = report.sources_changed,
        records = report.records_added,
        bytes = report.bytes_read,
        "Collected."
    );
    Ok(report)
}

/// What a sync did, for people.
pub(super) fn summary(report: &SyncReport) -> Vec<(&'static str, Text)> {
    let mut facts = Vec::new();
    let files = count(report.sources, "file");
    if report.sources_changed == 0 {
        facts.push(("collected", Text::plain(format!("nothing new in {files}"))));
    } else {
        let new = match report.sources_added {
            0 => String::new(),
            new if new == report.sources_changed => ", all new".to_owned(),
            new => format!(", {} of them new", number(new)),
        };
        let of = match report.sources_changed {
            changed if changed == report.sources => files,
            changed => format!("{} of {files}", number(changed)),
        };
        let collected = Text::of(Look::Good, count(report.records_added, "record"))
            .and(format!(" ({}) from {of}{new}", bytes(report.bytes_read),));
        facts.push(("collected", collected));
    }
    let noticed: Vec<String> =
        [(report.rewritten, "rewritten"), (report.renamed, "renamed"), (report.gone, "gone")]
            .into_iter()
            .filter(|(files, _)| *files > 0)
            .map(|(files, what)| format!("{} {what}", number(files)))
            .collect();
    if !noticed.is_empty() {
        let noticed = format!("{}; what they held before is kept", noticed.join(", "));
        facts.push(("files", Text::plain(noticed)));
    }
    for (skipped, why) in report.unreadable() {
        let whose = format::by_name(&skipped.format).map_or("", |format| format.title());
        let first = match skipped.paths.first().map(String::as_str) {
            None | Some(".") => format!("{whose}'s folder"),
            Some(path) => format!("{whose}'s {path}"),
        };
        let more = match skipped.files {
            1 => String::new(),
            files => format!(" and {} more", number(files - 1)),
        };
        let unread = Text::of(Look::Warning, format!("{first}{more}")).and(format!(": {why}"));
        facts.push(("not read", unread));
    }
    if report.problems > 0 {
        let problems = Text::of(Look::Warning, count(report.problems, "problem"))
            .and(" noted; see `quipu status`");
        facts.push(("odd", problems));
    }
    facts
}

/// Says where it looked and what to do, when there is nothing to collect.
pub(super) fn nothing_found(context: &mut Context) -> Result<()> {
    let roots = context.settings.roots.clone();
    let titles: Vec<&str> = roots.iter().map(|roots| roots.format.title()).collect();
    let variables: Vec<&str> =
        roots.iter().flat_map(|roots| roots.format.roots()).map(|root| root.env).collect();
    let mut looked = Vec::new();
    for roots in &roots {
        let mut label = roots.format.title();
        for path in &roots.paths {
            let state = if path.is_dir() { "nothing to collect in it" } else { "not there" };
            let place = Text::plain(context.show(path)).with(Look::Dim, format!("  {state}"));
            looked.push((std::mem::take(&mut label), place));
        }
        if roots.paths.is_empty() {
            looked.push((label, Text::of(Look::Dim, "nowhere")));
        }
    }
    let config = context.settings.config.as_ref().map(|config| context.show(&config.value));
    let example = roots.first().map_or("", |roots| roots.format.name());
    let out = &mut context.output;
    out.line(
        Text::of(Look::Bold, "Nothing to collect yet.")
            .and(format!(" quipu looked for files of {}:", titles.join(" and "))),
    )?;
    out.gap()?;
    out.facts(2, &looked)?;
    out.gap()?;
    out.line(format!(
        "If they are elsewhere, set {}, or name their folders in {}:",
        variables.join(" or "),
        config.as_deref().unwrap_or("a file given with --config"),
    ))?;
    out.gap()?;
    out.line("  [roots]")?;
    out.line(format!("  {example} = [\"/path/to/folder\"]"))?;
    Ok(())
}
