//! `quipu status`: what the ledger holds, what was left out and why, what is at risk.

use std::path::Path;

use quipu_ledger::wire::{
    DatabaseStatus, FormatStatus, OldestTranscript, PriorityStatus, SkippedFiles, Status,
};
use quipu_transcript::problem::ProblemKind;

use super::Context;
use crate::error::Result;
use crate::output::{Column, Look, Text, ago, bytes, count, day, long_lines, number, ratio};

/// Show what the ledger holds, what was left out, and why
///
/// Looks at the disk but collects nothing. For each format: where quipu looked,
/// what it holds (by priority: transcripts, scheduled jobs, notes), which files
/// it leaves out and for which reason, which record types it does not know,
/// which files are gone from disk, and the oldest transcript with its days left
/// under the agent's clean-up. Then everything odd that was noted, by kind.
/// With -v more of the files that are left out are named, and every link that
/// is not followed.
///
/// Example:
///   quipu status --json | jq '.formats[] | {format, sessions, gone}'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, context: &mut Context) -> Result<()> {
    let roots = context.roots();
    let status = match quipu_ledger::Ledger::open_read_only(&context.settings.ledger.value) {
        Ok(ledger) => quipu_ledger::status(&ledger, &roots)?,
        Err(quipu_ledger::Error::Absent { path }) => {
            quipu_ledger::status_without_ledger(&path, &roots)?
        }
        Err(error) => return Err(error.into()),
    };
    if context.is_json {
        context.output.json(&status)?;
        return Ok(());
    }
    show_ledger(context, &status)?;
    for format in &status.formats {
        let facts = format_facts(context, format, status.ledger.exists);
        context.output.gap()?;
        context.output.line(Text::of(Look::Bold, &format.title))?;
        context.output.facts(2, &facts)?;
    }
    show_problems(context, &status)
}

fn show_ledger(context: &mut Context, status: &Status) -> Result<()> {
    let ledger = &status.ledger;
    let path = context.show(&ledger.path);
    if !ledger.exists {
        context
            .output
            .line(Text::of(Look::Bold, "There is no ledger yet").and(format!(" at {path}.")))?;
        context.output.line("Run `quipu sync` to make one and collect what is below.")?;
        return Ok(());
    }
    let held = status.formats.iter().map(|format| format.bytes).sum();
    let size = match ratio(ledger.bytes, held) {
        Some(ratio) => format!("{}, {ratio} × the {} it holds", bytes(ledger.bytes), bytes(held)),
        None => bytes(ledger.bytes),
    };
    context.output.line(Text::of(Look::Bold, "Ledger"))?;
    let mut facts = vec![
        ("path", Text::plain(path)),
        ("size", Text::plain(size)),
        ("records", Text::plain(number(ledger.records))),
    ];
    let mut note = |label, value: u64, one: &str, rest: &str| {
        if value > 0 {
            facts.push((label, Text::plain(format!("{} {rest}", count(value, one)))));
        }
    };
    note("behind", ledger.unprojected, "record", "not derived from yet; `quipu sync` does it");
    note("absent", status.absent_records, "record", "that the files no longer hold; kept");
    note("tails", status.provisional, "last line", "without an end, shown provisionally");
    note("search", status.partly_indexed, "long entry", "indexed only in part");
    if status.too_long > 0 {
        facts.push(("long lines", Text::plain(long_lines(status.too_long))));
    }
    context.output.facts(2, &facts)?;
    Ok(())
}

