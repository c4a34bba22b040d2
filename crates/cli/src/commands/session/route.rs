//! `quipu session route`: the session that a message belongs to.

use std::path::PathBuf;

use quipu_ledger::store::{Store, bootstrap_of};
use quipu_transcript::routing::{AgentId, Channel, Chat, Inbound, Thread};

use super::super::Context;
use super::append::text_input;
use super::working_folder;
use crate::error::{CommandError, Result};
use crate::output::now_ms;
use crate::zone;

/// Find or create the session that a message belongs to
///
/// Unknown senders are refused or get a pairing code, commands (/new, /reset,
/// /sessions, /session KEY) are executed, and a session whose reset is due is reset.
/// Prints {session_key, session_id, is_admitted, reply, bootstrap, text, …}: the
/// reply to send at once, the workspace files for the model, and the text to begin
/// the turn with. The message itself is not stored; `session begin` does that.
///
/// Examples:
///   quipu session route --channel telegram --peer 821071206 --text hello
///   quipu session route --channel discord --chat group --peer 77 --sender 5 < message.txt
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The channel of the message: telegram, discord, …
    #[arg(long, value_name = "CHANNEL")]
    channel: String,

    /// The kind of conversation: direct, group, channel or room
    #[arg(long, value_name = "KIND", default_value = "direct")]
    chat: String,

    /// The id of the other person, or of the group
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    peer: String,

    /// The id of the sender [default: the other person of a direct conversation]
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    sender: Option<String>,

    /// The agent's account that received the message
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    account: Option<String>,

    /// The thread of the message
    #[arg(long, value_name = "ID", conflicts_with = "topic", allow_hyphen_values = true)]
    thread: Option<String>,

    /// The forum topic of the message
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    topic: Option<String>,

    /// The agent that the message is for
    #[arg(long, value_name = "AGENT", default_value = "main")]
    agent: String,

    /// The text of the message [default: read from standard input]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,

    /// The agent's working folder, for a new session [default: the current folder]
    #[arg(long, value_name = "FOLDER")]
    cwd: Option<PathBuf>,

    /// The agent's workspace; its bootstrap files are listed when a conversation begins
    #[arg(long, value_name = "FOLDER")]
    workspace: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let inbound = inbound(args)?;
    let routing = context.settings.store.routing()?;
    let store = Store::open(&context.settings.ledger.value)?;
    let zone = zone::zone();
    let cwd = working_folder(args.cwd.as_deref());
    let (settings, now) = (&routing.settings, now_ms());
    let routed = store.route_in(cwd.as_deref(), settings, &inbound, now, &zone)?;
    let bootstrap = match &args.workspace {
        Some(workspace) if routed.starts => bootstrap_of(workspace)?,
        _ => Vec::new(),
    };
    Ok(context.output.json(&routed.message(bootstrap))?)
}

fn inbound(args: &Args) -> Result<Inbound> {
    let refuse = |error: quipu_transcript::routing::names::BadName| {
        CommandError::from_source(anyhow::Error::new(error))
    };
    let chat = Chat::parse(&args.chat).ok_or_else(|| {
        let names: Vec<&str> = Chat::NAMES.iter().map(|(name, _)| *name).collect();
        CommandError::new(format!("`{}` is not a kind of conversation", args.chat))
            .hint(format!("kinds are {}", names.join(", ")))
    })?;
    Ok(Inbound {
        agent: AgentId::parse(&args.agent).map_err(refuse)?,
        channel: Channel::parse(&args.channel).map_err(refuse)?,
        account: args.account.clone(),
        chat,
        peer: args.peer.clone(),
        sender: args.sender.clone().unwrap_or_default(),
        thread: match (&args.topic, &args.thread) {
            (Some(topic), _) => Some(Thread::Topic(topic.clone())),
            (None, thread) => thread.clone().map(Thread::Thread),
        },
        text: match &args.text {
            Some(text) => text.clone(),
            None => text_input()?,
        },
    })
}
