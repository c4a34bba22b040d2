//! Entries as a program makes them, before they are checked.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::{NewEntry, Refusal};
use crate::json::object::Object;

/// An entry for a session, in pi's shapes (version 3).
///
/// There is a function for each common kind. [`Entry::json`] takes any other as JSON, and so does
/// `From<serde_json::Value>`.
///
/// ```
/// use quipu_transcript::native::Entry;
/// use serde_json::json;
///
/// let call = Entry::assistant("Reading.")
///     .tool_call("call-1", "read", &json!({"path": "README.md"}))
///     .model("anthropic", "claude-sonnet-4-5")
///     .usage(&json!({"input": 210, "output": 12}));
/// let result = Entry::tool_result("call-1", "read", "# Title");
/// let compaction = Entry::compaction("The file has a title.", "65a08635");
/// for entry in [call, result, compaction] {
///     entry.check()?;
/// }
/// assert!(Entry::json(r#"{"role": "wizard"}"#).check().is_err());
/// # Ok::<(), quipu_transcript::native::Refusal>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    json: String,
}

impl Entry {
    /// Makes a user's message.
    pub fn user(text: &str) -> Entry {
        Entry::message(json!({"role": "user", "content": text}))
    }

    /// Makes a model's message. [`Entry::tool_call`], [`Entry::model`] and [`Entry::usage`] add to
    /// it.
    pub fn assistant(text: &str) -> Entry {
        let blocks = match text {
            "" => json!([]),
            text => json!([{"type": "text", "text": text}]),
        };
        Entry::message(json!({"role": "assistant", "content": blocks}))
    }

    /// Makes the result of a tool call. [`Entry::failed`] marks it as an error.
    pub fn tool_result(call_id: &str, tool: &str, text: &str) -> Entry {
        Entry::message(json!({
            "role": "toolResult",
            "toolCallId": call_id,
            "toolName": tool,
            "content": [{"type": "text", "text": text}],
            "isError": false,
        }))
    }

    /// Makes a system message.
    pub fn system(text: &str) -> Entry {
        Entry::message(json!({"role": "system", "content": text}))
    }

    /// Makes a message from its JSON: an object with a `role`.
    pub fn message(message: Value) -> Entry {
        json!({"type": "message", "message": message}).into()
    }

    /// Makes a compaction: `summary` replaces everything before the entry `first_kept`.
    pub fn compaction(summary: &str, first_kept: &str) -> Entry {
        json!({"type": "compaction", "summary": summary, "firstKeptEntryId": first_kept}).into()
    }

    /// Makes a change of the model.
    pub fn model_change(provider: &str, model: &str) -> Entry {
        json!({"type": "model_change", "provider": provider, "modelId": model}).into()
    }

    /// Makes a change of the thinking level.
    pub fn thinking_level(level: &str) -> Entry {
        json!({"type": "thinking_level_change", "thinkingLevel": level}).into()
    }

    /// Makes an entry with data of the program's own, which no model sees.
    pub fn custom(kind: &str, data: &Value) -> Entry {
        json!({"type": "custom", "customType": kind, "data": data}).into()
    }

    /// Makes an entry that names the session.
    pub fn session_name(name: &str) -> Entry {
        json!({"type": "session_info", "name": name}).into()
    }

    /// Makes an entry from JSON, which is an entry or a bare message. Its fields stay as written.
    pub fn json(json: impl Into<String>) -> Entry {
        Entry { json: json.into() }
    }

    /// Makes an entry that moves the leaf to another entry, or before the first one.
    pub fn leaf(to: Option<&str>) -> Entry {
        json!({"type": "leaf", "targetId": to}).into()
    }

    /// Makes an entry that sets the label of another entry, or removes it.
    pub fn label(target: &str, label: Option<&str>) -> Entry {
        match label {
            Some(label) => json!({"type": "label", "targetId": target, "label": label}).into(),
            None => json!({"type": "label", "targetId": target}).into(),
        }
    }

    /// Sets the id. Without one, the store chooses eight hex digits.
    #[must_use]
    pub fn id(self, id: &str) -> Entry {
        self.with("id", &id)
    }

    /// Sets the parent; `None` begins a new root. Without this, the parent is the leaf.
    #[must_use]
    pub fn parent(self, parent: Option<&str>) -> Entry {
        self.with("parentId", &parent)
    }

