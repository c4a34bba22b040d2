//! `quipu session label`: a name for an entry.

use super::super::Context;
use super::{How, look, open, tell};
use crate::error::Result;
use crate::output::{Column, Look, Text};

/// List the labels of a session, give an entry one, or take it away
///
/// Examples:
///   quipu session label 640a
///   quipu session label 640a 65a08635 'before the rewrite'
///   quipu session label 640a 65a08635
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// The entry; without one, all labels are listed
    #[arg(value_name = "ENTRY", allow_hyphen_values = true)]
    entry: Option<String>,

    /// The label; without one, the entry has none any more
    #[arg(value_name = "LABEL", allow_hyphen_values = true)]
    label: Option<String>,

    #[command(flatten)]
    how: How,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let Some(entry) = &args.entry else { return list(args, context) };
    let (mut store, session) = open(context, &args.id)?;
    let labelled = store.label(&session, entry, args.label.as_deref(), args.how.append());
    tell(context, labelled).map(|_| ())
}

fn list(args: &Args, context: &mut Context) -> Result<()> {
    let (ledger, row) = look(context, &args.id)?;
    let labels = quipu_ledger::store::labels(&ledger, row)?;
    if context.is_json {
        for label in &labels {
            context.output.json(label)?;
        }
        return Ok(());
    }
    let rows = labels
        .iter()
        .map(|label| vec![Text::of(Look::Good, &label.target), Text::plain(&label.label)]);
    let rows = rows.collect();
    Ok(context.output.table(0, &[Column::words("entry"), Column::title("label")], rows)?)
}
