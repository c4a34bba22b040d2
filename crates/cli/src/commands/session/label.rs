//! `quipu session label`: names for entries.

use super::super::Context;
use super::{AppendArgs, open_to_read, open_to_write, print_appended};
use crate::error::Result;
use crate::output::{Column, Style, Text};

/// List the labels of a session, or set or remove one
///
/// Examples:
///   quipu session label 640a
///   quipu session label 640a 65a08635 'before the rewrite'
///   quipu session label 640a 65a08635
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A session id or an unambiguous beginning of one, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// The entry; without it, all labels are listed
    #[arg(value_name = "ENTRY", allow_hyphen_values = true)]
    entry: Option<String>,

    /// The label; without it, the entry's label is removed
    #[arg(value_name = "LABEL", allow_hyphen_values = true)]
    label: Option<String>,

    #[command(flatten)]
    how: AppendArgs,
}

impl Args {
    /// Returns whether it prints a list.
    pub(super) fn is_list(&self) -> bool {
        self.entry.is_none()
    }
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let Some(entry) = &args.entry else { return list(args, context) };
    let session = open_to_write(context, &args.id)?;
    let labelled = session.with(args.how.append()).label(entry, args.label.as_deref());
    print_appended(context, labelled).map(|_| ())
}

fn list(args: &Args, context: &mut Context) -> Result<()> {
    let (ledger, row) = open_to_read(context, &args.id)?;
    let labels = quipu_ledger::store::labels_of(&ledger, row)?;
    if context.is_json {
        for label in &labels {
            context.output.json(label)?;
        }
        return Ok(());
    }
    let rows = labels
        .iter()
        .map(|label| vec![Text::styled(Style::Good, &label.entry_id), Text::plain(&label.label)]);
    let rows = rows.collect();
    Ok(context.output.table(0, &[Column::words("entry"), Column::title("label")], rows)?)
}
