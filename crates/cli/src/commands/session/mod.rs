//! `quipu session`: sessions as a runtime sees them.

mod context;

use super::Context;
use crate::error::Result;

/// What an agent's runtime asks about a session
///
/// These commands answer from what the ledger holds; they never collect
/// anything first.
///
/// Example:
///   quipu session context last --json | jq '.messages | length'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

/// What can be done with a session.
#[derive(Debug, clap::Subcommand)]
enum Action {
    Context(context::Args),
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    match &args.action {
        Action::Context(args) => context::run(args, context),
    }
}
