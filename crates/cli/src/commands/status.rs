//! `quipu status`: contents of the ledger, files left out and why, problems.

use std::path::Path;

use quipu_ledger::wire::{
    DatabaseStatus, FormatStatus, OldestTranscript, PriorityStatus, SkippedFiles, Status,
};
use quipu_transcript::problem::ProblemKind;

use super::Context;
use crate::error::Result;
use crate::output::{
    Column, Style, Text, ago, bytes, count, day, ledger_ratio, long_lines, number, sessions,
};

/// Show what the ledger contains, which files are left out, and why
///
/// Looks at the disk, but collects nothing. For each format: the folders it
/// looked in, what is stored (by priority: transcripts, scheduled jobs, notes),
/// files that are left out and why, unknown record types, files that are gone
/// from disk, and the oldest transcript with the days left until the agent
/// deletes it. Then all problems in source files, by kind. With -v, lists more of
/// the files that are left out, and every link that is not followed.
///
/// Example:
///   quipu status --json | jq '.formats[] | {format, sessions, gone_sources}'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, context: &mut Context) -> Result<()> {
    let roots = context.roots();
    let status = match quipu_ledger::Ledger::open_read_only(&context.settings.ledger.value) {
        Ok(ledger) => {
            crate::reading::warn_of_copy(context, &ledger);
            quipu_ledger::status::status(&ledger, &roots)?
        }
        Err(quipu_ledger::Error::Absent { path }) => {
            quipu_ledger::status::status_without_ledger(&path, &roots)?
        }
        Err(error) => return Err(error.into()),
    };
    if context.is_json {
        context.output.json(&status)?;
        return Ok(());
    }
    show_ledger(context, &status)?;
    for format in &status.formats {
        let facts = format_facts(context, format, status.ledger.has_file);
        context.output.gap()?;
        context.output.line(Text::styled(Style::Bold, &format.product))?;
        context.output.facts(2, &facts)?;
    }
    show_problems(context, &status)
}

