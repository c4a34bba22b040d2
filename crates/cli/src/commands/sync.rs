//! `quipu sync`: collects once.

use quipu_ledger::Ledger;
use quipu_ledger::collect::{Progress, collect};
use quipu_ledger::wire::{SkippedFiles, SyncReport};
use quipu_transcript::format;

use super::Context;
use crate::error::Result;
use crate::output::{Style, Text, bytes, count, number};
use crate::reading::Reading;
use crate::shell::Shell;

/// Collect everything new into the ledger
///
/// Reads only what was written since the last sync. If a file was rewritten,
/// renamed or deleted, everything collected from it before stays in the ledger.
/// A sync can be interrupted at any time and can run from cron: what is stored
/// is complete, and the next sync collects the rest.
///
/// Example:
///   quipu sync --json | jq .records_added
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, context: &mut Context) -> Result<()> {
    let mut ledger = context.open_to_collect()?;
    let report = collect_with_progress(context, &mut ledger)?;
    if context.is_json {
        context.output.json(&report)?;
    } else if !context.output.is_quiet() {
        let is_nothing = report.sources == 0 && report.unreadable().next().is_none();
        if is_nothing && ledger.is_empty()? {
            nothing_found(context, Some(&report))?;
        } else {
            let facts = summary(&report, &context.shell);
            context.output.facts(0, &facts)?;
        }
    }
    Ok(())
}

