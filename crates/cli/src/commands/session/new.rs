//! `quipu session new`: an empty session.

use std::path::PathBuf;

use quipu_ledger::store::{NewSession, Store};

use super::super::Context;
use super::{print_session, working_folder};
use crate::error::Result;

/// Create an empty session, and print its id
///
/// Examples:
///   quipu session new
///   quipu session new --key agent:main:main --cwd ~/project --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The agent of the session [default: the key's agent, or main]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// The session key of the session
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// The id of the session [default: a new UUID]
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// The agent's working folder [default: the current folder]
    #[arg(long, value_name = "FOLDER")]
    cwd: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let store = Store::open(&context.settings.ledger.value)?;
    let cwd = working_folder(args.cwd.as_deref());
    let session = store.create(&NewSession {
        agent: args.agent.as_deref(),
        id: args.id.as_deref(),
        key: args.key.as_deref(),
        cwd: cwd.as_deref(),
        ..NewSession::default()
    })?;
    print_session(context, &session)
}