fn format_facts(
    context: &Context,
    format: &FormatStatus,
    has_ledger: bool,
) -> Vec<(&'static str, Text)> {
    let mut facts = Vec::new();
    let mut add = |label, texts: Vec<Text>| {
        let mut label = label;
        for text in texts {
            facts.push((std::mem::take(&mut label), text));
        }
    };
    let roots = format.roots.iter().map(|root| {
        let note = match root.state.as_str() {
            "collected" if has_ledger => String::new(),
            "collected" => "  there".to_owned(),
            "absent" => "  not there".to_owned(),
            "twin" => "  the same folder as another one".to_owned(),
            "unreadable" => "  cannot be read".to_owned(),
            other => format!("  {other}"),
        };
        Text::plain(context.show(&root.path)).with(Look::Dim, note)
    });
    add("roots", roots.collect());
    if format.roots.is_empty() {
        add("roots", vec![Text::of(Look::Dim, "none: nothing is looked for")]);
    }
    if format.sources > 0 || format.databases > 0 || format.sessions > 0 {
        let mut sessions = count(format.sessions.saturating_sub(format.subagents), "session");
        if format.subagents > 0 {
            sessions = format!("{sessions}, {}", count(format.subagents, "sub-agent"));
        }
        add("sessions", vec![Text::plain(sessions)]);
        let mut places = places(format.sources, format.database_sessions);
        if format.databases > 0 {
            places = format!("{places} of {}", count(format.databases, "database"));
        }
        let records =
            format!("{}, {} in {places}", count(format.records, "record"), bytes(format.bytes));
        add("records", vec![Text::plain(records)]);
        add("of these", format.priorities.iter().map(priority_text).collect());
        let partly = format.database_files.iter().filter(|file| file.read < file.transcripts);
        add("databases", partly.take(MOST_NAMED).map(database_text).collect());
    }
    let states = format.states.iter().filter(|(state, _)| state.as_str() != "live");
    add("states", states.map(|(state, sessions)| state_text(state, *sessions)).collect());
    if format.forgotten > 0 {
        let sessions = count(format.forgotten, "session");
        add("forgotten", vec![Text::plain(format!("{sessions}, never collected again"))]);
    }
    let mut note = |label, value: u64, text: &str| {
        if value > 0 {
            let what = match format.databases {
                0 => count(value, "file"),
                _ => format!("{} of all files and transcripts", number(value)),
            };
            add(label, vec![Text::plain(format!("{what} {text}"))]);
        }
    };
    note("gone", format.gone, "no longer on disk; kept");
    note("rewritten", format.rewritten, "changed after collecting; all versions kept");
    if let Some(found) = &format.oldest {
        let path = Text::plain(context.show(Path::new(&found.path)));
        add("oldest", vec![path, oldest(&format.title, found)]);
    }
    add("warning", format.warnings.iter().flat_map(warning_texts).collect());
    let most = if context.output.is_verbose() { usize::MAX } else { MOST_NAMED };
    let texts = |skipped: &SkippedFiles| skipped_texts(skipped, most);
    add("damaged", format.damaged.iter().flat_map(texts).collect());
    add("left out", format.skipped.iter().flat_map(texts).collect());
    let unknown = format.unknown_types.iter().map(|(name, entries)| {
        let name = if name.is_empty() { "(no type)" } else { name };
        Text::of(Look::Warning, name).and(format!("  {}", count(*entries, "record")))
    });
    add("unknown", unknown.collect());
    facts
}

/// What is kept of one priority, in words.
fn priority_text(group: &PriorityStatus) -> Text {
    let what = match group.priority {
        0 => "transcripts",
        1 => "scheduled jobs",
        _ => "notes",
    };
    Text::plain(format!(
        "P{} {what}: {}, {} in {}",
        group.priority,
        count(group.records, "record"),
        bytes(group.bytes),
        places(group.sources, group.database_sources)
    ))
}

/// Where things stand, in words.
fn places(files: u64, transcripts: u64) -> String {
    match (files, transcripts) {
        (_, 0) => count(files, "file"),
        (0, _) => count(transcripts, "transcript"),
        _ => format!("{} and {}", count(files, "file"), count(transcripts, "transcript")),
    }
}

/// How much of a database is read.
fn database_text(database: &DatabaseStatus) -> Text {
    let (read, all) = (number(database.read), count(database.transcripts, "transcript"));
    Text::of(Look::Warning, format!("{read} of {all}"))
        .and(" read to the end; the others are named below")
        .with(Look::Dim, format!("  {}", database.path))
}

/// At most this many files are named for one reason; `-v` and `--json` name more.
const MOST_NAMED: usize = 3;

