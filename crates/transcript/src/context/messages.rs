//! Converts one line into its messages.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use super::{Message, Seen, shapes};
use crate::json::object::{Json, Object, text};
use crate::time::Timestamp;

/// Makes messages from lines, and remembers what later lines need.
#[derive(Debug, Default)]
pub(crate) struct Maker {
    /// Names of the called tools by call id, for results without a tool name.
    names: HashMap<String, String>,
    /// True if custom messages have the role name of version 2.
    pub(crate) has_hooks: bool,
}

impl Maker {
    /// Adds the message of a `message` line, or of a line that is itself a message.
    pub(crate) fn message(
        &mut self,
        line: &str,
        is_bare: bool,
        edit: Option<&RawValue>,
        out: &mut Vec<Message>,
    ) {
        let Some(line) = Object::read(line) else { return };
        let message = if is_bare {
            let mut message = line;
            for key in ["id", "parentId", "type", "appendMode"] {
                message.take(key);
            }
            if let Some(time) = message.text("timestamp").and_then(|text| millis(&text)) {
                message.put("timestamp", &time);
            }
            message.json().map(Cow::Owned)
        } else {
            line.get("message").map(|message| Cow::Owned(message.to_owned()))
        };
        if let Some(message) = message {
            self.add_message(message, edit, out);
        }
    }

    /// Adds a message that passed the quick check.
    pub(crate) fn quick(&mut self, message: Message, out: &mut Vec<Message>) {
        if let Seen::Calls { calls, .. } = &message.seen {
            self.names.extend(calls.iter().cloned());
        }
        out.push(message);
    }

    /// Adds a message of any shape. A message without a role is not shown to a model.
    pub(crate) fn add_message(
        &mut self,
        message: Json<'_>,
        edit: Option<&RawValue>,
        out: &mut Vec<Message>,
    ) {
        let Some(mut object) = Object::read(message.get()) else { return };
        let Some(mut role) = object.text("role").map(Cow::into_owned) else { return };
        if role.is_empty() {
            return;
        }
        let mut is_changed = false;
        if role == "hookMessage" && self.has_hooks {
            role = "custom".to_owned();
            object.put("role", &role);
            is_changed = true;
        }
        if let Some(edit) = edit {
            match replacement(&role, edit) {
                Some(content) => {
                    object.set("content", content);
                    is_changed = true;
                }
                None if edit.get() == "null" => return,
                None => {}
            }
        }
        let mut results = Vec::new();
        if matches!(role.as_str(), "user" | "assistant" | "toolResult") {
            is_changed |= self.fit(&role, &mut object, &mut results);
        } else if role == "system" && object.some("content").is_none() {
            object.put("content", &"");
            is_changed = true;
        }
        let had_results = !results.is_empty();
        out.extend(results);
        // A message with only results is replaced by them.
        if had_results && object.get("content").is_some_and(|content| content.get() == "[]") {
            return;
        }
        if is_changed {
            out.extend(object.json().map(Message::new));
        } else {
            out.push(Message::new(message.into_owned()));
        }
    }

    /// Converts the content of a message of the conversation into pi's shape. Returns whether
    /// anything changed.
    fn fit(&mut self, role: &str, object: &mut Object<'_>, results: &mut Vec<Message>) -> bool {
        let mut is_changed = false;
        let Some(written) = object.some("content").map(ToOwned::to_owned) else {
            object.put("content", &[(); 0]);
            return true;
        };
        if let Some(text) = text(&written) {
            if role != "user" {
                object.put("content", &shapes::text_block(&text).as_slice());
                is_changed = true;
            }
        } else if let Some(content) = shapes::content(&written) {
            if content.is_changed {
                object.put("content", &content.blocks);
                is_changed = true;
            }
            let time = object.some("timestamp").map(ToOwned::to_owned);
            for block in &content.results {
                let name = shapes::id_of_result(block).and_then(|id| self.names.get(&id));
                let result = shapes::result(block, name.map(String::as_str), time.as_deref());
                results.extend(result.json().map(Message::new));
            }
        } else if written.get().starts_with('{') {
            object.put("content", &[&written]);
            is_changed = true;
        }
        match role {
            "assistant" => {
                let content = object.get("content");
                self.names.extend(content.map(shapes::calls).unwrap_or_default());
                if object.text("stopReason").is_some_and(|reason| reason == "tool_use") {
                    object.put("stopReason", &"toolUse");
                    is_changed = true;
                }
            }
            "toolResult" if !object.has("toolCallId") => {
                if let Some(id) = shapes::id_of_result(object) {
                    object.put("toolCallId", &id);
                    is_changed = true;
                }
            }
            _ => {}
        }
        is_changed
    }

