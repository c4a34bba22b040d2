//! The entries that a runtime may append to a session: pi's shapes (version 3), checked before they
//! are written. An entry that later readers could not decode is refused, with the reason.

mod check;
mod entry;
mod lines;

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json::object::{Json, Object, text};
use crate::time::Timestamp;
pub use entry::Entry;
pub use lines::{header, id_in, mirror, thinking_level_in, with_parent};

/// Maximum size of an entry in bytes. A longer one is refused, because readers do not decode longer
/// records whole.
pub const MAX_ENTRY_BYTES: usize = crate::record::DECODE_LIMIT - 4096;

/// Maximum nesting of an entry. A deeper one is refused: most JSON parsers stop at 128 levels, and
/// exports nest an entry in another object.
const MAX_DEPTH: usize = 120;

/// Maximum length of an id in bytes.
const MAX_ID_BYTES: usize = 128;

/// The reason why an entry is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The text is not a JSON object.
    #[error("not a JSON object: {0}")]
    NotAnObject(String),
    /// The entry is too long.
    #[error("the entry has {0} bytes; the limit is {MAX_ENTRY_BYTES}")]
    TooLong(usize),
    /// The entry is nested deeper than readers go.
    #[error("the entry is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// The type is unknown to readers.
    #[error("unknown entry type {0:?}; use `custom` for data of your own")]
    UnknownType(String),
    /// The role is unknown to readers.
    #[error("unknown role {0:?}; use user, assistant, toolResult, bashExecution, custom or system")]
    WrongRole(String),
    /// A field is missing or has the wrong type.
    #[error("{0}")]
    Field(&'static str),
    /// A field holds a wrong value.
    #[error("`{field}` of {of} {should}")]
    Wrong {
        /// The field.
        field: &'static str,
        /// The entry or message that has the field.
        of: &'static str,
        /// The rule that the value breaks.
        should: &'static str,
    },
    /// The id cannot be used.
    #[error(
        "an id must have 1 to {MAX_ID_BYTES} bytes without control characters, must not be `root` and must not begin with #"
    )]
    Id,
}

/// The parent that an entry names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParentRef {
    /// Not given: the current leaf becomes the parent.
    Implicit,
    /// Explicitly none.
    Root,
    /// The entry with this id.
    Id(String),
}

impl From<Option<String>> for ParentRef {
    fn from(parent: Option<String>) -> ParentRef {
        parent.map_or(ParentRef::Root, ParentRef::Id)
    }
}

/// An entry that passed all checks that need no other entry.
#[derive(Debug, Clone)]
pub struct NewEntry {
    /// The type of the entry.
    pub type_name: &'static str,
    /// The id, if the caller supplied one.
    pub id: Option<String>,
    /// The parent.
    pub parent: ParentRef,
    /// References to other entries, as field and id. The referenced entries must exist.
    pub refers_to: Vec<(&'static str, String)>,
    /// The new leaf that a `leaf` entry sets; `Some(None)` is the place before the first entry.
    pub leaf_target: Option<Option<String>>,
    /// True if it is appended beside the conversation and never becomes the leaf.
    pub is_side: bool,
    /// The role of a message; `tool` for a user's message with nothing but tool results.
    pub role: Option<&'static str>,
    /// True for a tool result that does not name its call.
    pub lacks_call: bool,
    fields: Vec<(String, Box<RawValue>)>,
}

impl NewEntry {
    /// Checks an entry, or a bare message (an object with a role and no type).
    pub fn read(json: &str) -> Result<NewEntry, Refusal> {
        let json = json.trim();
        if json.len() > MAX_ENTRY_BYTES {
            return Err(Refusal::TooLong(json.len()));
        }
        if is_too_deep(json) {
            return Err(Refusal::TooDeep);
        }
        let mut object: Object<'_> = serde_json::from_str(json)
            .map_err(|error| Refusal::NotAnObject(error_position(&error)))?;
        in_pi_entry(&mut object);
        let type_name = match object.get("type") {
            None if object.has("role") => "message",
            None => {
                return Err(Refusal::Field(
                    "an entry needs `type`, and a bare message needs `role`",
                ));
            }
            Some(value) => check::known_type(&text(value).unwrap_or_default())?,
        };
        let is_bare = !object.has("type");
        let mut entry = NewEntry {
            type_name,
            id: None,
            parent: ParentRef::Implicit,
            refers_to: Vec::new(),
            leaf_target: None,
            is_side: object.text("appendMode").as_deref() == Some("side"),
            role: None,
            lacks_call: false,
            fields: Vec::new(),
        };
        if is_bare {
            entry.role = Some(role(&object)?);
            entry.lacks_call = lacks_call(&object);
            entry.fields.push(("message".to_owned(), in_pi_shape(&object)?));
            return Ok(entry);
        }
        entry.check(&object)?;
        for (name, value) in object.fields() {
            match name {
                "type" | "id" | "parentId" => {}
                "message" => {
                    let message = Object::read(value.get());
                    let message = message.ok_or(Refusal::Field("`message` must be an object"))?;
                    entry.fields.push((name.to_owned(), in_pi_shape(&message)?));
                }
                _ => entry.fields.push((name.to_owned(), value.to_owned())),
            }
        }
        Ok(entry)
    }

