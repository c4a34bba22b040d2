//! `quipu session append`, `begin` and `mirror`: what is said.

use std::io::{BufRead, Read};

use quipu_ledger::store::{Append, Appended, Expect};
use quipu_transcript::native::NewEntry;

use super::super::Context;
use super::{How, open, tell};
use crate::error::{CommandError, Kind, Result};

/// More than this on one line of standard input is no entry.
const LONGEST: u64 = 64 << 20;

/// Append entries or messages to a session
///
/// Reads one JSON object per line on standard input: an entry in pi's shapes
/// (message, model_change, thinking_level_change, compaction, branch_summary,
/// custom, custom_message, label, session_info, usage, context_edit, leaf,
/// reset), or a bare message. Prints {id, seq, leaf} for each, once it is on
/// disk. The first line that is refused ends it; what was printed stays.
///
/// Examples:
///   echo '{"role":"assistant","content":"hi"}' | quipu session append 640a
///   quipu session append 640a --expect-leaf 65a08635 --key run-7 < answer.jsonl
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The session: its id or an unambiguous beginning of it, a session key, or `last`
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    #[command(flatten)]
    how: How,
}

/// Begin a turn with a user's message
///
/// Like append, but a user's message that nothing answered, because a run
/// failed, is left beside the path, so that roles alternate.
///
/// Example:
///   echo '{"role":"user","content":"hello"}' | quipu session begin 640a
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BeginArgs {
    /// The session
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// What the user says; without it, a message is read as JSON from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,

    #[command(flatten)]
    how: How,
}

/// Note what was sent to a channel
///
/// It becomes an answer that no model wrote and that costs nothing: a delivery
/// mirror, as OpenClaw calls it.
///
/// Example:
///   quipu session mirror agent:main:main 'Your build is done.'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct MirrorArgs {
    /// The session
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// What was sent [default: read from standard input]
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,

    #[command(flatten)]
    how: How,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let (mut store, session) = open(context, &args.id)?;
    let mut input = std::io::stdin().lock();
    let mut leaf: Option<Option<String>> = None;
    let mut number = 0_u64;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input).take(LONGEST).read_until(b'\n', &mut line);
        if read.map_err(|error| {
            CommandError::from_source(error.into()).about("cannot read standard input")
        })? == 0
        {
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        number += 1;
        let text = std::str::from_utf8(&line).map_err(|_| {
            CommandError::new(format!("line {number} is not UTF-8; nothing of it was written"))
        })?;
        // Later lines go on from the ones before.
        let expected_leaf = match (&args.how.expect_leaf, &leaf) {
            (None, _) => Expect::Any,
            (Some(first), None) => super::expect(first),
            (Some(_), Some(None)) => Expect::Root,
            (Some(_), Some(Some(last))) => Expect::Entry(last),
        };
        // The first line is what a call with one line alone would be.
        let part = if number == 1 { 0 } else { number };
        let how = Append { expected_leaf, key: args.how.key.as_deref(), part };
        let appended = store.append(&session, text, how);
        let appended = tell(context, appended).map_err(unheard).map_err(|error| match number {
            1 => error,
            number => error.about(format!("line {number}")),
        })?;
        // Whoever waits for the answer before it goes on must not wait for ever.
        context.output.flush().map_err(|error| unheard(error.into()))?;
        // What is there already was followed by others, perhaps: the next line goes on from it alone.
        leaf = Some(if appended.repeated { after(text, appended) } else { appended.leaf });
    }
}

/// Where the leaf stood after an entry that was appended before.
fn after(line: &str, before: Appended) -> Option<String> {
    match NewEntry::read(line) {
        Ok(NewEntry { leaf_target: Some(target), .. }) => target,
        Ok(NewEntry { is_side: true, .. }) => before.leaf,
        _ => Some(before.id),
    }
}

/// Whoever does not read the answers does not know what was written, which is no success here.
fn unheard(error: CommandError) -> CommandError {
    match error.kind {
        Kind::PipeClosed => CommandError::new(
            "nobody reads the answers any more; what comes after the last one was not written",
        ),
        _ => error,
    }
}

pub(super) fn begin(args: &BeginArgs, context: &mut Context) -> Result<()> {
    let message = match &args.text {
        Some(text) => serde_json::json!({"role": "user", "content": text}).to_string(),
        None => standard_input()?,
    };
    let (mut store, session) = open(context, &args.id)?;
    let begun = store.begin_turn(&session, &message, args.how.append());
    tell(context, begun).map(|_| ())
}

pub(super) fn mirror(args: &MirrorArgs, context: &mut Context) -> Result<()> {
    let text = match &args.text {
        Some(text) => text.clone(),
        None => text_input()?,
    };
    let (mut store, session) = open(context, &args.id)?;
    let mirrored = store.mirror(&session, &text, args.how.append());
    tell(context, mirrored).map(|_| ())
}

/// Standard input as a text. The newline that ends its last line is not part of what is said.
pub(super) fn text_input() -> Result<String> {
    let mut text = standard_input()?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// All of standard input, as far as an entry can be long.
pub(super) fn standard_input() -> Result<String> {
    let mut text = Vec::new();
    let read = std::io::stdin().lock().take(LONGEST).read_to_end(&mut text);
    read.map_err(|error| {
        CommandError::from_source(error.into()).about("cannot read standard input")
    })?;
    String::from_utf8(text).map_err(|_| CommandError::new("standard input is not UTF-8"))
}