fn show_ledger(context: &mut Context, status: &Status) -> Result<()> {
    let ledger = &status.ledger;
    let path = context.show(&ledger.path);
    if !ledger.has_file {
        context.output.line(
            Text::styled(Style::Bold, "There is no ledger yet").and(format!(" at {path}.")),
        )?;
        let how = "Run `quipu sync` to create one and collect the files below.";
        context.output.line(context.shell.sentence(how))?;
        return Ok(());
    }
    let source_bytes = status.formats.iter().map(|format| format.bytes).sum();
    let size = match ledger_ratio(ledger.bytes, source_bytes) {
        Some(ratio) => {
            format!(
                "{}, {ratio} × the {} of source data in it",
                bytes(ledger.bytes),
                bytes(source_bytes)
            )
        }
        None => bytes(ledger.bytes),
    };
    context.output.line(Text::styled(Style::Bold, "Ledger"))?;
    let mut facts = vec![
        ("path", context.linked(&ledger.path)),
        ("size", Text::plain(size)),
        ("records", Text::plain(number(ledger.records))),
    ];
    if ledger.log_bytes > 0 {
        let log = format!("{}, emptied when no process has it open", bytes(ledger.log_bytes));
        facts.insert(2, ("log", Text::plain(log)));
    }
    let shell = &context.shell;
    let mut note = |label, value: u64, one: &str, rest: &str| {
        if value > 0 {
            let text = shell.sentence(&format!("{} {rest}", count(value, one)));
            facts.push((label, Text::plain(text)));
        }
    };
    note("behind", ledger.unprojected_records, "record", "not projected yet; run `quipu sync`");
    note("absent", status.absent_records, "record", "that the files no longer contain; kept");
    note("search", status.partly_indexed_entries, "long entry", "indexed only in part");
    match status.provisional_lines {
        0 => {}
        1 => facts.push(("tails", Text::plain("1 file ends in an unfinished line"))),
        files => {
            let text = format!("{} files end in an unfinished line", number(files));
            facts.push(("tails", Text::plain(text)));
        }
    }
    if status.too_long_records > 0 {
        facts.push(("long lines", Text::plain(long_lines(status.too_long_records))));
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
            "collected" => "  exists".to_owned(),
            "absent" => "  does not exist".to_owned(),
            "duplicate" => "  same folder as another root".to_owned(),
            "unreadable" => "  cannot be read".to_owned(),
            other => format!("  {other}"),
        };
        context.linked(&root.path).with(Style::Dim, note)
    });
    add("roots", roots.collect());
    if format.roots.is_empty() {
        add("roots", vec![Text::styled(Style::Dim, "none: nothing is collected")]);
    }
    if format.sources > 0 || format.databases > 0 || format.sessions > 0 {
        add("sessions", vec![Text::plain(sessions(format.sessions, format.subagents))]);
        let mut places = places(format.sources, format.database_sessions);
        if format.databases > 0 {
            places = format!("{places} of {}", count(format.databases, "database"));
        }
        let records =
            format!("{}, {} in {places}", count(format.records, "record"), bytes(format.bytes));
        add("records", vec![Text::plain(records)]);
        add("of these", format.priorities.iter().map(priority_text).collect());
        let partly =
            format.database_files.iter().filter(|file| file.read_transcripts < file.transcripts);
        add("databases", partly.take(MAX_NAMED).map(database_text).collect());
    }
    let states = format.sessions_by_state.iter().filter(|(state, _)| state.as_str() != "live");
    add("states", states.map(|(state, sessions)| state_text(state, *sessions)).collect());
    if format.forgotten_sessions > 0 {
        let sessions = count(format.forgotten_sessions, "session");
        add("forgotten", vec![Text::plain(format!("{sessions}, will not be collected again"))]);
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
    note("gone", format.gone_sources, "gone from disk; kept in the ledger");
    note("rewritten", format.rewritten_sources, "rewritten after collecting; all generations kept");
    if let Some(found) = &format.oldest_transcript {
        let path = context.linked(Path::new(&found.path));
        add("oldest", vec![path, oldest(&format.product, found)]);
    }
    add("warning", format.warnings.iter().flat_map(warning_texts).collect());
    let most = if context.output.is_verbose() { usize::MAX } else { MAX_NAMED };
    let texts = |skipped: &SkippedFiles| skipped_texts(skipped, most);
    add("damaged", format.damaged.iter().flat_map(texts).collect());
    add("left out", format.skipped.iter().flat_map(texts).collect());
    let unknown = format.records_by_unknown_type.iter().map(|(name, entries)| {
        let name = if name.is_empty() { "(no type)" } else { name };
        Text::styled(Style::Warning, name).and(format!("  {}", count(*entries, "record")))
    });
    add("unknown", unknown.collect());
    facts
}

/// Describes what is stored of one priority.
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

/// Describes a number of files and transcripts.
fn places(files: u64, transcripts: u64) -> String {
    match (files, transcripts) {
        (_, 0) => count(files, "file"),
        (0, _) => count(transcripts, "transcript"),
        _ => format!("{} and {}", count(files, "file"), count(transcripts, "transcript")),
    }
}

/// Describes how much of a database was read.
fn database_text(database: &DatabaseStatus) -> Text {
    let (read, all) =
        (number(database.read_transcripts), count(database.transcripts, "transcript"));
    Text::styled(Style::Warning, format!("{read} of {all}"))
        .and(" read completely; the others are listed below")
        .with(Style::Dim, format!("  {}", database.path))
}

/// Limit for the number of files listed for one reason; `-v` and `--json` list more.
const MAX_NAMED: usize = 3;

