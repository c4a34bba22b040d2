//! `quipu rebuild`: the projection again, from truth alone.

use quipu_ledger::wire::RebuildReport;
use quipu_ledger::{Error, Ledger};

use super::Context;
use crate::error::Result;
use crate::output::{Look, Text, count};
use crate::reading;

/// Derive everything understood from the collected bytes again
///
/// Drops sessions, turns, tool calls, usage and the search index, and derives
/// them again from the bytes in the ledger. Reads no source files and changes
/// no collected byte. If it is interrupted, the next sync goes on with it.
///
/// Example:
///   quipu rebuild
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, context: &mut Context) -> Result<()> {
    // A rebuild of a ledger that is not there must not make one. One of an older quipu can be
    // brought up to date by it.
    match Ledger::open_read_only(&context.settings.ledger.value) {
        Ok(_) | Err(Error::Older { .. }) => {}
        Err(Error::Absent { .. }) if !reading::is_named(context) => return nothing(context),
        Err(error) => return Err(error.into()),
    }
    let mut ledger = context.open()?;
    let mut bar = context.output.bar();
    let report = quipu_ledger::rebuild(&mut ledger, &mut |done, total| {
        bar.records("rebuilding", done, total);
    })?;
    drop(bar);
    if context.is_json {
        context.output.json(&report)?;
    } else if !context.output.is_quiet() {
        context.output.line(
            Text::plain("rebuilt ")
                .with(Look::Good, count(report.sessions, "session"))
                .and(format!(" from {}", count(report.records, "record"))),
        )?;
    }
    Ok(())
}

fn nothing(context: &mut Context) -> Result<()> {
    if context.is_json {
        context.output.json(&RebuildReport::default())?;
    } else if !context.output.is_quiet() {
        context.output.line("nothing to rebuild: there is no ledger yet; run `quipu sync`")?;
    }
    Ok(())
}
