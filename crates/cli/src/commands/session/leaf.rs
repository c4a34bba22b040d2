//! `quipu session leaf`: where the next entry hangs.

use super::super::Context;
use super::{How, entry, look, open, tell};
use crate::error::Result;

/// Print the leaf of a session, or move it
///
/// The next entry hangs off the leaf. Moving it to an earlier entry begins a
/// branch; nothing is lost.
///
/// Examples:
///   quipu session leaf 640a
///   quipu session leaf 640a 65a08635
///   quipu session leaf 640a root
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// The entry that it moves to; `root`: before the first one
    #[arg(value_name = "ENTRY", allow_hyphen_values = true)]
    to: Option<String>,

    #[command(flatten)]
    how: How,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let Some(to) = &args.to else {
        let (ledger, row) = look(context, &args.id)?;
        let leaf = quipu_ledger::store::leaf(&ledger, row)?;
        if context.is_json {
            return Ok(context.output.json(&serde_json::json!({"leaf": leaf}))?);
        }
        return Ok(context.output.line(leaf.as_deref().unwrap_or(super::ROOT))?);
    };
    let (mut store, session) = open(context, &args.id)?;
    let moved = store.branch(&session, entry(to), None, args.how.append());
    tell(context, moved).map(|_| ())
}