/// Describes why files are left out, and lists at most `most` of them.
fn skipped_texts(skipped: &SkippedFiles, most: usize) -> Vec<Text> {
    let what = match skipped.is_in_database {
        true => "transcript",
        false if skipped.are_links() => "link",
        false => "file",
    };
    let counts = [(skipped.files, what), (skipped.folders, "folder")];
    let counts = counts.iter().filter(|(number, _)| *number > 0);
    let counts: Vec<String> = counts.map(|(number, what)| count(*number, what)).collect();
    let mut texts = vec![Text::plain(format!("{}: {}", counts.join(" and "), skipped.reason))];
    let named = skipped.paths.iter().take(most);
    texts.extend(named.map(|path| Text::styled(Style::Dim, format!("  {path}"))));
    let more = skipped.all().saturating_sub(skipped.paths.len().min(most) as u64);
    // A transcript in a database has no path of its own; the database's is listed.
    let is_named = !skipped.is_in_database || skipped.paths.len() > 1;
    if more > 0 && is_named {
        let how = match skipped.paths.len() {
            named if named as u64 == skipped.all() => "; -v lists them",
            named if named > most => "; -v lists more",
            _ => "",
        };
        texts.push(Text::styled(Style::Dim, format!("  and {} more{how}", number(more))));
    }
    texts
}

/// Describes a warning about collected files, and lists them.
fn warning_texts(warning: &SkippedFiles) -> Vec<Text> {
    let mut texts = vec![Text::styled(Style::Warning, &warning.reason)];
    let named = warning.paths.iter().take(MAX_NAMED);
    texts.extend(named.map(|path| Text::styled(Style::Dim, format!("  {path}"))));
    texts
}

/// Describes a state other than `live`.
fn state_text(state: &str, sessions: u64) -> Text {
    let meaning = match state {
        "archived" => "archived by the agent",
        "deleted" => "deleted by the agent, which kept the file under another name",
        "gone" => "files are gone from disk; kept in the ledger",
        "lost" => "transcripts were gone before the first sync",
        _ => "",
    };
    let text = Text::plain(format!("{} {state}", number(sessions)));
    if meaning.is_empty() { text } else { text.with(Style::Dim, format!("  {meaning}")) }
}

/// Describes the oldest transcript and the days until its agent deletes it.
pub(super) fn oldest(title: &str, oldest: &OldestTranscript) -> Text {
    let text = Text::plain(format!(
        "last changed {} ({})",
        ago(oldest.modified_at),
        day(oldest.modified_at)
    ));
    let Some(left_days) = oldest.left_days else { return text };
    let left = match left_days {
        ..=0 => "due for deletion".to_owned(),
        days => format!("{} left", count(days.unsigned_abs(), "day")),
    };
    let style = if left_days <= 7 { Style::Warning } else { Style::Plain };
    let text = text.and(", ").with(style, left);
    match (oldest.cleanup_days, oldest.cleanup_from.as_str()) {
        (Some(days), "default") => text.and(format!(", assuming {title}'s default of {days} days")),
        (Some(days), _) => text.and(format!(", with the configured {}", count(days.into(), "day"))),
        (None, _) => text,
    }
}

fn show_problems(context: &mut Context, status: &Status) -> Result<()> {
    if status.problems_by_kind.is_empty() {
        return Ok(());
    }
    let rows = status.problems_by_kind.iter().map(|(kind, times)| {
        let known = ProblemKind::ALL.iter().find(|known| known.as_str() == kind);
        vec![
            Text::plain(kind),
            Text::styled(Style::Warning, number(*times)),
            Text::plain(known.map_or("", |known| known.meaning())),
        ]
    });
    let columns = [Column::words("kind"), Column::numbers("times"), Column::prose("meaning")];
    let rows = rows.collect();
    context.output.gap()?;
    let note = match status.keeps_everything() {
        true => "  in source files; nothing was lost",
        false => "  in source files; of damaged files above 256 MiB, only readable lines are kept",
    };
    context.output.line(Text::styled(Style::Bold, "Problems").with(Style::Dim, note))?;
    context.output.table(2, &columns, rows)?;
    Ok(())
}
