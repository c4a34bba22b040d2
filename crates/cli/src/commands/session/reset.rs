//! `quipu session reset`: the conversation begins anew, and nothing is lost.

use super::super::Context;
use super::{How, open, tell};
use crate::error::Result;

/// Empty the conversation of a session
///
/// What was said before is no longer part of the context; it stays readable and
/// searchable. Key and id stay.
///
/// Example:
///   quipu session reset agent:main:main
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// Why: new, reset, idle, daily or cron-stale
    #[arg(long, value_name = "WHY", default_value = "reset")]
    reason: String,

    /// The first entry that stays part of the context
    #[arg(long, value_name = "ENTRY", allow_hyphen_values = true)]
    keep: Option<String>,

    #[command(flatten)]
    how: How,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let (mut store, session) = open(context, &args.id)?;
    let reset = store.reset(&session, &args.reason, args.keep.as_deref(), args.how.append());
    tell(context, reset).map(|_| ())
}
