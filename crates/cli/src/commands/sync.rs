//! `quipu sync`: collect once.

use quipu_ledger::wire::{SkippedFiles, SyncReport};
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
            nothing_found(context, Some(&report))?;
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
    let mut facts = vec![("collected", collected(report))];
    let noticed: Vec<String> =
        [(report.rewritten, "rewritten"), (report.renamed, "renamed"), (report.gone, "gone")]
            .into_iter()
            .filter(|(sources, _)| *sources > 0)
            .map(|(sources, what)| format!("{} {what}", number(sources)))
            .collect();
    if !noticed.is_empty() {
        let noticed = format!("{}; what they held before is kept", noticed.join(", "));
        facts.push(("noticed", Text::plain(noticed)));
    }
    for (skipped, why) in report.unreadable() {
        facts.push(("not read", said_of(skipped, why)));
    }
    for skipped in report.outside() {
        let why = "a link that leaves its root, not followed; `quipu doctor` says what to do";
        facts.push(("not read", said_of(skipped, why)));
    }
    for skipped in report.nowhere() {
        facts.push(("not read", said_of(skipped, "a link that leads nowhere")));
    }
    for (skipped, why) in report.damaged() {
        facts.push(("damaged", said_of(skipped, why)));
    }
    for (skipped, what) in report.odd() {
        facts.push(("warning", said_of(skipped, what)));
    }
    for warning in &report.warnings {
        facts.push(("warning", said_of(warning, &warning.reason)));
    }
    if report.problems > 0 {
        let problems = Text::of(Look::Warning, count(report.problems, "problem"))
            .and(" noted; see `quipu status`");
        facts.push(("odd", problems));
    }
    facts
}

/// How much is new, and where it was.
fn collected(report: &SyncReport) -> Text {
    // What changed while it was read was looked at again, and is counted again.
    let changed = report.sources_changed.min(report.sources);
    let all_changed = changed == report.sources;
    let mut places = Vec::new();
    let files = report.sources - report.database_sources.min(report.sources);
    if files > 0 || report.database_sources == 0 {
        let on_disk = if all_changed { "" } else { " on disk" };
        places.push(format!("{}{on_disk}", count(files, "file")));
    }
    if report.database_sources > 0 {
        places.push(format!("{} in databases", count(report.database_sources, "transcript")));
    }
    let places = places.join(" and ");
    if report.sources_changed == 0 {
        return Text::plain(format!("nothing new in {places}"));
    }
    let of = if all_changed { places } else { format!("{} of {places}", number(changed)) };
    let read = bytes(report.bytes_read);
    // An index, or a note that is as it once was, changes without a new record.
    if report.records_added == 0 {
        return Text::plain(match report.bytes_read {
            0 => format!("no new records; looked into {of}"),
            _ => format!("no new records; {read} changed in {of}"),
        });
    }
    let new = match report.sources_added {
        0 => String::new(),
        new if new >= changed => ", all new".to_owned(),
        new => format!(", {} of them new", number(new)),
    };
    Text::of(Look::Good, count(report.records_added, "record"))
        .and(format!(" ({read}) from {of}{new}"))
}

/// What is said of some files: the first one, how many more, and why.
fn said_of(files: &SkippedFiles, why: &str) -> Text {
    let whose = format::by_name(&files.format).map_or("", |format| format.title());
    let first = match files.paths.first().map(String::as_str) {
        None | Some(".") => format!("{whose}'s folder"),
        Some(path) => format!("{whose}'s {path}"),
    };
    let more = match files.all() {
        1 => String::new(),
        // What has no name of its own has that of the database that it is in.
        times if files.paths.len() == 1 => format!(" ({} times)", number(times)),
        files => format!(" and {} more", number(files - 1)),
    };
    Text::of(Look::Warning, format!("{first}{more}")).and(format!(": {why}"))
}

/// Says where it looked and what to do, when there is nothing to collect.
pub(super) fn nothing_found(context: &mut Context, report: Option<&SyncReport>) -> Result<()> {
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
    let link = report.and_then(|report| Link::first(context, report));
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
    if let Some(Link { name, link, root, target }) = link {
        out.line(
            Text::of(Look::Warning, link)
                .and(format!(" leads out of {root} to {target}, and is not followed.")),
        )?;
        let config = config.as_deref().unwrap_or("a file given with --config");
        out.line(format!("To collect what is there, name both in {config}:"))?;
        out.gap()?;
        out.line("  [roots]")?;
        return Ok(out.line(format!("  {name} = [{root:?}, {target:?}]"))?);
    }
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

/// A link to a folder elsewhere, which kept something from being collected.
struct Link {
    /// The format whose root it is in.
    name: &'static str,
    link: String,
    root: String,
    target: String,
}

impl Link {
    fn first(context: &Context, report: &SyncReport) -> Option<Link> {
        for skipped in report.outside() {
            for roots in &context.settings.roots {
                let places = roots.paths.iter().filter(|_| roots.format.name() == skipped.format);
                for (root, path) in
                    places.flat_map(|root| skipped.paths.iter().map(move |p| (root, p)))
                {
                    let link = root.join(path);
                    if let Ok(target) = link.canonicalize()
                        && target.is_dir()
                    {
                        return Some(Link {
                            name: roots.format.name(),
                            link: context.show(link),
                            root: context.show(root),
                            target: context.show(target),
                        });
                    }
                }
            }
        }
        None
    }
}
