//! `quipu backup`: copies the whole ledger to one file and checks it, or restores such a copy.

use std::path::{Path, PathBuf};

use quipu_ledger::backup::{BackupProgress, BackupTarget};
use quipu_ledger::{Error, Ledger, Trouble};

use super::Context;
use crate::error::{CommandError, Result};
use crate::output::{Bar, Style, Text, bytes, count, sessions};
use crate::paths;

/// Copy the whole ledger to one file, or restore such a copy
///
/// Works while other processes write to the ledger; the copy is a consistent
/// snapshot. It is written under a hidden name and checked (every page, every
/// stored byte) before it is renamed to FILE. If FILE exists, it is complete.
/// A backup is a ledger: `quipu status --ledger FILE` reads it.
///
/// With --restore, FILE is checked and replaces the ledger. The old ledger is
/// kept next to it. The next sync collects everything written since the backup.
///
/// Examples:
///   quipu backup /mnt/disk/quipu-2026-11-15.db
///   quipu backup --restore /mnt/disk/quipu-2026-11-15.db
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The backup file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace the ledger with FILE
    #[arg(long)]
    restore: bool,

    /// Overwrite FILE if it exists. With --restore: replace the ledger even if FILE is a
    /// copy of another ledger, or the file at the ledger's path is not a ledger
    #[arg(long)]
    force: bool,

    /// Do not ask for confirmation
    #[arg(long, requires = "restore")]
    yes: bool,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let here = std::env::current_dir().unwrap_or_default();
    let file = paths::resolve(&args.file, context.settings.home.as_deref(), &here)?;
    if args.restore { restore(args, context, &file) } else { make(args, context, &file) }
}

fn make(args: &Args, context: &mut Context, file: &Path) -> Result<()> {
    let mut ledger = open(context)?;
    let mut bar = context.output.bar();
    let target = BackupTarget { path: file, replace: args.force };
    let report =
        quipu_ledger::backup::backup(&mut ledger, target, &mut |progress| show(&mut bar, progress))
            .map_err(cannot_back_up)?;
    drop(bar);
    if !report.is_recorded {
        context.output.warn(
            "the ledger could not be written to, so this backup is not recorded in it",
            Some("`quipu forget` will not list this backup"),
        );
    }
    if context.is_json {
        context.output.json(&report)?;
    } else if !context.output.is_quiet() {
        let shown = context.show(file);
        context.output.line(
            Text::styled(Style::Good, sessions(report.sessions, report.subagents))
                .and(format!(", {} ", count(report.records, "record")))
                .and(format!("({}) copied to {shown} and checked", bytes(report.bytes))),
        )?;
    }
    Ok(())
}

fn restore(args: &Args, context: &mut Context, file: &Path) -> Result<()> {
    let ledger = context.settings.ledger.value.clone();
    let shown = context.show(&ledger);
    let mut bar = context.output.bar();
    let prepared =
        quipu_ledger::backup::prepare_restore(&ledger, file, args.force, &mut |progress| {
            show(&mut bar, progress);
        })
        .map_err(|error| cannot_restore(error, &ledger))?;
    drop(bar);
    let is_of_another = prepared.is_of_another_ledger();
    if is_of_another && args.yes && !args.force {
        let what = format!("{} is a copy of another ledger, not of {shown}", context.show(file));
        return Err(CommandError::new(what)
            .hint("nothing was changed; use --force to replace the ledger anyway"));
    }
    if !args.yes {
        let (session_count, subagents) = prepared.session_counts();
        let question = format!(
            "{}Replace {shown} with {} ({}, {})?",
            if is_of_another { "This is a copy of another ledger. " } else { "" },
            context.show(file),
            sessions(session_count, subagents),
            count(prepared.records(), "record"),
        );
        match context.output.ask(question)? {
            Some(true) => {}
            Some(false) => return Err(CommandError::new("nothing was changed")),
            None => {
                let hint = match is_of_another {
                    true => {
                        "it is a copy of another ledger, and there is no terminal to ask on; use --yes --force to restore it"
                    }
                    false => "there is no terminal to ask on; use --yes to restore",
                };
                return Err(CommandError::new("restoring a backup replaces the ledger").hint(hint));
            }
        }
    }
    let report = prepared.swap().map_err(|error| cannot_restore(error, &ledger))?;
    // Opening it gives the restored file a write-ahead log and a lock, so that it no longer counts
    // as a backup, and stores that this machine collects into it.
    drop(context.open_to_collect()?);
    if !report.forgotten_session_ids.is_empty() {
        let warning = format!(
            "{} that {} forgotten after this backup was made {} back: {}",
            count(report.forgotten_session_ids.len() as u64, "session"),
            if report.forgotten_session_ids.len() == 1 { "was" } else { "were" },
            if report.forgotten_session_ids.len() == 1 { "is" } else { "are" },
            report.forgotten_session_ids.join(", ")
        );
        context.output.warn(&warning, Some("run `quipu forget` again for each of them"));
    }
    if context.is_json {
        context.output.json(&report)?;
        return Ok(());
    }
    if context.output.is_quiet() {
        return Ok(());
    }
    context.output.line(
        Text::styled(Style::Good, sessions(report.sessions, report.subagents))
            .and(format!(", {} restored to {shown}", count(report.records, "record"))),
    )?;
    let mut facts = Vec::new();
    if let Some(kept) = &report.former_ledger_path {
        facts.push(("kept", Text::plain(context.show(kept)).with(Style::Dim, "  the old ledger")));
    }
    let next = context.shell.sentence("`quipu sync` collects everything written since the backup");
    facts.push(("next", Text::plain(next)));
    context.output.facts(2, &facts)?;
    Ok(())
}

