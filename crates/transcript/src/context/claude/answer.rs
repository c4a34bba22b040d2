//! Makes messages from the lines of a Claude Code session.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde_json::json;
use serde_json::value::RawValue;

use super::origin;
use crate::context::Message;
use crate::context::messages::{Maker, time_of};
use crate::context::plan;
use crate::entry::{self, Block};
use crate::format::Format;
use crate::formats::claude_code::ClaudeCode;
use crate::json::object::{Object, list};

/// The purpose of a line in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaudeStep {
    User,
    Queued,
    Boundary,
    Summary,
    /// A line of a response; `begins` is true for its first line.
    Assistant {
        begins: bool,
    },
}

/// A response that is being assembled.
#[derive(Debug)]
enum Response {
    Pieces {
        head: Box<RawValue>,
        blocks: Vec<Box<RawValue>>,
    },
    /// The context size that a boundary records, in tokens.
    Boundary(Option<u64>),
}

/// The state in which messages are assembled.
#[derive(Debug)]
pub(super) struct Assembler {
    /// The purposes of the lines that are still to come.
    steps: VecDeque<ClaudeStep>,
    open: Option<Response>,
}

impl Assembler {
    /// Returns an assembler for lines with these purposes.
    pub(super) fn new(steps: VecDeque<ClaudeStep>) -> Assembler {
        Assembler { steps, open: None }
    }
}

impl plan::Assemble for Assembler {
    fn put(&mut self, line: &str, maker: &mut Maker, out: &mut Vec<Message>) {
        if let Some(what) = self.steps.pop_front() {
            put(what, line, &mut self.open, maker, out);
        }
    }

    fn end(&mut self, maker: &mut Maker, out: &mut Vec<Message>) {
        end(&mut self.open, maker, out);
    }
}

/// Adds one line of a plan.
fn put(
    what: ClaudeStep,
    line: &str,
    open: &mut Option<Response>,
    maker: &mut Maker,
    out: &mut Vec<Message>,
) {
    let before = match what {
        ClaudeStep::Assistant { begins: false } => None,
        ClaudeStep::Summary => match open.take() {
            Some(Response::Boundary(tokens)) => tokens,
            other => {
                *open = other;
                end(open, maker, out);
                None
            }
        },
        _ => {
            end(open, maker, out);
            None
        }
    };
    let Some(object) = Object::read(line) else { return };
    let message = object.some("message").and_then(|message| Object::read(message.get()));
    let time = object.get("timestamp").and_then(time_of);
    match what {
        ClaudeStep::User => {
            user(message.as_ref().and_then(|message| message.some("content")), time, maker, out)
        }
        ClaudeStep::Queued => {
            let attachment = object.get("attachment").and_then(|value| Object::read(value.get()));
            let prompt = attachment.as_ref().and_then(|attachment| attachment.some("prompt"));
            user(prompt, time, maker, out);
        }
        ClaudeStep::Boundary => {
            let entry = ClaudeCode.decode(&origin(), line.as_bytes());
            let tokens = entry.ok().and_then(|entry| match entry.kind {
                entry::Kind::Compaction(compaction) => compaction.tokens_before,
                _ => None,
            });
            *open = Some(Response::Boundary(tokens));
        }
        ClaudeStep::Summary => summary(line, before, time, out),
        ClaudeStep::Assistant { .. } => {
            let content = message.as_ref().and_then(|message| message.some("content"));
            let blocks = content.and_then(list).unwrap_or_default();
            let blocks = blocks.into_iter().map(ToOwned::to_owned);
            match open {
                Some(Response::Pieces { head, blocks: all }) => {
                    all.extend(blocks);
                    // The stop reason and the usage are in the last piece.
                    if let Some(newest) = object.json() {
                        *head = newest;
                    }
                }
                _ => {
                    *open = object
                        .json()
                        .map(|head| Response::Pieces { head, blocks: blocks.collect() });
                }
            }
        }
    }
}

fn user(content: Option<&RawValue>, time: Option<i64>, maker: &mut Maker, out: &mut Vec<Message>) {
    let Some(content) = content else { return };
    let mut message = Object::default();
    message.put("role", &"user");
    message.set("content", Cow::Borrowed(content));
    if let Some(time) = time {
        message.put("timestamp", &time);
    }
    if let Some(message) = message.json() {
        maker.add_message(Cow::Owned(message), None, out);
    }
}

fn summary(line: &str, tokens: Option<u64>, time: Option<i64>, out: &mut Vec<Message>) {
    let Ok(entry) = ClaudeCode.decode(&origin(), line.as_bytes()) else { return };
    let texts = entry.blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(&**text),
        _ => None,
    });
    let mut message = Object::default();
    message.put("role", &"compactionSummary");
    message.put("summary", &texts.collect::<Vec<_>>().join("\n"));
    if let Some(tokens) = tokens {
        message.put("tokensBefore", &tokens);
    }
    if let Some(time) = time {
        message.put("timestamp", &time);
    }
    out.extend(plan::message(&message));
}

/// Adds the assembled response, if there is one.
fn end(open: &mut Option<Response>, maker: &mut Maker, out: &mut Vec<Message>) {
    let Some(Response::Pieces { head, blocks }) = open.take() else { return };
    let Ok(entry) = ClaudeCode.decode(&origin(), head.get().as_bytes()) else { return };
    let has_calls = blocks.iter().any(|block| {
        Object::read(block.get())
            .is_some_and(|block| block.text("type").is_some_and(|name| name == "tool_use"))
    });
    let mut message = Object::default();
    message.put("role", &"assistant");
    message.put("content", &blocks);
    message.put("api", &"anthropic-messages");
    message.put("provider", &"anthropic");
    if let Some(model) = &entry.model {
        message.put("model", model);
    }
    if let Some(usage) = entry.usage {
        message.put("usage", &json!({
            "input": usage.input,
            "output": usage.output,
            "cacheRead": usage.cache_read,
            "cacheWrite": usage.cache_write,
            "totalTokens": usage.total(),
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": usage.cost_usd.unwrap_or(0.0)},
        }));
    }
    let object = Object::read(head.get()).unwrap_or_default();
    let written = object.some("message").and_then(|message| Object::read(message.get()));
    let reason = written.as_ref().and_then(|message| message.text("stop_reason"));
    message.put(
        "stopReason",
        &match reason.as_deref() {
            Some("max_tokens") => "length",
            Some("refusal") => "error",
            Some("tool_use") => "toolUse",
            _ if has_calls => "toolUse",
            _ => "stop",
        },
    );
    if let Some(time) = entry.time {
        message.put("timestamp", &time.0);
    }
    if let Some(message) = message.json() {
        maker.add_message(Cow::Owned(message), None, out);
    }
}
