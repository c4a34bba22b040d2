//! Messages and their blocks, in every shape that Claude Code, pi and OpenClaw have written.
//!
//! One reader serves all formats, because their shapes overlap and sessions move between agents. It
//! knows no envelopes, titles or paths: those belong to a format. Base64 data is skipped, never
//! copied.
//!
//! A format declares a field `"message" => message: Message<'a>` in its line struct (see
//! [`fields!`]) and calls [`Message::fill`]; a line that is itself a message is read with
//! [`crate::json::object()`] as a [`Message`].

mod blocks;
mod usage;

use std::borrow::Cow;

pub(crate) use self::blocks::{Content, is_result};

use self::blocks::{ResultBody, first_id};
use crate::entry::{Block, Entry, RawJson, Response, Role, Stop, ToolResult, Usage};
use crate::json::{Word, fields, non_empty};
use crate::time::Timestamp;

fields! {
    /// A message as written. All fields are optional. A format takes out the fields that it treats
    /// in its own way before it calls [`Message::fill`].
    struct Message<'a> {
        "role" => role: Cow<'a, str>,
        "content" => content: Content<'a>,
        "id" => id: Cow<'a, str>,
        "model" => model: Cow<'a, str>,
        "provider" => provider: Cow<'a, str>,
        "api" => api: Cow<'a, str>,
        "stop_reason" => stop_reason: Cow<'a, str>,
        "stopReason" => stop_reason_camel: Cow<'a, str>,
        "usage" => usage: Usage,
        "errorMessage" => error_message: Cow<'a, str>,
        "responseId" => response_id: Cow<'a, str>,
        "toolCallId" => tool_call_id: Word<'a>,
        "tool_call_id" => tool_call_id_snake: Word<'a>,
        "toolUseId" => tool_use_id: Word<'a>,
        "tool_use_id" => tool_use_id_snake: Word<'a>,
        "toolName" => tool_name: Cow<'a, str>,
        "isError" => is_error: bool,
        "is_error" => is_error_snake: bool,
        "timestamp" => time: Timestamp,
        /// `bashExecution` only.
        "command" => command: Cow<'a, str>,
        /// `bashExecution` only. [`Message::fill`] leaves it to the format.
        "output" => output: Cow<'a, str>,
        /// `bashExecution` only. [`Message::fill`] leaves it to the format.
        "exitCode" => exit_code: f64,
        /// Role `custom` only.
        "customType" => custom_type: Cow<'a, str>,
        /// Role `custom` only.
        "display" => display: bool,
        /// The author of a user's message. [`Message::fill`] leaves it to the format.
        "provenance" => provenance: Provenance<'a>,
        /// A tool's own data beside its result. [`Message::fill`] leaves it to the format.
        "details" => details: RawJson<'a>,
    }
}

fields! {
    /// The author of a user's message, in OpenClaw's words.
    struct Provenance<'a> {
        "kind" => kind: Cow<'a, str>,
    }
}

impl<'a> Message<'a> {
    /// Moves the message into `entry`: `role`, `blocks`, `model`, `provider`, `api`, `stop`,
    /// `usage`, `response`, `marks.is_error`, `marks.is_interrupt`, and `time` unless it is already
    /// set. `written_role` and `stop_reason` are set as the message has them.
    ///
    /// - The content of a tool's message becomes one [`Block::ToolResult`].
    /// - An error message becomes text when the message has none, unless a person stopped the
    ///   answer.
    /// - A `bashExecution` becomes a user's text `! command`.
    /// - A role that this version does not know leaves `entry.role` unchanged.
    ///
    /// Never sets `marks.is_prompt`: the format decides which entry begins a turn.
    pub(crate) fn fill(mut self, entry: &mut Entry<'a>) {
        let mut blocks = self.content.take().unwrap_or_default().0;
        match self.role.as_deref().unwrap_or_default() {
            "user" => entry.role = Some(Role::User),
            "assistant" => {
                entry.role = Some(Role::Assistant);
                entry.stop = self.stop();
            }
            "toolResult" | "tool_result" | "tool" => {
                entry.role = Some(Role::Tool);
                self.gather_result(&mut blocks);
            }
            "system" | "developer" => entry.role = Some(Role::System),
            "custom" | "hookMessage" => entry.role = Some(Role::User),
            "bashExecution" => {
                entry.role = Some(Role::User);
                if let Some(command) = &self.command {
                    blocks.push(Block::Text(Cow::Owned(format!("! {command}"))));
                }
            }
            _ => {}
        }
        let error = non_empty(self.error_message);
        let has_no_answer = !blocks.iter().any(|block| match block {
            Block::Text(text) => !text.trim().is_empty(),
            Block::ToolCall(_) => true,
            _ => false,
        });
        // When a person stops the agent, the client writes an error message, which is not an error
        // of the agent.
        let is_aborted = entry.stop == Some(Stop::Aborted) && error.is_some();
        entry.marks.is_interrupt |= is_aborted && has_no_answer;
        if (error.is_some() && !is_aborted) || entry.stop == Some(Stop::Error) {
            entry.marks.is_error = true;
        }
        if let Some(error) = error.filter(|_| !is_aborted)
            && !blocks.iter().any(|block| matches!(block, Block::Text(text) if !text.is_empty()))
        {
            blocks.push(Block::Text(error));
        }
        entry.blocks = blocks;
        entry.stop_reason = non_empty(self.stop_reason).or(non_empty(self.stop_reason_camel));
        entry.written_role = non_empty(self.role);
        entry.model = non_empty(self.model);
        entry.provider = non_empty(self.provider);
        entry.api = non_empty(self.api);
        entry.usage = self.usage;
        entry.response = non_empty(self.response_id)
            .or(non_empty(self.id))
            .map(|id| Response { id, request: None });
        entry.time = entry.time.or(self.time);
    }

