//! A note for later sessions, in a session of its own.

use quipu_ledger::{Entry, Store};
use schemars::JsonSchema;
use serde::Deserialize;

use super::reply::{Reply, name};
use super::{Object, ToolCall, options};
use crate::problem::Problem;

/// The longest note, in bytes.
const MAX_NOTE_BYTES: usize = 16 << 10;

/// The agent whose notes are written, unless the caller is bound to one.
const AGENT: &str = "main";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// The note, at most 16 KB
    text: String,
}

pub(super) fn note(call: &ToolCall<'_>, given: Object) -> Result<Reply, Problem> {
    let asked: Options = options(given)?;
    if asked.text.trim().is_empty() {
        return Err(Problem::bad_request("`text` is empty"));
    }
    if asked.text.len() > MAX_NOTE_BYTES {
        return Err(Problem::bad_request("`text` has at most 16 KB"));
    }
    let mut reply = Reply::new(None)?;
    let agent = call.caller.agent.as_deref().unwrap_or(AGENT);
    let client = call.caller.client.as_deref().map_or_else(|| "agent".to_owned(), name);
    let store = Store::open(&call.settings.ledger)?;
    let session = store.session_or_new(&format!("agent:{agent}:explicit:notes"))?;
    let entry = session.append(Entry::assistant(&asked.text).model("mcp", &client))?;
    reply.say(format!("Kept as entry {} of session {}.", entry.id, session.id()));
    Ok(reply)
}
