//! `quipu files`: the files that calls of tools read and changed.

use quipu_ledger::query::{FileFilter, Filter, file_uses, files};
use quipu_ledger::wire::{FileUse, TouchedFile};

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Column, Style, Text, count, elapsed, number};
use crate::reading::{self, Reading};
use crate::{filters, paths};

/// Number of lines that are shown without `-n`.
const DEFAULT_LINES: usize = 30;

/// List the files that agents read and changed, or who changed one
///
/// Counted are calls of tools that read or change one file, such as `Read` and
/// `edit`, in all sessions and sub-agents. Commands of a shell are not looked
/// into. With PATH, each turn that used the file is listed, the newest first. PATH
/// is a path, the end of one (`src/auth.ts`), a folder, or a part of a path.
///
/// Examples:
///   quipu files --changed --since 3d
///   quipu files src/auth.ts
///   quipu files auth.ts --json | jq -r '[.session_id, .turn_number, .prompt] | @tsv'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// List the turns that used this file
    #[arg(value_name = "PATH", allow_hyphen_values = true)]
    path: Option<String>,

    /// Only calls that changed a file
    #[arg(long)]
    changed: bool,

    /// Only calls in sessions of this project: any part of its name, or a path
    #[arg(long, short = 'p', value_name = "NAME", allow_hyphen_values = true)]
    project: Option<String>,

    /// Only calls in sessions of this agent: `claude`, `openclaw`, `openclaw/main`, `main`
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Only calls in sessions of this format (see `quipu formats`)
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,

    /// Only calls since then: `3d`, `monday`, `2026-11-01`, `2026-11-01..2026-11-07`
    #[arg(long, short = 's', value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,

    /// Only calls before or on that day
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    until: Option<String>,

    /// Show at most N lines; 0 for all [default: 30; all with --json]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    reading: reading::Args,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let (since, until) = filters::range(args.since.as_deref(), args.until.as_deref())?;
    let sessions = filters::chosen(context, &args.project, &args.agent, &args.format)?;
    let sessions = sessions.unwrap_or_else(|| Filter { all: true, ..Filter::default() });
    let filter = FileFilter { sessions, since, until, changed: args.changed };
    let limit = match args.limit {
        Some(0) => usize::MAX,
        None if context.is_json => usize::MAX,
        limit => limit.unwrap_or(DEFAULT_LINES),
    };
    let reading = reading::open(context, args.reading)?;
    let all = match &args.path {
        Some(path) => {
            let found = file_uses(&reading.ledger, &named(context, path), &filter)?;
            show_uses(context, &reading, &found, limit)?;
            found.len()
        }
        None => {
            let found = files(&reading.ledger, &filter)?;
            show_files(context, &reading, &found, limit)?;
            found.len()
        }
    };
    if all == 0 {
        reading.refuse_if_behind()?;
        let what = format!("no such calls{}", reading.missing_note());
        let mut error = CommandError::new(what)
            .hint("`quipu files` lists all files; `quipu search` finds commands that name one");
        error.kind = Kind::NoMatch;
        return Err(error);
    }
    if all > limit && !context.is_json {
        let more = format!("and {}; `-n 0` lists all", count((all - limit) as u64, "older line"));
        context.output.gap()?;
        context.output.line(Text::styled(Style::Dim, more))?;
    }
    Ok(())
}

/// Returns the path that a person means: `./a` is in the current folder.
fn named(context: &Context, path: &str) -> String {
    if !["./", "../", "~/"].iter().any(|start| path.starts_with(start)) {
        return path.to_owned();
    }
    let here = std::env::current_dir().unwrap_or_default();
    let resolved = paths::resolve(path.as_ref(), context.settings.home.as_deref(), &here);
    resolved.map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}

fn show_files(
    context: &mut Context,
    reading: &Reading,
    found: &[TouchedFile],
    limit: usize,
) -> Result<()> {
    let found = found.iter().take(limit);
    if context.is_json {
        return found.into_iter().try_for_each(|file| reading.json(context, file));
    }
    context.output.page()?;
    let columns = [
        Column::words("last"),
        Column::numbers("sessions"),
        Column::numbers("edits"),
        Column::title("path"),
    ];
    let rows = found.map(|file| {
        vec![
            Text::plain(file.last_at.map(elapsed).unwrap_or_default()),
            Text::plain(number(file.sessions)),
            Text::plain(number(file.edits)),
            context.linked(&file.path),
        ]
    });
    let rows = rows.collect();
    Ok(context.output.table(0, &columns, rows)?)
}

fn show_uses(
    context: &mut Context,
    reading: &Reading,
    found: &[FileUse],
    limit: usize,
) -> Result<()> {
    if context.is_json {
        return found.iter().take(limit).try_for_each(|file| reading.json(context, file));
    }
    if found.is_empty() {
        return Ok(());
    }
    let ids = reading.short_ids()?;
    context.output.page()?;
    let columns = [
        Column::words("id"),
        Column::numbers("turn"),
        Column::words("last"),
        Column::words("tools"),
        Column::title("prompt"),
    ];
    let several = found.iter().any(|file| Some(&file.path) != found.first().map(|it| &it.path));
    let row = |file: &FileUse| {
        let prompt = file.prompt.as_deref().or(file.title.as_deref()).unwrap_or_default();
        let mut about = Text::default();
        if several {
            let name = file.path.rsplit('/').next().unwrap_or_default();
            about = about.with(Style::Dim, format!("{name}  "));
        }
        if file.parent_session_id.is_some() {
            about = about.with(Style::Dim, "[sub-agent] ");
        }
        vec![
            Text::plain(ids.of(&file.session_id)),
            Text::plain(file.turn_number.map(number).unwrap_or_default()),
            Text::plain(file.time.map(elapsed).unwrap_or_default()),
            Text::plain(file.tools.join(" ")),
            about.and(prompt),
        ]
    };
    let rows = found.iter().take(limit).map(row).collect();
    Ok(context.output.table(0, &columns, rows)?)
}
