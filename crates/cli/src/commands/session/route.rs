//! `quipu session route`: the session that a message belongs to.

use std::path::{Path, PathBuf};

use quipu_ledger::store::Store;
use quipu_ledger::wire::RoutedMessage;
use quipu_transcript::routing::{AgentId, Channel, Chat, Inbound, Thread, bootstrap_files};

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
        Some(workspace) if routed.starts => file_names(workspace)?,
        _ => Vec::new(),
    };
    let bootstrap = bootstrap_files(bootstrap.iter().map(String::as_str));
    Ok(context.output.json(&RoutedMessage {
        session_key: &routed.key,
        session_id: routed.session.as_ref().map(|session| session.id()),
        is_created: routed.created,
        reset: routed.reset,
        is_admitted: routed.admission.is_admitted(),
        reason: routed.admission.why(),
        reply: routed.reply.as_deref(),
        is_beginning: routed.starts,
        bootstrap,
        text: routed.message.as_deref(),
    })?)
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

/// Returns the names of the files in a workspace; none if it does not exist.
fn file_names(workspace: &Path) -> Result<Vec<String>> {
    let failed = |error: std::io::Error| {
        let what = format!("cannot list the workspace {}", workspace.display());
        CommandError::from_source(anyhow::Error::new(error).context(what))
    };
    let entries = match std::fs::read_dir(workspace) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        // Only regular files are listed.
        if std::fs::metadata(entry.path()).is_ok_and(|meta| meta.is_file()) {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}
