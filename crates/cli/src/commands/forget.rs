//! `quipu forget`: the only command that deletes stored data.

use std::io::{self, IsTerminal};

use quipu_ledger::Error;
use quipu_ledger::wire::{ForgetReport, ForgottenSession};
use quipu_transcript::format;

use super::Context;
use crate::error::{CommandError, Result};
use crate::output::{Style, Text, bytes, count, number};

/// Permanently remove a session from the ledger
///
/// Removes the session, its sub-agents and everything derived from them, until
/// no byte of them is left in the ledger's file. A mark stays in the ledger, so
/// that the session is never collected again. Its lines in files shared by all
/// sessions (the prompt history) are replaced by blanks.
///
/// This cannot be undone, so the command first shows what it would remove and
/// asks. The agent's own files are not changed, and neither are backups; known
/// backups are listed. Afterwards the readable tables are rebuilt, as by
/// `quipu rebuild`.
///
/// Examples:
///   quipu forget b20f --dry-run
///   quipu forget b20f7d96-3c84-4e1a-b5d7-0f9a61c3e872 --yes
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A session id or an unambiguous beginning of one; AGENT/ID if agents share an id
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// Do not ask for confirmation; required without a terminal
    #[arg(long, short = 'y', conflicts_with = "dry_run")]
    yes: bool,

    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    // Without a ledger there is nothing to forget, and none is created.
    let Some(read) = context.open_if_any()? else {
        return Err(Error::NoMatch { what: "session", name: args.id.clone() }.into());
    };
    // A dry run does not migrate a ledger of an older version.
    let mut ledger = if args.dry_run && read.is_copy() {
        read
    } else {
        drop(read);
        context.open()?
    };
    let preview = quipu_ledger::forget::preview(&ledger, &args.id)?;
    if args.dry_run {
        return show(context, &preview, Tense::Would);
    }
    if !args.yes && !preview.was_forgotten && !is_confirmed(context, &preview)? {
        return Err(CommandError::new("not confirmed; nothing was changed"));
    }
    // Forgets the session that was shown, even if the same letters match another one by now.
    let name = preview.affected_sessions.first().map_or_else(|| args.id.clone(), name);
    let mut bar = context.output.bar();
    let report = quipu_ledger::forget::forget(&mut ledger, &name, &mut |done, total| {
        bar.records("rebuilding", done, total);
    })?;
    drop(bar);
    show(context, &report, if args.yes { Tense::Did } else { Tense::DidAsShown })?;
    if !report.is_cleaned {
        return Err(CommandError::new(
            "the session is gone from every table, but another process still reads old pages of \
             the ledger's file",
        )
        .hint(format!(
            "after that process has ended, `{}` or another `{}` removes them",
            context.shell.plain("sync"),
            context.shell.command("forget", &name, &[]),
        )));
    }
    Ok(())
}

/// Returns a name that matches this session only.
fn name(session: &ForgottenSession) -> String {
    match session.agent.as_str() {
        "" => session.session_id.clone(),
        agent => format!("{agent}/{}", session.session_id),
    }
}

/// Shows what would be removed and asks for confirmation.
fn is_confirmed(context: &mut Context, preview: &ForgetReport) -> Result<bool> {
    let can_ask = !context.is_json
        && io::stdin().is_terminal()
        && io::stdout().is_terminal()
        && io::stderr().is_terminal();
    if !can_ask {
        return Err(CommandError::new(
            "forgetting cannot be undone, and there is no terminal to ask on",
        )
        .hint("use --yes to forget, or --dry-run to see what would be removed"));
    }
    show(context, preview, Tense::Would)?;
    context.output.gap()?;
    Ok(context.output.ask("This cannot be undone. Forget it?")?.unwrap_or(false))
}

/// The tense of a report: a preview, or a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tense {
    Would,
    Did,
    /// Only the result, because the details were shown before asking.
    DidAsShown,
}

/// The largest number of names listed below a heading; `--json` lists more.
const MAX_NAMED: usize = 3;