/// Opens the ledger for writing, to record the backup in it. Opens it for reading if it cannot be
/// written to.
fn open(context: &Context) -> Result<Ledger> {
    let path = &context.settings.ledger.value;
    if !Ledger::is_at(path)? {
        return Err(Error::Absent { path: path.clone() }.into());
    }
    match Ledger::open(path) {
        Err(error) if matches!(error.trouble(), Trouble::ReadOnly | Trouble::DiskFull) => {
            Ok(Ledger::open_read_only(path)?)
        }
        opened => Ok(opened?),
    }
}

fn show(bar: &mut Bar, progress: BackupProgress) {
    match progress {
        BackupProgress::Copied { done, total } => bar.bytes("copying", done, total),
        BackupProgress::Checked { done, total } => bar.bytes("checking", done, total),
    }
}

/// Adds a hint to an error of making a backup. Most of these errors are about FILE, not about the
/// ledger.
fn cannot_back_up(error: Error) -> CommandError {
    let hint = match (&error, error.trouble()) {
        (Error::TargetExists { .. }, _) => {
            "nothing was changed; name another file, or replace this one with --force"
        }
        (Error::Target { .. }, _) => "nothing was changed; name another file",
        (Error::Copy { .. } | Error::Io { .. }, Trouble::DiskFull) => {
            "free some space, or name a file on another disk; no partial file was left, and the ledger is unchanged"
        }
        (Error::Io { .. }, _) => "name a file in a folder that exists and is writable",
        (Error::Unsound { .. }, _) => {
            "the backup was deleted; run `quipu doctor` to check the ledger"
        }
        _ => return error.into(),
    };
    CommandError::from_source(error.into()).hint(hint)
}

/// Adds a hint to an error of restoring a backup over the file at `ledger`.
fn cannot_restore(error: quipu_ledger::Error, ledger: &Path) -> CommandError {
    use quipu_ledger::Error;
    let hint = match &error {
        Error::NotALedger { path, .. } if path == ledger => {
            "nothing was changed; use --force to keep that file under another name and restore anyway"
        }
        Error::NotALedger { .. } | Error::SameFile { .. } => {
            "nothing was changed; name a file that `quipu backup` wrote"
        }
        Error::Absent { .. } => "name a file that `quipu backup` wrote",
        Error::Unsound { .. } => "nothing was changed; use another backup",
        Error::InUse { .. } => {
            "nothing was changed; stop `quipu watch`, its service and every other process that has the ledger open, then try again"
        }
        Error::Copy { .. } | Error::Io { .. } if error.trouble() == Trouble::DiskFull => {
            "free some space on the ledger's disk; nothing was changed"
        }
        _ => return error.into(),
    };
    CommandError::from_source(error.into()).hint(hint)
}