    /// Returns how the message ended.
    pub(crate) fn stop(&self) -> Option<Stop> {
        let reason = self.stop_reason.as_deref().or(self.stop_reason_camel.as_deref())?;
        (!reason.is_empty()).then(|| stop_from(reason))
    }

    /// Joins the blocks of a tool's message into one tool result.
    fn gather_result(&mut self, blocks: &mut Vec<Block<'a>>) {
        if blocks.iter().any(|block| matches!(block, Block::ToolResult(_))) {
            return;
        }
        let mut result = ToolResult {
            call_id: first_id([
                self.tool_call_id.take(),
                self.tool_call_id_snake.take(),
                self.tool_use_id.take(),
                self.tool_use_id_snake.take(),
            ]),
            name: non_empty(self.tool_name.take()),
            is_error: self.is_error.or(self.is_error_snake).unwrap_or_default(),
            ..ToolResult::default()
        };
        let mut body = ResultBody::default();
        let mut others = Vec::new();
        for block in blocks.drain(..) {
            match block {
                Block::Text(text) => body.push(text),
                Block::Image { .. } => body.images = body.images.saturating_add(1),
                other => others.push(other),
            }
        }
        result.text = body.text;
        result.images = body.images;
        blocks.push(Block::ToolResult(result));
        blocks.append(&mut others);
    }
}

