//! `quipu backup`: a copy of the whole ledger, checked before it gets its name, and back again.

use std::path::{Path, PathBuf};

use quipu_ledger::{BackupProgress, BackupTarget, Error, Ledger, Trouble};

use super::Context;
use crate::error::{CommandError, Result};
use crate::output::{Bar, Look, Text, bytes, count};
use crate::paths;

/// Copy the whole ledger to one file, or put such a copy in its place
///
/// Works while others write to the ledger; the copy is the ledger of one moment.
/// It is written under a hidden name, checked (every page, every collected byte),
/// and only then gets its name: a backup is there and complete, or not there.
/// A backup is a ledger itself: `quipu status --ledger FILE` reads it.
///
/// With --restore, FILE is checked and takes the ledger's place; the ledger that
/// stood there is kept beside it. The next sync collects what happened since.
///
/// Examples:
///   quipu backup /mnt/disk/quipu-2026-11-15.db
///   quipu backup --restore /mnt/disk/quipu-2026-11-15.db
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Put FILE in the ledger's place
    #[arg(long)]
    restore: bool,

    /// Replace FILE if it exists; with --restore: put aside whatever stands at the
    /// ledger's path, also another ledger than the one that FILE is a copy of
    #[arg(long)]
    force: bool,

    /// Restore without asking
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
        quipu_ledger::backup(&mut ledger, target, &mut |progress| show(&mut bar, progress))
            .map_err(cannot_back_up)?;
    drop(bar);
    if !report.remembered {
        let warning = "the ledger cannot be written to, so it will not remember this backup";
        context.output.warn(warning, None);
    }
    if context.is_json {
        context.output.json(&report)?;
    } else if !context.output.is_quiet() {
        let shown = context.show(file);
        context.output.line(
            Text::of(Look::Good, count(report.sessions, "session"))
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
    let prepared = quipu_ledger::prepare_restore(&ledger, file, args.force, &mut |progress| {
        show(&mut bar, progress);
    })
    .map_err(|error| cannot_restore(error, &ledger))?;
    drop(bar);
    let is_of_another = prepared.is_of_another_ledger();
    if is_of_another && args.yes && !args.force {
        let what = format!("{} is a copy of another ledger, not of {shown}", context.show(file));
        return Err(CommandError::new(what)
            .hint("nothing was changed; say --force to put it in this one's place all the same"));
    }
    if !args.yes {
        let question = format!(
            "{}Put {} ({}, {}) in the place of {shown}?",
            if is_of_another { "This is a copy of another ledger. " } else { "" },
            context.show(file),
            count(prepared.sessions(), "session"),
            count(prepared.records(), "record"),
        );
        match context.output.ask(question)? {
            Some(true) => {}
            Some(false) => return Err(CommandError::new("nothing was changed")),
            None => {
                let hint = match is_of_another {
                    true => {
                        "it is a copy of another ledger, and nobody can be asked here; say --yes --force if that is what you want"
                    }
                    false => "nobody can be asked here; say --yes if that is what you want",
                };
                return Err(CommandError::new("restoring a backup replaces the ledger").hint(hint));
            }
        }
    }
    let report = prepared.swap().map_err(|error| cannot_restore(error, &ledger))?;
    // It is no copy any more: this machine collects into it.
    drop(context.open_to_collect()?);
    if !report.forgotten.is_empty() {
        let warning = format!(
            "{} that {} forgotten after this backup was made {} back: {}",
            count(report.forgotten.len() as u64, "session"),
            if report.forgotten.len() == 1 { "was" } else { "were" },
            if report.forgotten.len() == 1 { "is" } else { "are" },
            report.forgotten.join(", ")
        );
        context.output.warn(&warning, Some("run `quipu forget` for each of them again"));
    }
    if context.is_json {
        context.output.json(&report)?;
        return Ok(());
    }
    if context.output.is_quiet() {
        return Ok(());
    }
    context.output.line(
        Text::of(Look::Good, count(report.sessions, "session"))
            .and(format!(", {} restored to {shown}", count(report.records, "record"))),
    )?;
    let mut facts = Vec::new();
    if let Some(kept) = &report.kept {
        facts
            .push(("kept", Text::plain(context.show(kept)).with(Look::Dim, "  the ledger before")));
    }
    facts.push(("next", Text::plain("`quipu sync` collects what happened since")));
    context.output.facts(2, &facts)?;
    Ok(())
}

/// Opens the ledger so that it can remember the backup, or else for reading; never creates one.
fn open(context: &Context) -> Result<Ledger> {
    let readable = match Ledger::open_read_only(&context.settings.ledger.value) {
        // Opening it for writing brings it up to date.
        Err(Error::Older { .. }) => None,
        readable => Some(readable?),
    };
    match (Ledger::open(&context.settings.ledger.value), readable) {
        (Ok(ledger), _) => Ok(ledger),
        (Err(error), Some(readable))
            if matches!(error.trouble(), Trouble::ReadOnly | Trouble::DiskFull) =>
        {
            Ok(readable)
        }
        (Err(error), _) => Err(error.into()),
    }
}

fn show(bar: &mut Bar, progress: BackupProgress) {
    match progress {
        BackupProgress::Copied { done, total } => bar.bytes("copying", done, total),
        BackupProgress::Checked { done, total } => bar.bytes("checking", done, total),
    }
}

/// What gets in the way is the backup's target, not the ledger.
fn cannot_back_up(error: Error) -> CommandError {
    let hint = match (&error, error.trouble()) {
        (Error::TargetExists { .. }, _) => {
            "nothing was changed; name another file, or replace this one with --force"
        }
        (Error::Target { .. }, _) => "nothing was changed; name another file",
        (Error::Copy { .. } | Error::Io { .. }, Trouble::DiskFull) => {
            "make room there, or name a file on another disk; nothing was left behind and the ledger is as it was"
        }
        (Error::Io { .. }, _) => "name a file in a folder that exists and that you may write to",
        (Error::Unsound { .. }, _) => {
            "the backup was not kept; run `quipu doctor` to see whether the ledger is damaged"
        }
        _ => return error.into(),
    };
    CommandError::from_source(error.into()).hint(hint)
}

/// What is wrong with a backup, or with what stands where it is to go.
fn cannot_restore(error: quipu_ledger::Error, ledger: &Path) -> CommandError {
    use quipu_ledger::Error;
    let hint = match &error {
        Error::NotALedger { path, .. } if path == ledger => {
            "nothing was changed; say --force to put it aside and restore the backup all the same"
        }
        Error::NotALedger { .. } | Error::SameFile { .. } => {
            "nothing was changed; name a file that `quipu backup` wrote"
        }
        Error::Absent { .. } => "name a file that `quipu backup` wrote",
        Error::Unsound { .. } => "nothing was changed; use another backup",
        Error::InUse { .. } => {
            "nothing was changed; stop `quipu watch`, its service and whatever else has the ledger open, then try again"
        }
        Error::Copy { .. } | Error::Io { .. } if error.trouble() == Trouble::DiskFull => {
            "make room on the ledger's disk; nothing was changed"
        }
        _ => return error.into(),
    };
    CommandError::from_source(error.into()).hint(hint)
}