fn show(context: &mut Context, report: &ForgetReport, tense: Tense) -> Result<()> {
    if context.is_json {
        context.output.json(report)?;
        return Ok(());
    }
    if context.output.is_quiet() && tense != Tense::Would {
        return Ok(());
    }
    let what = what(report);
    let headline = match (tense, report.was_forgotten) {
        (_, true) => Text::styled(Style::Good, "already forgotten").and("; nothing of it is left"),
        (Tense::Would, _) => Text::styled(Style::Bold, "This would be forgotten:"),
        (Tense::Did | Tense::DidAsShown, _) => {
            Text::styled(Style::Good, "forgotten").and(format!(": {}", what.join(", and ")))
        }
    };
    context.output.line(headline)?;
    if tense == Tense::DidAsShown && !report.was_forgotten {
        return Ok(());
    }
    let mut facts = Vec::new();
    if let Some(session) = report.affected_sessions.first() {
        let title = format::by_name(&session.format).map_or(&*session.format, |it| it.title());
        facts.push(("session", Text::plain(name(session)).with(Style::Dim, format!("  {title}"))));
        facts.extend(session.title.as_ref().map(|title| ("title", Text::plain(title).cut(60))));
        facts.extend(session.project.as_ref().map(|project| ("project", Text::plain(project))));
    }
    if tense == Tense::Would && !report.was_forgotten {
        let labels = std::iter::once("removed").chain(std::iter::repeat(""));
        facts.extend(labels.zip(what.into_iter().map(Text::from)));
    }
    let on_disk = report.paths_on_disk.iter().map(|path| context.show(path)).collect();
    list(&mut facts, "kept", report.paths_on_disk.len() as u64, on_disk, |files| {
        format!("{files} on disk, which quipu does not delete")
    });
    let copies = report.sessions_with_copies.iter().map(name).collect();
    list(&mut facts, "copies", report.copies, copies, |_| {
        let sessions = count(report.copies, "other session");
        format!("{sessions} with the same lines; forget each of them separately")
    });
    let threads = report.thread_sessions.iter().map(name).collect();
    list(&mut facts, "threads", report.thread_sessions.len() as u64, threads, |_| {
        let threads = count(report.thread_sessions.len() as u64, "thread");
        format!("{threads} with their own transcripts; forget each of them separately")
    });
    let backups = report.backup_paths.iter().map(|path| context.show(path)).collect();
    list(&mut facts, "backups", report.backup_paths.len() as u64, backups, |files| {
        format!("{files} that may still contain it; quipu does not change backups")
    });
    context.output.facts(2, &facts)?;
    Ok(())
}

/// Describes how much is removed.
fn what(report: &ForgetReport) -> Vec<String> {
    let mut what = Vec::new();
    if report.files > 0 {
        let records = count(report.records, "record");
        let mut files =
            format!("{} with {records} ({})", count(report.files, "file"), bytes(report.bytes));
        let subagents = report.affected_sessions.len().saturating_sub(1) as u64;
        if subagents > 0 {
            files = format!("{files}, {} included", count(subagents, "sub-agent"));
        }
        what.push(files);
    }
    if report.shared_lines > 0 {
        what.push(format!(
            "{} in files shared by all sessions",
            count(report.shared_lines, "line")
        ));
    }
    what
}

/// Adds a heading and the first few names below it.
fn list(
    facts: &mut Vec<(&'static str, Text)>,
    label: &'static str,
    all: u64,
    named: Vec<String>,
    heading: impl FnOnce(String) -> String,
) {
    if all == 0 {
        return;
    }
    facts.push((label, Text::plain(heading(count(all, "file")))));
    let shown = named.into_iter().take(MAX_NAMED);
    facts.extend(shown.map(|name| ("", Text::styled(Style::Dim, format!("  {name}")))));
    let more = all.saturating_sub(MAX_NAMED as u64);
    if more > 0 {
        facts.push(("", Text::styled(Style::Dim, format!("  and {} more", number(more)))));
    }
}