    /// Adds a tool call to a model's message.
    #[must_use]
    pub fn tool_call(self, id: &str, tool: &str, arguments: &Value) -> Entry {
        let call = json!({"type": "toolCall", "id": id, "name": tool, "arguments": arguments});
        self.in_message(|message| {
            let content = message.get("content").map(|content| content.get());
            let content = content.and_then(|content| serde_json::from_str(content).ok());
            let mut blocks = match content {
                Some(Value::Array(blocks)) => blocks,
                Some(Value::String(text)) => vec![json!({"type": "text", "text": text})],
                _ => Vec::new(),
            };
            blocks.push(call);
            message.put("content", &blocks);
        })
    }

    /// Sets the provider and the model that wrote a message.
    #[must_use]
    pub fn model(self, provider: &str, model: &str) -> Entry {
        self.in_message(|message| {
            message.put("provider", &provider);
            message.put("model", &model);
        })
    }

    /// Sets the usage of a model's message: tokens under `input`, `output`, `cacheRead`,
    /// `cacheWrite`.
    #[must_use]
    pub fn usage(self, usage: &Value) -> Entry {
        self.in_message(|message| message.put("usage", usage))
    }

    /// Marks the result of a tool call as an error.
    #[must_use]
    pub fn failed(self) -> Entry {
        self.in_message(|message| message.put("isError", &true))
    }

    /// Returns the JSON of the entry.
    pub fn as_json(&self) -> &str {
        &self.json
    }

    /// Checks what can be checked without other entries.
    pub fn check(&self) -> Result<NewEntry, Refusal> {
        NewEntry::read(&self.json)
    }

    /// Sets a field of the entry. JSON that is not an object is not changed, and is refused later.
    fn with(self, name: &'static str, value: &impl Serialize) -> Entry {
        self.changed(|entry| {
            if !entry.has("type")
                && let Some(message) = entry.json()
            {
                *entry = Object::default();
                entry.put("type", &"message");
                entry.set("message", Cow::Owned(message));
            }
            entry.put(name, value);
        })
    }

    /// Changes the message of the entry.
    fn in_message(self, change: impl FnOnce(&mut Object<'_>)) -> Entry {
        self.changed(|entry| match entry.take("message") {
            None => change(entry),
            Some(message) => {
                let mut message = Object::read(message.get()).unwrap_or_default();
                change(&mut message);
                entry.put("message", &message);
            }
        })
    }

    fn changed(self, change: impl FnOnce(&mut Object<'_>)) -> Entry {
        let Some(mut entry) = Object::read(&self.json) else { return self };
        change(&mut entry);
        match entry.json() {
            Some(json) => Entry { json: json.get().to_owned() },
            None => self,
        }
    }
}

impl From<Value> for Entry {
    fn from(entry: Value) -> Entry {
        Entry { json: entry.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    fn line(entry: &Entry) -> Value {
        let line = entry.check().unwrap().line("1", None, Timestamp(0));
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn every_kind_passes_the_check() {
        for entry in [
            Entry::user("hello"),
            Entry::assistant(""),
            Entry::assistant("hi").tool_call("c", "read", &json!({})).model("p", "m"),
            Entry::tool_result("c", "read", "text").failed(),
            Entry::system("be brief"),
            Entry::compaction("so far", "65a08635"),
            Entry::model_change("p", "m"),
            Entry::thinking_level("high"),
            Entry::custom("mine", &json!({"a": 1})),
            Entry::session_name("talk"),
        ] {
            entry.check().unwrap_or_else(|why| panic!("{}: {why}", entry.as_json()));
        }
    }

    #[test]
    fn fields_can_be_added_to_every_entry() {
        let bare = Entry::json(r#"{"role":"assistant","content":"hi","cost":1.50}"#);
        let made = bare.tool_call("c", "read", &json!({})).id("x").parent(None);
        let made = made.check().unwrap();
        assert_eq!(made.id.as_deref(), Some("x"));
        let made = made.line("x", None, Timestamp(0));
        assert!(made.contains("1.50"), "digits stay as they are written: {made}");
        let full = line(&Entry::user("hello").id("y").model("p", "m"));
        assert_eq!(
            (&full["message"]["model"], &full["message"]["content"]),
            (&json!("m"), &json!("hello"))
        );
        // A value that is not an object is refused when the entry is checked.
        assert!(Entry::json("nonsense").id("x").failed().check().is_err());
    }
}