    /// Adds a compaction: its system prompt, if it has one, and its summary.
    pub(crate) fn compaction(&self, line: &str, edit: Option<&RawValue>, out: &mut Vec<Message>) {
        let Some(line) = Object::read(line) else { return };
        if edit.is_some_and(|edit| edit.get() == "null") {
            return;
        }
        let system = line.get("systemMessage").filter(|system| system.get().starts_with('{'));
        out.extend(system.map(|system| Message::new(system.to_owned())));
        let mut message = Object::default();
        message.put("role", &"compactionSummary");
        message.put("summary", &line.text("summary").unwrap_or_default());
        copy(&line, &mut message, &["tokensBefore"]);
        finish(&line, message, out);
    }

    /// Adds the summary of an abandoned branch.
    pub(crate) fn branch_summary(
        &self,
        line: &str,
        edit: Option<&RawValue>,
        out: &mut Vec<Message>,
    ) {
        let Some(mut line) = Object::read(line) else { return };
        let is_left_out = edit.is_some_and(|edit| edit.get() == "null");
        if is_left_out || line.text("summary").is_none_or(|summary| summary.is_empty()) {
            return;
        }
        line.rename("branchPoint", "fromId");
        let mut message = Object::default();
        message.put("role", &"branchSummary");
        copy(&line, &mut message, &["summary", "fromId"]);
        finish(&line, message, out);
    }

    /// Adds an extension's message.
    pub(crate) fn custom(&self, line: &str, edit: Option<&RawValue>, out: &mut Vec<Message>) {
        let Some(line) = Object::read(line) else { return };
        let mut message = Object::default();
        message.put("role", &"custom");
        copy(&line, &mut message, &["customType"]);
        match edit.map(|edit| (edit.get(), replacement("custom", edit))) {
            Some(("null", _)) => return,
            Some((_, Some(content))) => message.set("content", Cow::Owned(content.into_owned())),
            _ if line.some("content").is_some() => copy(&line, &mut message, &["content"]),
            _ => message.put("content", &[(); 0]),
        }
        copy(&line, &mut message, &["display", "details"]);
        finish(&line, message, out);
    }
}

/// Returns the content that an edit puts in place of a message's own.
fn replacement<'a>(role: &str, edit: &'a RawValue) -> Option<Json<'a>> {
    let is_editable = matches!(role, "user" | "assistant" | "toolResult" | "custom");
    let content = Object::read(edit.get()).filter(|_| is_editable)?.take("content")?;
    match text(&content) {
        Some(text) if matches!(role, "assistant" | "toolResult") => {
            let block = shapes::text_block(&text)?;
            serde_json::value::to_raw_value(&[block]).ok().map(Cow::Owned)
        }
        _ => Some(content),
    }
}

/// Copies the fields that are present.
fn copy(from: &Object<'_>, to: &mut Object<'_>, keys: &[&'static str]) {
    for key in keys {
        if let Some(value) = from.get(key) {
            to.set(key, Cow::Owned(value.to_owned()));
        }
    }
}

/// Adds a message, with the time of its line in milliseconds.
fn finish(line: &Object<'_>, mut message: Object<'_>, out: &mut Vec<Message>) {
    if let Some(time) = line.get("timestamp").and_then(time_of) {
        message.put("timestamp", &time);
    }
    out.extend(message.json().map(Message::new));
}

/// Returns a time, text or number, in milliseconds.
pub(crate) fn time_of(value: &RawValue) -> Option<i64> {
    match text(value) {
        Some(text) => millis(&text),
        None => Timestamp::from_number(value.get().parse().ok()?).map(|time| time.0),
    }
}

fn millis(text: &str) -> Option<i64> {
    Timestamp::from_text(text).map(|time| time.0)
}
