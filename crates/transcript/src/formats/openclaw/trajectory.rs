//! Decodes one event of a trajectory, OpenClaw's record of the runs of a session.
//!
//! A trajectory repeats the transcript: a run has its prompt, and at its end all messages that the
//! model was sent or wrote. It is collected only if the transcript is unknown, and each run becomes
//! a prompt and one answer with all its texts, calls and results.

use std::borrow::Cow;

use super::lines;
use crate::entry::{Block, Entry, Kind, Role, SessionFact, Usage};
use crate::json::{self, Oddities, fields, non_empty};
use crate::message::Message;
use crate::time::Timestamp;

fields! {
    /// The envelope of an event.
    struct Event<'a> {
        "type" => type_name: Cow<'a, str>,
        "ts" => time: Timestamp,
        "workspaceDir" => workspace: Cow<'a, str>,
        "provider" => provider: Cow<'a, str>,
        "modelId" => model: Cow<'a, str>,
        "modelApi" => api: Cow<'a, str>,
        "data" => data: Data<'a>,
    }
}

fields! {
    /// The fields of the events with messages.
    struct Data<'a> {
        "prompt" => prompt: Cow<'a, str>,
        "usage" => usage: Usage,
        "stopReason" => stop_reason: Cow<'a, str>,
        "assistantTexts" => texts: Vec<Cow<'a, str>>,
        "messagesSnapshot" => messages: Vec<Box<Message<'a>>>,
    }
}

/// Implements [`crate::format::Format::decode`] for trajectories.
pub(super) fn decode(json: &[u8]) -> serde_json::Result<Entry<'_>> {
    let mut odd = Oddities::default();
    let event = json::object::<Event<'_>>(json, &mut odd)?;
    let mut entry = Entry {
        type_name: event.type_name.unwrap_or_default(),
        kind: Kind::Note,
        time: event.time,
        ..Entry::default()
    };
    let data = event.data.unwrap_or_default();
    match &*entry.type_name {
        "session.started" => {
            entry.facts.extend(non_empty(event.workspace).map(SessionFact::Cwd));
        }
        "prompt.submitted" => {
            entry.kind = Kind::Message;
            entry.role = Some(Role::User);
            entry.marks.is_prompt = true;
            entry.blocks.extend(non_empty(data.prompt).map(Block::Text));
            lines::open_user_texts(&mut entry, None);
        }
        "model.completed" => {
            entry.kind = Kind::Message;
            let texts = data.texts.unwrap_or_default().into_iter().map(Block::Text);
            let mut blocks = answer(data.messages.unwrap_or_default());
            if blocks.is_empty() {
                blocks.extend(texts);
            }
            let last = Message {
                role: Some("assistant".into()),
                stop_reason: data.stop_reason,
                model: event.model,
                provider: event.provider,
                api: event.api,
                usage: data.usage,
                ..Message::default()
            };
            last.fill(&mut entry);
            entry.blocks = blocks;
        }
        _ => entry.marks.is_side = true,
    }
    entry.problems = odd.into_problems();
    Ok(entry)
}

/// Returns the blocks of the messages after the last prompt, which is the prompt of the run.
fn answer(messages: Vec<Box<Message<'_>>>) -> Vec<Block<'_>> {
    let prompt = messages.iter().rposition(|message| message.role.as_deref() == Some("user"));
    let start = prompt.map_or(0, |prompt| prompt + 1);
    let mut blocks = Vec::new();
    for message in messages.into_iter().skip(start) {
        let mut entry = Entry::default();
        message.fill(&mut entry);
        blocks.append(&mut entry.blocks);
    }
    blocks
}
