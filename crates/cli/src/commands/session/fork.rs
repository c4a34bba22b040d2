//! `quipu session fork`: a new session that starts from an entry of another one.

use std::path::PathBuf;

use quipu_ledger::store::{Fork, Store};

use super::super::Context;
use super::print_session;
use crate::error::Result;
use crate::output::count;

/// Create a session from a path of another session, and print its id
///
/// Copies the path to the leaf, or to --at, with its ids and labels; unchanged
/// entries share their bytes. The new session records its parent. Collected
/// sessions can be forked too: entries of OpenClaw are copied unchanged, and of a
/// Claude Code session, the messages that a model should see are copied.
///
/// Examples:
///   quipu session fork 640a
///   quipu session fork 640a --at 65a08635 --key agent:main:explicit:retry
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A session id or an unambiguous beginning of one, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// The last entry to copy; `root` copies none [default: the leaf]
    #[arg(long, value_name = "ENTRY", allow_hyphen_values = true)]
    at: Option<String>,

    /// The session key of the new session
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// The new session's id [default: a new UUID]
    #[arg(long, value_name = "ID")]
    new_id: Option<String>,

    /// The agent's working folder [default: that of the other session]
    #[arg(long, value_name = "FOLDER")]
    cwd: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let store = Store::open(&context.settings.ledger.value)?;
    let cwd = args.cwd.as_ref().map(|cwd| cwd.to_string_lossy());
    let fork = Fork {
        at: args.at.as_deref(),
        id: args.new_id.as_deref(),
        key: args.key.as_deref(),
        cwd: cwd.as_deref(),
    };
    let forked = store.fork(&args.id, &fork)?;
    if forked.unmapped > 0 {
        let messages = count(forked.unmapped, "message");
        let warning =
            format!("{messages} kept as custom entries, which are not part of the context");
        context.output.warn(&warning, Some("pi's format has no message type for them"));
    }
    print_session(context, &forked.session)
}