/// Collects and shows progress.
pub(super) fn collect_with_progress(context: &Context, ledger: &mut Ledger) -> Result<SyncReport> {
    let mut bar = context.output.bar();
    let report = collect(ledger, &context.roots(), &mut |progress| match progress {
        Progress::Planned { bytes, .. } => bar.plan_bytes("collecting", bytes),
        Progress::Done { bytes } => bar.advance(bytes),
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

/// Returns a summary of a sync for people.
pub(super) fn summary(report: &SyncReport, shell: &Shell) -> Vec<(&'static str, Text)> {
    let mut facts = vec![("collected", collected(report))];
    let noticed: Vec<String> = [
        (report.rewritten_sources, "rewritten"),
        (report.renamed_sources, "renamed"),
        (report.gone_sources, "gone"),
    ]
    .into_iter()
    .filter(|(sources, _)| *sources > 0)
    .map(|(sources, what)| format!("{} {what}", number(sources)))
    .collect();
    if !noticed.is_empty() {
        let noticed = format!("{}; their old contents are kept", noticed.join(", "));
        facts.push(("files", Text::plain(noticed)));
    }
    for (skipped, why) in report.unreadable() {
        facts.push(("not read", describe_files(skipped, why)));
    }
    for skipped in report.outside() {
        let why = shell.sentence("a link out of its root, not followed; see `quipu doctor`");
        facts.push(("not read", describe_files(skipped, &why)));
    }
    for skipped in report.nowhere() {
        facts.push(("not read", describe_files(skipped, "a broken link")));
    }
    for skipped in report.not_files() {
        facts.push(("not read", describe_files(skipped, &skipped.reason)));
    }
    for (skipped, why) in report.damaged() {
        facts.push(("damaged", describe_files(skipped, why)));
    }
    for (skipped, what) in report.odd() {
        facts.push(("warning", describe_files(skipped, what)));
    }
    for warning in &report.warnings {
        facts.push(("warning", describe_files(warning, &warning.reason)));
    }
    if report.problems > 0 {
        let lost = if report.damaged().next().is_none() { "; nothing was lost" } else { "" };
        let problems = Text::styled(Style::Warning, count(report.problems, "problem"))
            .and(shell.sentence(&format!(" in source files{lost}; see `quipu problems`")));
        facts.push(("problems", problems));
    }
    facts
}

/// Describes how much is new, and in which files.
fn collected(report: &SyncReport) -> Text {
    // A file that changed while it was read was planned and counted twice.
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
    let sources = match (all_changed, files > 0 && report.database_sources > 0) {
        (true, _) => places,
        (false, false) => format!("{} of {places}", number(changed)),
        (false, true) => {
            format!("{} of {} ({places})", number(changed), count(report.sources, "source"))
        }
    };
    let read = bytes(report.bytes_read);
    // An index changes without a new record, and so does a note that has an earlier text again.
    if report.records_added == 0 {
        return Text::plain(match report.bytes_read {
            0 => format!("no new records; checked {sources}"),
            _ => format!("no new records; {read} changed in {sources}"),
        });
    }
    let new = match report.sources_added {
        0 => String::new(),
        new if new >= changed => ", all new".to_owned(),
        new => format!(", {} of them new", number(new)),
    };
    Text::styled(Style::Good, count(report.records_added, "record"))
        .and(format!(" ({read}) from {sources}{new}"))
}

/// Describes some files: the first one, how many more, and why.
fn describe_files(files: &SkippedFiles, why: &str) -> Text {
    let ownership = format::by_name(&files.format).map_or("", |format| format.title());
    let first = match files.paths.first().map(String::as_str) {
        None | Some(".") => format!("{ownership}'s folder"),
        Some(path) => format!("{ownership}'s {path}"),
    };
    let more = match files.all() {
        1 => String::new(),
        // Transcripts in a database have no paths of their own; the database's is listed once.
        times if files.paths.len() == 1 => format!(" ({} times)", number(times)),
        files => format!(" and {} more", number(files - 1)),
    };
    Text::styled(Style::Warning, format!("{first}{more}")).and(format!(": {why}"))
}

/// Reports that a reading command found no sessions at all.
pub(super) fn no_sessions(context: &mut Context, reading: &Reading) -> Result<()> {
    match reading.missing_note().as_str() {
        "" => nothing_found(context, None),
        // There may be files that are not collected yet.
        note => Ok(context.output.line(format!("no sessions{note}"))?),
    }
}

/// Prints where quipu looked and what to do, if there is nothing to collect.
pub(super) fn nothing_found(context: &mut Context, report: Option<&SyncReport>) -> Result<()> {
    let roots = context.settings.roots.clone();
    let titles: Vec<&str> = roots.iter().map(|roots| roots.format.title()).collect();
    let variables: Vec<&str> =
        roots.iter().flat_map(|roots| roots.format.roots()).map(|root| root.env).collect();
    let mut looked = Vec::new();
    for roots in &roots {
        let mut label = roots.format.title();
        for path in &roots.paths {
            let state = if path.is_dir() { "nothing to collect" } else { "does not exist" };
            let place = Text::plain(context.show(path)).with(Style::Dim, format!("  {state}"));
            looked.push((std::mem::take(&mut label), place));
        }
        if roots.paths.is_empty() {
            looked.push((label, Text::styled(Style::Dim, "no folder")));
        }
    }
    let link = report.and_then(|report| Link::first(context, report));
    let config = context.settings.config.as_ref().map(|config| context.show(&config.value));
    let example = roots.first().map_or("", |roots| roots.format.name());
    let out = &mut context.output;
    out.line(
        Text::styled(Style::Bold, "Nothing to collect yet.")
            .and(format!(" quipu looked for {} files in:", titles.join(" and "))),
    )?;
    out.gap()?;
    out.facts(2, &looked)?;
    out.gap()?;
    if let Some(Link { name, link, root, target }) = link {
        out.line(
            Text::styled(Style::Warning, link)
                .and(format!(" is a link out of {root} to {target}, and is not followed.")),
        )?;
        let config = config.as_deref().unwrap_or("a file given with --config");
        out.line(format!("To collect it, list both folders in {config}:"))?;
        out.gap()?;
        out.line("  [roots]")?;
        return Ok(out.verbatim(&format!("  {name} = [{root:?}, {target:?}]"))?);
    }
    out.line(format!(
        "If they are elsewhere, set {}, or list their folders in {}:",
        variables.join(" or "),
        config.as_deref().unwrap_or("a file given with --config"),
    ))?;
    out.gap()?;
    out.line("  [roots]")?;
    out.verbatim(&format!("  {example} = [\"/path/to/folder\"]"))?;
    out.gap()?;
    out.line("To try quipu on invented sessions first, run `quipu demo`.")?;
    Ok(())
}

/// A link to a folder outside its root, which is not followed.
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
