//! `quipu backup`: a copy of the whole ledger, checked before it gets its name.

use std::path::PathBuf;

use quipu_ledger::{BackupProgress, BackupTarget, Error, Ledger, Trouble};

use super::Context;
use crate::error::{CommandError, Result};
use crate::output::{Bar, Look, Text, bytes, count};
use crate::paths;

/// Copy the whole ledger to one file
///
/// Works while others write to the ledger; the copy is the ledger of one moment.
/// It is written under a hidden name, checked (every page, every collected byte),
/// and only then gets its name: a backup is there and complete, or not there.
/// A backup is a ledger itself: `quipu status --ledger FILE` reads it.
///
/// Example:
///   quipu backup /mnt/disk/quipu-2026-11-15.db
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace FILE if it exists, once the new copy is complete and checked
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let here = std::env::current_dir().unwrap_or_default();
    let file = paths::resolve(&args.file, context.settings.home.as_deref(), &here)?;
    let mut ledger = open(context)?;
    let mut bar = context.output.bar();
    let target = BackupTarget { path: &file, replace: args.force };
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
        let shown = context.show(&file);
        context.output.line(
            Text::of(Look::Good, count(report.sessions, "session"))
                .and(format!(", {} ", count(report.records, "record")))
                .and(format!("({}) copied to {shown} and checked", bytes(report.bytes))),
        )?;
    }
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
        (Err(error), Some(readable)) if error.trouble() == Trouble::ReadOnly => Ok(readable),
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