/// Maps a stop reason to its meaning.
pub(crate) fn stop_from(reason: &str) -> Stop {
    match reason {
        "end_turn"
        | "stop_sequence"
        | "max_tokens"
        | "refusal"
        | "stop"
        | "length"
        | "model_context_window_exceeded" => Stop::Done,
        "tool_use" | "toolUse" | "tool_calls" => Stop::ToolUse,
        "error" => Stop::Error,
        "aborted" => Stop::Aborted,
        _ => Stop::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{self, Oddities};
    use crate::problem::ProblemKind;

    #[track_caller]
    fn check(message: &str, look: impl FnOnce(&Entry<'_>)) {
        let mut odd = Oddities::default();
        let message = json::object::<Message<'_>>(message.as_bytes(), &mut odd).expect("an object");
        let mut entry = Entry::default();
        message.fill(&mut entry);
        entry.problems = odd.into_problems();
        look(&entry);
    }

    #[track_caller]
    fn usage(json: &str) -> Usage {
        let mut usage = None;
        check(&format!(r#"{{"role":"assistant","usage":{json}}}"#), |entry| {
            assert!(entry.problems.is_empty(), "{json}: {:?}", entry.problems);
            usage = entry.usage;
        });
        usage.unwrap()
    }

    #[test]
    fn content_may_be_a_string_a_list_an_object_or_null() {
        for (content, expected) in [
            (r#""a""#, "a"),
            (r#"["a",{"type":"text","text":"b"},{"text":"c"}]"#, "a\nb\nc"),
            (r#"{"type":"text","text":"a"}"#, "a"),
            ("null", ""),
            ("[]", ""),
        ] {
            check(&format!(r#"{{"role":"user","content":{content}}}"#), |entry| {
                assert_eq!(entry.text(), expected);
                assert!(entry.problems.is_empty(), "{content}");
            });
        }
    }

    #[test]
    fn text_borrows_from_the_record() {
        check(r#"{"role":"user","content":[{"type":"text","text":"a"}]}"#, |entry| {
            assert!(matches!(&entry.blocks[..], [Block::Text(Cow::Borrowed("a"))]));
        });
    }

    #[test]
    fn tool_calls_are_read_under_all_their_names() {
        for (block, id) in [
            (r#"{"type":"toolCall","id":"1","name":"n","arguments":{"a":1}}"#, Some("1")),
            (
                r#"{"type":"functionCall","toolCallId":"2","name":"n","arguments":{"a":1}}"#,
                Some("2"),
            ),
            (r#"{"type":"tool_call","tool_call_id":"3","name":"n","input":{"a":1}}"#, Some("3")),
            (r#"{"type":"tool_use","tool_use_id":"4","name":"n","input":{"a":1}}"#, Some("4")),
            (
                r#"{"type":"function_call","id":"fc_5","call_id":"5","name":"n","arguments":{"a":1}}"#,
                Some("5"),
            ),
            (
                r#"{"type":"mcp_tool_use","id":"","toolUseId":"6","name":"n","input":{"a":1}}"#,
                Some("6"),
            ),
            (r#"{"type":"server_tool_use","id":"","toolName":"n","input":{"a":1}}"#, None),
        ] {
            check(&format!(r#"{{"role":"assistant","content":[{block}]}}"#), |entry| {
                let [Block::ToolCall(call)] = &entry.blocks[..] else { panic!("{block}") };
                assert_eq!(call.id.as_deref(), id, "{block}");
                assert_eq!(call.name, "n");
                assert_eq!(call.input.as_ref().unwrap().get(), r#"{"a":1}"#);
            });
        }
    }

    #[test]
    fn a_tools_message_becomes_one_result() {
        let message = r#"{"role":"toolResult","toolCallId":"c","toolName":"read","isError":true,"content":[
            {"type":"text","text":"a"},{"type":"image","data":"eA==","mimeType":"image/png"},{"type":"text","text":"b"}]}"#;
        check(message, |entry| {
            assert_eq!(entry.role, Some(Role::Tool));
            let [Block::ToolResult(result)] = &entry.blocks[..] else {
                panic!("{:?}", entry.blocks)
            };
            assert_eq!(result.call_id.as_deref(), Some("c"));
            assert_eq!(result.name.as_deref(), Some("read"));
            assert_eq!(result.text, "a\nb");
            assert!(result.is_error);
            assert_eq!(result.images, 1);
        });
    }

    #[test]
    fn errors_are_marked_and_readable() {
        let message =
            r#"{"role":"assistant","content":[],"stopReason":"error","errorMessage":"overloaded"}"#;
        check(message, |entry| {
            assert!(entry.marks.is_error);
            assert_eq!(entry.stop, Some(Stop::Error));
            assert_eq!(entry.text(), "overloaded");
        });
    }

    #[test]
    fn usage_is_read_in_all_shapes() {
        let anthropic = usage(
            r#"{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":3},"speed":"standard","iterations":[{}]}"#,
        );
        let pi = usage(
            r#"{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"cacheWrite1h":3,"totalTokens":10,"cost":{"total":0.5}}"#,
        );
        assert_eq!(anthropic, Usage { cost_usd: None, ..pi });
        assert_eq!(pi.cost_usd, Some(0.5));
        assert_eq!(pi.total(), 10);
        let documents = usage(r#"{"inputTokens":1,"outputTokens":2,"cost":0.5}"#);
        assert_eq!(
            documents,
            Usage { input: 1, output: 2, cost_usd: Some(0.5), ..Usage::default() }
        );
        let split = usage(
            r#"{"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":3}}"#,
        );
        assert_eq!((split.cache_write, split.cache_write_1h), (4, 3));
    }

    #[test]
    fn an_impossible_token_count_is_a_problem() {
        for (count, is_problem) in [("4294967296", false), ("4294967297", true)] {
            let message =
                format!(r#"{{"role":"assistant","usage":{{"input":1,"cacheRead":{count}}}}}"#);
            check(&message, |entry| {
                let kinds: Vec<_> = entry.problems.iter().map(|problem| problem.kind).collect();
                let expected: &[_] = if is_problem { &[ProblemKind::TokenCount] } else { &[] };
                assert_eq!(kinds, expected, "{count}");
            });
        }
    }

    #[test]
    fn a_failed_server_tool_is_an_error() {
        let message = r#"{"role":"assistant","content":[{"type":"web_search_tool_result","tool_use_id":"s","content":{"type":"web_search_tool_result_error","error_code":"unavailable"}}]}"#;
        check(message, |entry| {
            let [Block::ToolResult(result)] = &entry.blocks[..] else {
                panic!("{:?}", entry.blocks)
            };
            assert!(result.is_error);
            assert_eq!(result.text, "unavailable");
        });
    }
}
