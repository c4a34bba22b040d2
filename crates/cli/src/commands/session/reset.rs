//! `quipu session reset`: empties the context of a session, and keeps all entries.

use super::super::Context;
use super::{AppendArgs, open_to_write, print_appended};
use crate::error::Result;

/// Empty the context of a session; its entries are kept
///
/// Earlier entries are no longer part of the context; they stay readable and
/// searchable. Session key and id stay the same.
///
/// Example:
///   quipu session reset agent:main:main
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A session id or an unambiguous beginning of one, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// The reason: new, reset, idle, daily or cron-stale
    #[arg(long, value_name = "WHY", default_value = "reset")]
    reason: String,

    /// Keep this entry and those after it in the context
    #[arg(long, value_name = "ENTRY", allow_hyphen_values = true)]
    keep: Option<String>,

    #[command(flatten)]
    how: AppendArgs,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let session = open_to_write(context, &args.id)?;
    let reset = session.with(args.how.append()).reset(&args.reason, args.keep.as_deref());
    print_appended(context, reset).map(|_| ())
}