/// Why files are left out, and which, at most so many.
fn skipped_texts(skipped: &SkippedFiles, most: usize) -> Vec<Text> {
    let what = match skipped.in_database {
        true => "transcript",
        false if skipped.are_links() => "link",
        false => "file",
    };
    let counts = [(skipped.files, what), (skipped.folders, "folder")];
    let counts = counts.iter().filter(|(number, _)| *number > 0);
    let counts: Vec<String> = counts.map(|(number, what)| count(*number, what)).collect();
    let mut texts = vec![Text::plain(format!("{}: {}", counts.join(" and "), skipped.reason))];
    let named = skipped.paths.iter().take(most);
    texts.extend(named.map(|path| Text::of(Look::Dim, format!("  {path}"))));
    let more = skipped.all().saturating_sub(skipped.paths.len().min(most) as u64);
    // What has no name of its own has that of the database that it is in.
    let is_named = !skipped.in_database || skipped.paths.len() > 1;
    if more > 0 && is_named {
        let how = match skipped.paths.len() {
            named if named as u64 == skipped.all() => "; -v names them",
            named if named > most => "; -v names more",
            _ => "",
        };
        texts.push(Text::of(Look::Dim, format!("  and {} more{how}", number(more))));
    }
    texts
}

/// What to know about files that are collected, and which.
fn warning_texts(warning: &SkippedFiles) -> Vec<Text> {
    let mut texts = vec![Text::of(Look::Warning, &warning.reason)];
    let named = warning.paths.iter().take(MOST_NAMED);
    texts.extend(named.map(|path| Text::of(Look::Dim, format!("  {path}"))));
    texts
}

/// A state that is not `live`, in words.
fn state_text(state: &str, sessions: u64) -> Text {
    let meaning = match state {
        "archived" => "put aside by the agent",
        "deleted" => "deleted by the agent, its file put aside",
        "gone" => "files gone from disk; kept",
        "lost" => "known only from prompt history",
        _ => "",
    };
    let text = Text::plain(format!("{} {state}", number(sessions)));
    if meaning.is_empty() { text } else { text.with(Look::Dim, format!("  {meaning}")) }
}

/// How long the oldest transcript has still to live.
pub(super) fn oldest(title: &str, oldest: &OldestTranscript) -> Text {
    let text = Text::plain(format!(
        "last changed {} ({})",
        ago(oldest.modified_at),
        day(oldest.modified_at)
    ));
    let Some(days_left) = oldest.days_left else { return text };
    let left = match days_left {
        ..=0 => "due for clean-up".to_owned(),
        days => format!("{} left", count(days.unsigned_abs(), "day")),
    };
    let look = if days_left <= 7 { Look::Warning } else { Look::Plain };
    let text = text.and(", ").with(look, left);
    match (oldest.cleanup_days, oldest.cleanup_from.as_str()) {
        (Some(days), "default") => text.and(format!(", assuming {title}'s default of {days} days")),
        (Some(days), _) => {
            text.and(format!(", with the {} of the configuration", count(days.into(), "day")))
        }
        (None, _) => text,
    }
}

fn show_problems(context: &mut Context, status: &Status) -> Result<()> {
    if status.problems.is_empty() {
        return Ok(());
    }
    let rows = status.problems.iter().map(|(kind, times)| {
        let known = ProblemKind::ALL.iter().find(|known| known.as_str() == kind);
        vec![
            Text::plain(kind),
            Text::of(Look::Warning, number(*times)),
            Text::plain(known.map_or("", |known| known.meaning())),
        ]
    });
    let columns = [Column::words("kind"), Column::numbers("times"), Column::prose("meaning")];
    let rows = rows.collect();
    context.output.gap()?;
    let note = match status.keeps_everything() {
        true => "  noted; nothing is lost",
        false => {
            "  noted; of damaged files above 256 MiB, only the lines that can be read are kept"
        }
    };
    context.output.line(Text::of(Look::Bold, "Problems").with(Look::Dim, note))?;
    context.output.table(2, &columns, rows)?;
    Ok(())
}
