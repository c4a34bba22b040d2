//! `quipu session label`: a name for an entry.

use super::super::Context;
use super::{How, open, tell};
use crate::error::Result;

/// Give an entry a label, or take it away
///
/// Examples:
///   quipu session label 640a 65a08635 'before the rewrite'
///   quipu session label 640a 65a08635
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// The entry
    #[arg(value_name = "ENTRY", allow_hyphen_values = true)]
    entry: String,

    /// The label; without one, the entry has none any more
    #[arg(value_name = "LABEL", allow_hyphen_values = true)]
    label: Option<String>,

    #[command(flatten)]
    how: How,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let (mut store, session) = open(context, &args.id)?;
    let labelled = store.label(&session, &args.entry, args.label.as_deref(), args.how.append());
    tell(context, labelled).map(|_| ())
}
