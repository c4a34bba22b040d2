//! `quipu session leaf`: the entry that the next one attaches to.

use quipu_ledger::wire::Leaf;

use super::super::Context;
use super::{AppendArgs, entry, open_to_write, print_appended};
use crate::error::Result;

/// Print the leaf of a session, or move it
///
/// The next entry attaches to the leaf. Moving the leaf to an earlier entry
/// begins a branch; all entries are kept.
///
/// Examples:
///   quipu session leaf 640a
///   quipu session leaf 640a 65a08635
///   quipu session leaf 640a root
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A session id or an unambiguous beginning of one, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// The new leaf; `root` means before the first entry
    #[arg(value_name = "ENTRY", allow_hyphen_values = true)]
    to: Option<String>,

    #[command(flatten)]
    how: AppendArgs,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let Some(to) = &args.to else {
        // If the last lines are not projected yet, the leaf is read from the lines themselves.
        let path = &context.settings.ledger.value;
        let (ledger, is_behind) = quipu_ledger::store::open_for_lines(path)?;
        if is_behind {
            super::warn_of_rebuild(context, &ledger)?;
        }
        let row = quipu_ledger::query::find_session(&ledger, &args.id)?;
        let leaf = quipu_ledger::store::leaf_of(&ledger, row)?;
        if context.is_json {
            return Ok(context.output.json(&Leaf { leaf })?);
        }
        return Ok(context.output.line(leaf.as_deref().unwrap_or(super::ROOT))?);
    };
    let session = open_to_write(context, &args.id)?;
    let moved = session.with(args.how.append()).branch(entry(to), None);
    print_appended(context, moved).map(|_| ())
}
