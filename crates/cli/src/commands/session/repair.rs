//! `quipu session repair`: finds the errors of a session, and writes a repaired continuation.

use quipu_ledger::store::{Repair, Repaired, Store, repair_of};
use quipu_ledger::wire::{RepairChange, RepairReport};
use quipu_transcript::repair::ChangeKind;

use super::super::Context;
use super::open_to_read;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Column, Style, Text, count};

/// Find the errors of a session, and repair it
///
/// Checks the lines of a session and the path that a model would see. Errors are
/// invalid lines, an invalid header, tool results that do not follow their call,
/// are missing, repeated or without a call, and parents that do not exist or form
/// a circle.
///
/// With --apply, a session that a runtime keeps in quipu continues on a new branch
/// without these errors; a collected session continues in a new session. No line
/// is changed or removed. Without errors, nothing is written.
///
/// `--json` prints one object: repaired, droppedLines, reason, original,
/// continuation, isNeeded and changes. The exit code is 1 if there are errors and
/// they were not repaired.
///
/// Examples:
///   quipu session repair 640a
///   quipu session repair 640a --apply --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A session id or an unambiguous beginning of one, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// Write the continuation
    #[arg(long)]
    apply: bool,

    /// Repair a session with an invalid header too: the continuation is a new session
    #[arg(long)]
    rebuild_header: bool,
}

/// The largest number of changes of one kind that are listed; `--json` has all of them.
const MAX_LISTED: usize = 20;

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let (repair, repaired) = if args.apply {
        let store = Store::open(&context.settings.ledger.value)?;
        let repair = store.repair(&args.id)?;
        let applied = store.apply_repair(&repair, args.rebuild_header);
        let repaired = applied.map_err(|error| super::conflict(context, error))?;
        (repair, repaired)
    } else {
        let (ledger, row) = open_to_read(context, &args.id)?;
        (repair_of(&ledger, row)?, None)
    };
    let report = repair.report(repaired.as_ref(), args.rebuild_header);
    if context.is_json {
        context.output.json(&report)?;
    } else {
        print(context, args, &repair, &report, repaired.as_ref())?;
    }
    if report.repaired || !report.is_needed {
        return Ok(());
    }
    let mut error = CommandError::new("the session has errors");
    error.kind = Kind::CheckFailed;
    Err(error)
}

fn print(
    context: &mut Context,
    args: &Args,
    repair: &Repair,
    report: &RepairReport,
    repaired: Option<&Repaired>,
) -> Result<()> {
    let session = Text::plain("session ").with(Style::Bold, &repair.session);
    let wrong = report.changes.len() as u64;
    let headline = match (repaired, wrong) {
        (Some(_), _) => Text::plain("repaired ").join(session),
        (None, 0) => session.and(": nothing is wrong"),
        (None, _) => session.and(format!(": {}", count(wrong, "error"))),
    };
    context.output.line(headline)?;
    let mut facts = Vec::new();
    if let Some(made) = repaired {
        let leaf = made.leaf.as_deref().unwrap_or("none");
        let place = match made.session.id() == repair.session {
            true => format!("a branch that ends in {leaf}"),
            false => format!("session {}, a new one", made.session.id()),
        };
        facts.push(("continues", Text::plain(place)));
        let original = report.original.leaf.as_deref().unwrap_or("none");
        facts.push(("original", Text::plain(format!("stays; its leaf is {original}"))));
        if made.repeated {
            facts.push(("written", Text::plain("before: the same repair was made")));
        }
    }
    if report.dropped_lines > 0 {
        facts.push(("invalid", Text::plain(count(report.dropped_lines, "line"))));
    }
    if let Some(reason) = report.reason {
        facts.push(("reason", Text::styled(Style::Warning, reason)));
    }
    context.output.facts(2, &facts)?;
    list(context, &report.changes)?;
    if let Some(made) = repaired.filter(|made| made.unmapped > 0) {
        let messages = count(made.unmapped, "message");
        let warning =
            format!("{messages} kept as custom entries, which are not part of the context");
        context.output.warn(&warning, Some("pi's format has no message type for them"));
    }
    if repaired.is_none() && wrong > 0 {
        context.output.note(hint(args, report));
    }
    Ok(())
}

fn hint(args: &Args, report: &RepairReport) -> &'static str {
    match report.reason {
        Some(_) => "hint: `--apply --rebuild-header` repairs it in a new session",
        None if !report.is_needed => "nothing to repair: every reader leaves these lines out",
        None if args.rebuild_header => "hint: `--apply --rebuild-header` repairs it",
        None => "hint: `--apply` repairs it; no line is changed or removed",
    }
}

/// Lists the errors, each with its place and its repair.
fn list(context: &mut Context, changes: &[RepairChange]) -> Result<()> {
    let mut rows = Vec::new();
    let mut start = 0;
    // Changes of the results are in the order of their messages.
    let mut sorted: Vec<&RepairChange> = changes.iter().collect();
    sorted.sort_by_key(|change| change.kind);
    while let Some(first) = sorted.get(start) {
        let of_kind = sorted.iter().skip(start).take_while(|change| change.kind == first.kind);
        let number = of_kind.count();
        let listed = sorted.iter().skip(start).take(number.min(MAX_LISTED));
        rows.extend(listed.map(|change| row(change)));
        if let Some(more) = number.checked_sub(MAX_LISTED).filter(|more| *more > 0) {
            rows.push(vec![
                Text::plain(words(first).0),
                Text::styled(Style::Dim, format!("and {} more", count(more as u64, "time"))),
                Text::default(),
            ]);
        }
        start += number;
    }
    if rows.is_empty() {
        return Ok(());
    }
    let columns = [Column::words("error"), Column::words("where"), Column::title("repair")];
    Ok(context.output.table(0, &columns, rows)?)
}

fn row(change: &RepairChange) -> Vec<Text> {
    let (what, mend) = words(change);
    let place = match (&change.entry, change.line, change.message) {
        (Some(entry), Some(line), _) => format!("{entry}, line {line}"),
        (Some(entry), None, _) => entry.clone(),
        (None, Some(line), _) => format!("line {line}"),
        (None, None, Some(message)) => format!("message {message}"),
        (None, None, None) => String::new(),
    };
    vec![Text::styled(Style::Warning, what), Text::plain(place), Text::plain(mend)]
}

/// Returns the error and its repair in words.
fn words(change: &RepairChange) -> (&'static str, String) {
    let other = change.other.as_deref().unwrap_or("its call");
    let call = change.call.as_deref().map(|call| format!(" (call {call})")).unwrap_or_default();
    match change.kind {
        ChangeKind::Header => ("invalid header", "a new one, with --rebuild-header".to_owned()),
        ChangeKind::InvalidLine => ("invalid line", "left out".to_owned()),
        ChangeKind::MissingParent => {
            ("missing parent", format!("becomes the first entry: there is no {other}"))
        }
        ChangeKind::CircularParent => {
            ("circular parents", format!("becomes the first entry: {other} comes after it"))
        }
        ChangeKind::ResultApart => ("misplaced result", format!("moved after {other}{call}")),
        ChangeKind::ResultUnnamed => ("result without an id", format!("gets one{call}")),
        ChangeKind::ResultMissing => {
            ("missing result", format!("replaced by a synthetic error{call}"))
        }
        ChangeKind::ResultDouble => ("repeated result", format!("left out{call}")),
        ChangeKind::ResultOrphaned => ("result without a call", format!("left out{call}")),
    }
}
