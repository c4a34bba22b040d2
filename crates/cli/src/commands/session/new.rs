//! `quipu session new`: a session that is empty.

use std::path::PathBuf;

use quipu_ledger::store::{NewSession, Store};

use super::super::Context;
use super::tell_session;
use crate::error::Result;

/// Make a new session, and print its id
///
/// Examples:
///   quipu session new
///   quipu session new --key agent:main:main --cwd ~/project --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Whose it is [default: the key's agent, or main]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// The key that leads to it from now on
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Its id [default: a new UUID]
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// Where the agent works
    #[arg(long, value_name = "FOLDER")]
    cwd: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let mut store = Store::open(&context.settings.ledger.value)?;
    let cwd = args.cwd.as_ref().map(|cwd| cwd.to_string_lossy());
    let session = store.create(&NewSession {
        agent: args.agent.as_deref(),
        id: args.id.as_deref(),
        key: args.key.as_deref(),
        cwd: cwd.as_deref(),
        ..NewSession::default()
    })?;
    tell_session(context, &store, &session)
}
