//! `quipu rebuild`: derives the projection again, from the stored raw data alone.

use quipu_ledger::wire::RebuildReport;
use quipu_ledger::{Error, Ledger};

use super::Context;
use crate::error::Result;
use crate::output::{Style, Text, count, sessions};
use crate::reading;

/// Rebuild sessions, usage and the search index from the stored raw data
///
/// Drops all readable tables (sessions, turns, tool calls, usage, the search
/// index) and derives them again from the raw data in the ledger. Reads no
/// source files and changes no raw data. If it is interrupted, the next sync
/// continues it.
///
/// Example:
///   quipu rebuild
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, context: &mut Context) -> Result<()> {
    // A rebuild never creates a ledger. It also migrates a ledger of an older version.
    let path = context.settings.ledger.value.clone();
    if !Ledger::is_at(&path)? {
        return match reading::is_named(context) {
            true => Err(Error::Absent { path }.into()),
            false => nothing(context),
        };
    }
    let mut ledger = context.open()?;
    let mut bar = context.output.bar();
    let report = quipu_ledger::rebuild::rebuild(&mut ledger, &mut |done, total| {
        bar.records("rebuilding", done, total);
    })?;
    drop(bar);
    if context.is_json {
        context.output.json(&report)?;
    } else if !context.output.is_quiet() {
        context.output.line(
            Text::plain("rebuilt ")
                .with(Style::Good, sessions(report.sessions, report.subagents))
                .and(format!(" from {}", count(report.records, "record"))),
        )?;
    }
    Ok(())
}

fn nothing(context: &mut Context) -> Result<()> {
    if context.is_json {
        context.output.json(&RebuildReport::default())?;
    } else if !context.output.is_quiet() {
        let nothing = "nothing to rebuild: there is no ledger yet; run `quipu sync`";
        context.output.line(context.shell.sentence(nothing))?;
    }
    Ok(())
}
