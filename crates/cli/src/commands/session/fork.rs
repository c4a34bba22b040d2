//! `quipu session fork`: a new session that begins like another.

use std::path::PathBuf;

use quipu_ledger::store::{Fork, Store};

use super::super::Context;
use super::tell_session;
use crate::error::Result;
use crate::output::count;

/// Make a new session from a path of another one, and print its id
///
/// The path to the leaf, or to --at, is copied with its ids and labels; what
/// stays the same shares its bytes. The new session names its parent. Collected
/// sessions can be forked too: OpenClaw's like quipu's own, Claude Code's as what
/// a model should see of them.
///
/// Examples:
///   quipu session fork 640a
///   quipu session fork 640a --at 65a08635 --key agent:main:explicit:retry
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// The last entry that is copied; `root`: none [default: the leaf]
    #[arg(long, value_name = "ENTRY", allow_hyphen_values = true)]
    at: Option<String>,

    /// The key that leads to the new session
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// The new session's id [default: a new UUID]
    #[arg(long, value_name = "ID")]
    new_id: Option<String>,

    /// Where its agent works [default: where the other one's did]
    #[arg(long, value_name = "FOLDER")]
    cwd: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let mut store = Store::open(&context.settings.ledger.value)?;
    let from = store.find(&args.id)?;
    let cwd = args.cwd.as_ref().map(|cwd| cwd.to_string_lossy());
    let fork = Fork {
        at: args.at.as_deref(),
        id: args.new_id.as_deref(),
        key: args.key.as_deref(),
        cwd: cwd.as_deref(),
    };
    let forked = store.fork(from, &fork)?;
    if forked.unmapped > 0 {
        let said = count(forked.unmapped, "message");
        let warning = format!("{said} kept as custom entries, which no model sees");
        context.output.warn(&warning, Some("pi's shapes have no place for them"));
    }
    tell_session(context, &store, &forked.session)
}