    fn check(&mut self, object: &Object<'_>) -> Result<(), Refusal> {
        check::fields(self.type_name, object)?;
        if let Some(id) = object.some("id") {
            self.id = Some(id_of(id)?);
        }
        self.parent = match object.get("parentId") {
            None => ParentRef::Implicit,
            Some(value) if value.get() == "null" => ParentRef::Root,
            Some(value) => ParentRef::Id(id_of(value)?),
        };
        if let Some(time) = object.get("timestamp") {
            check::timestamp(time)?;
        }
        let refers = |field: &'static str| -> Result<Option<(&'static str, String)>, Refusal> {
            object.some(field).map(|value| Ok((field, id_of(value)?))).transpose()
        };
        match self.type_name {
            "message" => {
                let message = object.get("message").and_then(|value| Object::read(value.get()));
                let message = message.unwrap_or_default();
                self.role = Some(role(&message)?);
                self.lacks_call = lacks_call(&message);
            }
            "label" => self.refers_to.extend(refers("targetId")?),
            "context_edit" => {
                self.refers_to.extend(refers("targetId")?);
                check::replacement(object)?;
            }
            "compaction" => self.refers_to.extend(refers("firstKeptEntryId")?),
            // `root` is the place before the first entry.
            "branch_summary" if object.text("fromId").as_deref() != Some("root") => {
                self.refers_to.extend(refers("fromId")?);
            }
            "reset" => {
                self.refers_to.extend(refers("firstKeptEntryId")?);
                check::reset(object)?;
            }
            "leaf" => {
                if !object.has("targetId") {
                    let why = "a leaf needs `targetId`: an entry's id, or null";
                    return Err(Refusal::Field(why));
                }
                let target = refers("targetId")?;
                self.refers_to.extend(target.clone());
                self.refers_to.extend(refers("appendParentId")?);
                self.leaf_target = Some(target.map(|(_, id)| id));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns this tool result with the id of its call.
    #[must_use]
    pub fn of_call(&self, id: &str) -> NewEntry {
        let mut entry = self.clone();
        for (name, value) in &mut entry.fields {
            let message = Object::read(value.get()).filter(|_| name == "message");
            let json = message.and_then(|mut message| {
                message.put("toolCallId", &id);
                message.json()
            });
            if let Some(json) = json {
                *value = json;
            }
        }
        entry
    }

    /// Returns the line to write, with its newline. The caller's own fields stay unchanged.
    pub fn line(&self, id: &str, parent: Option<&str>, now: Timestamp) -> String {
        let mut object = Object::default();
        object.put("type", &self.type_name);
        object.put("id", &id);
        object.put("parentId", &parent);
        if !self.fields.iter().any(|(name, _)| name == "timestamp") {
            object.put("timestamp", &now.to_iso());
        }
        for (name, value) in &self.fields {
            let mut value = Cow::Borrowed(&**value);
            if name == "message" {
                value = with_time(value, now);
            }
            object.push(Cow::Borrowed(name), value);
        }
        object.json().map(|json| format!("{}\n", json.get())).unwrap_or_default()
    }
}

impl NewEntry {
    /// Returns whether `line` is this entry as it was written before. The id, the parent and the
    /// times are not compared, nor is the `fromId` of a branch summary, because the leaf has moved
    /// since.
    pub fn is_written_as(&self, line: &str) -> bool {
        let written = Object::read(line.trim_end());
        let again = self.line("", None, Timestamp(0));
        let (Some(mut written), Some(mut again)) = (written, Object::read(again.trim_end())) else {
            return false;
        };
        for object in [&mut written, &mut again] {
            for name in ["id", "parentId", "timestamp"] {
                object.take(name);
            }
            if self.type_name == "branch_summary" {
                object.take("fromId");
            }
        }
        let is_same_message = match (written.take("message"), again.take("message")) {
            (Some(message), Some(other)) => is_same_message(&message, &other, self.lacks_call),
            (None, None) => true,
            _ => false,
        };
        is_same_message && has_same_fields(&written, &again)
    }
}

/// Returns whether two messages have the same fields, apart from their time and, with `lacks_call`,
/// the id of the call.
fn is_same_message(one: &RawValue, other: &RawValue, lacks_call: bool) -> bool {
    let (Some(mut one), Some(mut other)) = (Object::read(one.get()), Object::read(other.get()))
    else {
        return false;
    };
    for object in [&mut one, &mut other] {
        object.take("timestamp");
        if lacks_call {
            object.take("toolCallId");
        }
    }
    has_same_fields(&one, &other)
}

/// Returns whether two objects have the same fields, in any order.
fn has_same_fields(one: &Object<'_>, other: &Object<'_>) -> bool {
    one.fields().count() == other.fields().count()
        && one
            .fields()
            .all(|(name, value)| other.get(name).is_some_and(|other| is_same(value, other)))
}

/// Returns whether two values are the same. Numbers are compared as written, because floats could
/// not distinguish numbers that differ only in their last digits.
fn is_same(one: &RawValue, other: &RawValue) -> bool {
    let elements = |value: &RawValue| serde_json::from_str::<Vec<Box<RawValue>>>(value.get()).ok();
    match (one.get().as_bytes().first(), other.get().as_bytes().first()) {
        _ if one.get() == other.get() => true,
        (Some(b'{'), Some(b'{')) => match (Object::read(one.get()), Object::read(other.get())) {
            (Some(one), Some(other)) => has_same_fields(&one, &other),
            _ => false,
        },
        (Some(b'['), Some(b'[')) => match (elements(one), elements(other)) {
            (Some(one), Some(other)) => {
                one.len() == other.len()
                    && one.iter().zip(&other).all(|(one, other)| is_same(one, other))
            }
            _ => false,
        },
        (Some(b'"'), Some(b'"')) => text(one).is_some_and(|one| text(other) == Some(one)),
        _ => false,
    }
}

/// Returns whether lists and objects are nested more than [`MAX_DEPTH`] deep.
fn is_too_deep(json: &str) -> bool {
    let (mut depth, mut in_text, mut bytes) = (0_usize, false, json.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if in_text => drop(bytes.next()),
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => depth += 1,
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

/// Returns true for a tool result that does not name its call.
fn lacks_call(message: &Object<'_>) -> bool {
    message.text("role").as_deref() == Some("toolResult") && message.some("toolCallId").is_none()
}

/// Changes the shapes of OpenClaw's documents into pi's: types like `custom:model-snapshot`, and
/// times in milliseconds.
fn in_pi_entry(object: &mut Object<'_>) {
    if !object.has("type") {
        return;
    }
    let custom = object.text("type").and_then(|name| {
        let name = name.strip_prefix("custom:")?;
        (!name.is_empty()).then(|| name.to_owned())
    });
    if let Some(name) = custom {
        object.put("type", &"custom");
        if !object.has("customType") {
            object.put("customType", &name);
        }
    }
    if let Some(time) = object.get("timestamp").and_then(check::milliseconds) {
        object.put("timestamp", &time.to_iso());
    }
}

/// The ids of the calls that a line has, and of the calls that it answers.
#[derive(Debug, Default)]
pub struct LineCalls {
    /// The calls in it.
    pub calls: Vec<String>,
    /// The calls that it is the result of, or has result blocks for.
    pub answered: Vec<String>,
}

/// Returns the calls that a line has, and those that it answers.
pub fn calls_in(line: &str) -> LineCalls {
    let line = Object::read(line.trim_end());
    let message = line.as_ref().and_then(|line| line.get("message"));
    let Some(message) = message.and_then(|message| Object::read(message.get())) else {
        return LineCalls::default();
    };
    let blocks = blocks_of(&message);
    let answered = message.text("toolCallId").map(Cow::into_owned).into_iter();
    LineCalls {
        calls: blocks.iter().filter_map(check::call_id).collect(),
        answered: answered.chain(blocks.iter().filter_map(check::answered_id)).collect(),
    }
}

/// Returns the blocks of a message's content.
fn blocks_of<'m>(message: &'m Object<'_>) -> Vec<Object<'m>> {
    let blocks = message.get("content").and_then(crate::json::object::list).unwrap_or_default();
    blocks.into_iter().filter_map(|block| Object::read(block.get())).collect()
}

/// Checks a message and returns its role; `tool` for a user's message that holds nothing but tool
/// results, as every reader decodes it.
fn role(message: &Object<'_>) -> Result<&'static str, Refusal> {
    let role = check::message(message)?;
    let blocks = if role == "user" { blocks_of(message) } else { Vec::new() };
    let is_result = !blocks.is_empty() && blocks.iter().all(check::is_result);
    Ok(if is_result { "tool" } else { role })
}

/// Returns the message in pi's shape: answers and results hold lists of blocks.
fn in_pi_shape(message: &Object<'_>) -> Result<Box<RawValue>, Refusal> {
    let mut message = message.clone();
    let is_listed = matches!(message.text("role").as_deref(), Some("assistant" | "toolResult"));
    if is_listed && let Some(text) = message.text("content").map(Cow::into_owned) {
        message.put("content", &[serde_json::json!({"type": "text", "text": text})]);
    }
    message.json().ok_or(Refusal::Field("the message cannot be written as JSON"))
}

/// Adds the time to a message that has none, in milliseconds.
fn with_time(message: Json<'_>, now: Timestamp) -> Json<'_> {
    let untimed = Object::read(message.get()).filter(|object| !object.has("timestamp"));
    let json = untimed.and_then(|mut object| {
        object.put("timestamp", &now.0);
        object.json()
    });
    json.map_or(message, Cow::Owned)
}

fn id_of(value: &RawValue) -> Result<String, Refusal> {
    let id = text(value).ok_or(Refusal::Id)?;
    let is_good = !id.is_empty()
        && id.len() <= MAX_ID_BYTES
        && !id.chars().any(char::is_control)
        // `root` is the place before the first entry; `#` begins the name of an entry without an
        // id.
        && id != "root"
        && !id.starts_with('#');
    if is_good { Ok(id.into_owned()) } else { Err(Refusal::Id) }
}

/// Returns the position of a JSON error, without any text of the entry.
fn error_position(error: &serde_json::Error) -> String {
    format!("line {} column {}", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_767_225_600_123);

    fn line(json: &str) -> String {
        NewEntry::read(json).map_or_else(
            |why| format!("refused: {why}"),
            |entry| entry.line("0000000a", Some("00000009"), NOW),
        )
    }

    #[test]
    fn a_bare_message_becomes_an_entry() {
        assert_eq!(
            line(r#"{"role":"assistant","content":"hi","n":1e400}"#),
            concat!(
                r#"{"type":"message","id":"0000000a","parentId":"00000009","#,
                r#""timestamp":"2026-01-01T00:00:00.123Z","message":{"role":"assistant","#,
                r#""content":[{"text":"hi","type":"text"}],"n":1e400,"timestamp":1767225600123}}"#,
                "\n"
            )
        );
    }

    #[test]
    fn a_repeated_entry_is_recognised_by_its_own_fields() {
        let written =
            |json: &str| NewEntry::read(json).unwrap().line("0000000a", Some("00000009"), NOW);
        let is_again =
            |one: &str, other: &str| NewEntry::read(other).unwrap().is_written_as(&written(one));
        let hi = r#"{"role":"user","content":"hi","n":1e400}"#;
        for (one, other, is_same) in [
            (hi, hi, true),
            (hi, r#"{"n":1e400,"content":"hi","role":"user"}"#, true),
            (hi, r#"{"role":"user","content":"ho","n":1e400}"#, false),
            (hi, r#"{"role":"user","content":"hi"}"#, false),
            (r#"{"role":"user","content":"hi"}"#, hi, false),
            (hi, r#"{"role":"user","content":"hi","n":1e400,"timestamp":5}"#, true),
            (
                r#"{"type":"custom","customType":"a","data":{"b":1,"c":2}}"#,
                r#"{"data":{"c":2,"b":1},"customType":"a","type":"custom"}"#,
                true,
            ),
            (
                r#"{"type":"custom","customType":"a","data":[{"b":"\u0041"}, 1]}"#,
                r#"{"type":"custom","customType":"a","data":[ {"b":"A"},1 ]}"#,
                true,
            ),
            (
                r#"{"type":"custom","customType":"a","data":{"n":123456789012345678901}}"#,
                r#"{"type":"custom","customType":"a","data":{"n":123456789012345678902}}"#,
                false,
            ),
            (
                r#"{"type":"custom","customType":"a"}"#,
                r#"{"type":"custom","customType":"a","id":"0000000b"}"#,
                true,
            ),
            (
                r#"{"type":"custom","customType":"a","timestamp":"2026-01-01T00:00:00Z"}"#,
                r#"{"type":"custom","customType":"a","timestamp":"2026-01-02T00:00:00Z"}"#,
                true,
            ),
            (
                r#"{"type":"custom","customType":"a"}"#,
                r#"{"type":"custom","customType":"a","parentId":"00000009"}"#,
                true,
            ),
            (
                r#"{"type":"custom","customType":"a"}"#,
                r#"{"type":"custom","customType":"a","parentId":null}"#,
                true,
            ),
            (
                r#"{"type":"branch_summary","fromId":"a","summary":"s"}"#,
                r#"{"type":"branch_summary","fromId":"b","summary":"s"}"#,
                true,
            ),
        ] {
            assert_eq!(is_again(one, other), is_same, "{one} {other}");
        }
    }

    #[test]
    fn shapes_of_openclaws_documents_become_pi_shapes() {
        let written = line(r#"{"type":"custom:x","timestamp":1706976000000,"data":1}"#);
        let expected = concat!(
            r#"{"type":"custom","id":"0000000a","parentId":"00000009","#,
            r#""timestamp":"2024-02-03T16:00:00.000Z","data":1,"customType":"x"}"#,
            "\n"
        );
        assert_eq!(written, expected);
        let result = NewEntry::read(r#"{"role":"toolResult","content":"22"}"#).unwrap();
        assert!(result.lacks_call);
        let written = result.of_call("c1").line("0000000a", None, NOW);
        assert!(written.contains(r#""toolCallId":"c1""#), "{written}");
        // A retry also comes without the id of the call.
        assert!(result.is_written_as(&written));
    }

    #[test]
    fn entries_that_readers_cannot_decode_are_refused() {
        for (json, why) in [
            ("", "not a JSON object"),
            ("[]", "not a JSON object"),
            ("{}", "needs `type`"),
            (r#"{"type":"session"}"#, "unknown entry type"),
            (r#"{"type":7}"#, "unknown entry type"),
            (r#"{"role":"wizard","content":""}"#, "unknown role"),
            (r#"{"type":"message","message":{"role":"tool","content":""}}"#, "unknown role"),
            (r#"{"type":"message","message":{"role":"user"}}"#, "`content`"),
            (r#"{"type":"message","message":"hi"}"#, "`message` of a message must be an object"),
            (r#"{"type":"message","message":null}"#, "needs `message`"),
            (r#"{"role":"toolResult","toolCallId":5,"content":[]}"#, "`toolCallId`"),
            (r#"{"type":"leaf"}"#, "`targetId`"),
            (r#"{"type":"reset"}"#, "`reason`"),
            (r#"{"type":"custom","customType":"a","id":""}"#, "an id must"),
            (r#"{"type":"custom","customType":"a","id":7}"#, "an id must"),
            (r#"{"type":"custom","customType":"a","parentId":"a\u0000b"}"#, "an id must"),
            (r#"{"type":"custom","customType":"a","timestamp":"soon"}"#, "`timestamp`"),
            (r#"{"type":"compaction"}"#, "`summary`"),
            (r#"{"type":"context_edit","targetId":"a"}"#, "`replacement`"),
            (r#"{"type":"context_edit","targetId":"a","replacement":"gone"}"#, "`replacement`"),
            (
                r#"{"type":"context_edit","targetId":"a","replacement":{"content":5}}"#,
                "`replacement`",
            ),
            (r#"{"role":"user","content":[5]}"#, "a block must"),
            (r#"{"role":"user","content":[{"text":"hi"}]}"#, "a block must"),
            (r#"{"type":"custom_message","customType":"a","content":["hi"]}"#, "a block must"),
            (r#"{"role":"user","content":[{"type":"text"}]}"#, "`text`"),
            (r#"{"role":"user","content":[{"type":"image"}]}"#, "`data`"),
            (r#"{"role":"assistant","content":[{"type":"thinking","thinking":5}]}"#, "`thinking`"),
            (r#"{"role":"assistant","content":[{"type":"toolCall","name":"a"}]}"#, "`id`"),
            (r#"{"role":"assistant","content":[{"type":"toolCall","id":"a"}]}"#, "`name`"),
            (r#"{"role":"assistant","content":[{"type":"toolCall","id":"","name":"a"}]}"#, "`id`"),
            (r#"{"role":"assistant","content":[{"type":"tool_use","name":"a"}]}"#, "`id`"),
            (r#"{"role":"assistant","content":"","model":5}"#, "`model` of an answer must be text"),
            (r#"{"role":"toolResult","toolCallId":"a","content":[],"isError":"no"}"#, "`isError`"),
            (r#"{"role":"bashExecution","command":"ls","exitCode":"0"}"#, "`exitCode`"),
            (r#"{"role":"user","content":"","timestamp":"soon"}"#, "`timestamp`"),
            (r#"{"role":"user","content":"","timestamp":-1}"#, "`timestamp`"),
            (r#"{"role":"user","content":"","timestamp":1e400}"#, "`timestamp`"),
            (r#"{"role":"user","content":"","timestamp":true}"#, "`timestamp`"),
            (r#"{"role":"user","content":"","timestamp":253402300800000}"#, "`timestamp`"),
            (r#"{"type":"session_info"}"#, "`name`"),
            (r#"{"type":"session_info","name":5}"#, "`name`"),
            (r#"{"type":"label","targetId":"a","label":5}"#, "`label`"),
            (r#"{"type":"label","targetId":"a","label":{}}"#, "`label`"),
            (r#"{"type":"usage","usage":{"input":-1}}"#, "whole numbers"),
            (r#"{"type":"usage","usage":{"output":1.5}}"#, "whole numbers"),
            (r#"{"type":"usage","usage":{"cacheRead":1e400}}"#, "whole numbers"),
            (r#"{"type":"usage","usage":{"totalTokens":"7"}}"#, "whole numbers"),
            (r#"{"type":"usage","usage":{},"model":5}"#, "`model`"),
            (r#"{"role":"assistant","content":"","usage":{"input":-1}}"#, "whole numbers"),
            (r#"{"role":"assistant","content":"","usage":{"cost":{"total":-1}}}"#, "costs"),
            (r#"{"role":"assistant","content":"","usage":{"cost":{"total":1e400}}}"#, "costs"),
            (r#"{"type":"compaction","summary":"a","tokensBefore":-5}"#, "`tokensBefore`"),
            (r#"{"type":"compaction","summary":"a","usage":5}"#, "`usage`"),
            (r#"{"type":"branch_summary","summary":"a","fromId":5}"#, "`fromId`"),
            (r#"{"type":"custom_message","customType":"a","content":"","display":1}"#, "`display`"),
            (r#"{"type":"context_edit","targetId":"a","replacement":{"content":[5]}}"#, "`replace"),
            (r#"{"type":"custom","customType":"a","timestamp":-1}"#, "`timestamp`"),
            (r#"{"type":"custom","customType":"a","timestamp":"12345"}"#, "`timestamp`"),
            (
                r#"{"type":"custom","customType":"a","timestamp":"+012345-01-01T00:00:00Z"}"#,
                "`time",
            ),
            (
                r#"{"type":"custom","customType":"a","timestamp":"-000001-01-01T00:00:00Z"}"#,
                "`time",
            ),
            (r#"{"type":"custom","customType":"a","timestamp":"2026-02-30T00:00:00Z"}"#, "`time"),
            (r#"{"role":"assistant","content":"hi","usage":"x"}"#, "`usage`"),
            (r#"{"type":"custom","customType":"a","id":"root"}"#, "an id must"),
            (r##"{"type":"custom","customType":"a","id":"#7"}"##, "an id must"),
        ] {
            let refused = line(json);
            assert!(refused.starts_with("refused: ") && refused.contains(why), "{json}: {refused}");
        }
        let deep = format!(r#"{{"role":"user","content":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        assert!(matches!(NewEntry::read(&deep), Err(Refusal::TooDeep)));
        let long = format!(r#"{{"role":"user","content":"{}"}}"#, "a".repeat(MAX_ENTRY_BYTES));
        assert!(matches!(NewEntry::read(&long), Err(Refusal::TooLong(_))));
    }

    #[test]
    fn refusals_quote_nothing_of_a_message() {
        let refused = line(r#"{"role":"user","content":"secret"#);
        assert!(!refused.contains("secret"), "{refused}");
    }
}
