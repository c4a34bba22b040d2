//! What a runtime may append to a session: entries in pi's shapes (version 3), checked before they
//! are written. Whatever is not understood by those who read the session later is refused here, with
//! a sentence that says why.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json::object::{Json, Object, text};
use crate::time::Timestamp;

/// An entry of more bytes than this is refused: nobody could read it whole.
pub const LONGEST: usize = crate::record::DECODE_LIMIT - 4096;

/// What is nested deeper is refused: most readers of JSON stop at 128, and an entry stands in one.
const DEEPEST: usize = 120;

/// An id of more bytes than this is refused.
const LONGEST_ID: usize = 128;

/// Why an entry is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It cannot be read.
    #[error("not a JSON object: {0}")]
    NotAnObject(String),
    /// It is too long.
    #[error("{0} bytes are too long; at most {LONGEST} are kept in one entry")]
    TooLong(usize),
    /// Readers do not go that deep.
    #[error("it is nested more than {DEEPEST} deep")]
    TooDeep,
    /// Nobody would understand it.
    #[error("there is no entry type {0:?}; `custom` takes data of your own")]
    UnknownType(String),
    /// A message of a role that there is not.
    #[error(
        "there is no role {0:?}: a message is of user, assistant, toolResult, bashExecution, custom or system"
    )]
    WrongRole(String),
    /// Something is missing or is of the wrong kind.
    #[error("{0}")]
    Field(&'static str),
    /// An id that cannot be used.
    #[error(
        "an id is 1 to {LONGEST_ID} printable characters, not `root`, and does not begin with #"
    )]
    Id,
}

/// What an entry says about its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParentSaid {
    /// Nothing: the leaf is.
    Unsaid,
    /// It has none.
    Root,
    /// The entry of that id.
    Id(String),
}

impl From<Option<String>> for ParentSaid {
    fn from(parent: Option<String>) -> ParentSaid {
        parent.map_or(ParentSaid::Root, ParentSaid::Id)
    }
}

/// An entry that was checked as far as it can be alone.
#[derive(Debug, Clone)]
pub struct NewEntry {
    /// What kind of entry it is.
    pub type_name: &'static str,
    /// Its id, if it brings one.
    pub id: Option<String>,
    /// Its parent.
    pub parent: ParentSaid,
    /// Other entries that it speaks of: the field, and the id. They have to be there.
    pub refers_to: Vec<(&'static str, String)>,
    /// Where a `leaf` moves the leaf; `Some(None)`: before the first entry.
    pub leaf_target: Option<Option<String>>,
    /// It stands beside the conversation and never becomes the leaf.
    pub is_side: bool,
    /// The role of a message.
    pub role: Option<&'static str>,
    fields: Vec<(String, Box<RawValue>)>,
}

/// Every type, with the fields that it cannot do without: its name, and what it has to be.
const TYPES: &[(&str, &[(&str, Is)])] = &[
    ("message", &[("message", Is::Object)]),
    ("model_change", &[("provider", Is::Text), ("modelId", Is::Text)]),
    ("thinking_level_change", &[("thinkingLevel", Is::Text)]),
    ("compaction", &[("summary", Is::Text)]),
    ("branch_summary", &[("summary", Is::Text)]),
    ("custom", &[("customType", Is::Text)]),
    ("custom_message", &[("customType", Is::Text), ("content", Is::Content)]),
    ("label", &[("targetId", Is::Text)]),
    ("session_info", &[]),
    ("usage", &[("usage", Is::Object)]),
    ("context_edit", &[("targetId", Is::Text)]),
    ("leaf", &[]),
    ("reset", &[]),
];

/// Roles of messages, and whether their content may be left out.
const ROLES: &[(&str, bool)] = &[
    ("user", false),
    ("assistant", false),
    ("toolResult", false),
    ("custom", false),
    ("system", true),
    ("bashExecution", true),
];

/// Why a session was reset, in OpenClaw's words.
const RESETS: &[&str] = &["new", "reset", "idle", "daily", "cron-stale"];

#[derive(Debug, Clone, Copy)]
enum Is {
    Text,
    Object,
    /// Text, or a list of blocks.
    Content,
}

impl Is {
    fn holds(self, value: &RawValue) -> bool {
        let first = value.get().as_bytes().first();
        match self {
            Is::Text => first == Some(&b'"'),
            Is::Object => first == Some(&b'{'),
            Is::Content => matches!(first, Some(b'"' | b'[')),
        }
    }
}

impl NewEntry {
    /// Checks an entry, or a bare message (an object with a role and no type).
    pub fn read(json: &str) -> Result<NewEntry, Refusal> {
        let json = json.trim();
        if json.len() > LONGEST {
            return Err(Refusal::TooLong(json.len()));
        }
        if is_deep(json) {
            return Err(Refusal::TooDeep);
        }
        let object: Object<'_> = serde_json::from_str(json)
            .map_err(|error| Refusal::NotAnObject(without_text(&error)))?;
        let type_name = match object.get("type") {
            None if object.has("role") => "message",
            None => return Err(Refusal::Field("an entry needs a type, a bare message a role")),
            Some(value) => known_type(&text(value).unwrap_or_default())?,
        };
        let is_bare = !object.has("type");
        let mut entry = NewEntry {
            type_name,
            id: None,
            parent: ParentSaid::Unsaid,
            refers_to: Vec::new(),
            leaf_target: None,
            is_side: object.text("appendMode").as_deref() == Some("side"),
            role: None,
            fields: Vec::new(),
        };
        if is_bare {
            entry.role = Some(check_message(&object)?);
            entry.fields.push(("message".to_owned(), finished_message(&object)?));
            return Ok(entry);
        }
        entry.check(&object)?;
        for (name, value) in object.fields() {
            match name {
                "type" | "id" | "parentId" => {}
                "message" => {
                    let message = Object::read(value.get());
                    let message = message.ok_or(Refusal::Field("`message` is no object"))?;
                    entry.fields.push((name.to_owned(), finished_message(&message)?));
                }
                _ => entry.fields.push((name.to_owned(), value.to_owned())),
            }
        }
        Ok(entry)
    }

    fn check(&mut self, object: &Object<'_>) -> Result<(), Refusal> {
        let needs = TYPES.iter().find(|(name, _)| *name == self.type_name);
        for (field, is) in needs.map(|(_, needs)| *needs).unwrap_or_default() {
            if !object.get(field).is_some_and(|value| is.holds(value)) {
                return Err(Refusal::Field(missing(self.type_name)));
            }
        }
        if let Some(content) = object.get("content")
            && self.type_name == "custom_message"
            && !has_blocks(content)
        {
            return Err(Refusal::Field("a block of `content` is an object with a `type`"));
        }
        if let Some(id) = object.some("id") {
            self.id = Some(id_of(id)?);
        }
        self.parent = match object.get("parentId") {
            None => ParentSaid::Unsaid,
            Some(value) if value.get() == "null" => ParentSaid::Root,
            Some(value) => ParentSaid::Id(id_of(value)?),
        };
        if let Some(time) = object.get("timestamp")
            && text(time).and_then(|time| Timestamp::from_text(&time)).is_none()
        {
            return Err(Refusal::Field("`timestamp` is no ISO 8601 time"));
        }
        let refers = |field: &'static str| -> Result<Option<(&'static str, String)>, Refusal> {
            object.some(field).map(|value| Ok((field, id_of(value)?))).transpose()
        };
        match self.type_name {
            "message" => {
                let message = object.get("message").and_then(|value| Object::read(value.get()));
                self.role = Some(check_message(&message.unwrap_or_default())?);
            }
            "label" => self.refers_to.extend(refers("targetId")?),
            "context_edit" => {
                self.refers_to.extend(refers("targetId")?);
                let is_good = object.get("replacement").is_some_and(|replacement| {
                    let content = Object::read(replacement.get());
                    let content = content.as_ref().and_then(|content| content.get("content"));
                    replacement.get() == "null"
                        || content.is_some_and(|content| Is::Content.holds(content))
                });
                if !is_good {
                    let why =
                        "`replacement` of a context edit is null, or an object with `content`";
                    return Err(Refusal::Field(why));
                }
            }
            "compaction" => self.refers_to.extend(refers("firstKeptEntryId")?),
            "reset" => {
                self.refers_to.extend(refers("firstKeptEntryId")?);
                let reason = object.text("reason").unwrap_or_default();
                if !RESETS.contains(&&*reason) {
                    let why = "`reason` of a reset is new, reset, idle, daily or cron-stale";
                    return Err(Refusal::Field(why));
                }
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

    /// The line to be written, with its newline. What the entry brings itself stays as it is.
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
                value = timed(value, now);
            }
            object.push(Cow::Borrowed(name), value);
        }
        object.json().map(|json| format!("{}\n", json.get())).unwrap_or_default()
    }
}

/// The id of an entry that was written.
pub fn id_in(line: &str) -> Option<String> {
    Object::read(line.trim_end())?.text("id").map(Cow::into_owned)
}

/// The thinking level that an entry sets.
pub fn thinking_level_in(line: &str) -> Option<String> {
    Object::read(line.trim_end())?.text("thinkingLevel").map(Cow::into_owned)
}

/// The header of a new session, with its newline.
pub fn header(id: &str, cwd: Option<&str>, parent: Option<&str>, now: Timestamp) -> String {
    let mut object = Object::default();
    object.put("type", &"session");
    object.put("version", &3);
    object.put("id", &id);
    object.put("timestamp", &now.to_iso());
    object.put("cwd", &cwd.unwrap_or_default());
    if let Some(parent) = parent {
        object.put("parentSession", &parent);
    }
    object.json().map(|json| format!("{}\n", json.get())).unwrap_or_default()
}

/// A line with another parent, and with ids that it speaks of replaced; otherwise as it was.
pub fn rehung(line: &str, parent: Option<&str>, first_kept: Option<&str>) -> Option<String> {
    let mut object = Object::read(line.trim())?;
    object.put("parentId", &parent);
    if let Some(first_kept) = first_kept {
        object.put("firstKeptEntryId", &first_kept);
    }
    Some(format!("{}\n", object.json()?.get()))
}

/// A message that tells what was sent to a channel (R104): no model wrote it, and it costs nothing.
pub fn mirror(text: &str) -> String {
    serde_json::json!({
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "api": "openai-responses",
        "provider": "openclaw",
        "model": "delivery-mirror",
        "usage": {
            "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
        },
        "stopReason": "stop",
    })
    .to_string()
}

/// Whether lists and objects stand too deep in each other.
fn is_deep(json: &str) -> bool {
    let (mut depth, mut in_text, mut bytes) = (0_usize, false, json.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if in_text => drop(bytes.next()),
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => depth += 1,
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return true;
        }
    }
    false
}

fn known_type(name: &str) -> Result<&'static str, Refusal> {
    let known = TYPES.iter().map(|(known, _)| *known).find(|known| *known == name);
    known.ok_or_else(|| Refusal::UnknownType(short(name)))
}

fn missing(type_name: &str) -> &'static str {
    match type_name {
        "message" => "a message entry needs `message`",
        "model_change" => "a model change needs `provider` and `modelId`",
        "thinking_level_change" => "a change of the thinking level needs `thinkingLevel`",
        "compaction" => "a compaction needs `summary`",
        "branch_summary" => "a branch summary needs `summary`",
        "custom" => "a custom entry needs `customType`",
        "custom_message" => "a custom message needs `customType` and `content`",
        "label" => "a label needs `targetId`",
        "usage" => "a usage entry needs `usage`",
        _ => "a context edit needs `targetId`",
    }
}

fn check_message(message: &Object<'_>) -> Result<&'static str, Refusal> {
    let role = message.text("role").unwrap_or_default();
    let Some((role, may_be_empty)) = ROLES.iter().find(|(known, _)| *known == role) else {
        return Err(Refusal::WrongRole(short(&role)));
    };
    match message.get("content") {
        Some(content) if Is::Content.holds(content) => {}
        None if *may_be_empty => {}
        _ => return Err(Refusal::Field("a message's `content` is text or a list of blocks")),
    }
    if !message.get("content").is_none_or(has_blocks) {
        return Err(Refusal::Field("a block of `content` is an object with a `type`"));
    }
    if !message.some("usage").is_none_or(|usage| Is::Object.holds(usage)) {
        return Err(Refusal::Field("`usage` of a message is an object"));
    }
    if *role == "toolResult" && message.text("toolCallId").is_none_or(|id| id.is_empty()) {
        return Err(Refusal::Field("a tool result needs `toolCallId`"));
    }
    if *role == "bashExecution" && !message.get("command").is_some_and(|is| Is::Text.holds(is)) {
        return Err(Refusal::Field("a bash execution needs `command`"));
    }
    Ok(role)
}

/// Whether content is text, or blocks that say what they are.
fn has_blocks(content: &RawValue) -> bool {
    if Is::Text.holds(content) {
        return true;
    }
    let blocks: Option<Vec<Object<'_>>> = serde_json::from_str(content.get()).ok();
    let is_block = |block: &Object<'_>| block.text("type").is_some_and(|kind| !kind.is_empty());
    blocks.is_some_and(|blocks| blocks.iter().all(is_block))
}

/// A message in pi's shape: answers and results have lists of blocks.
fn finished_message(message: &Object<'_>) -> Result<Box<RawValue>, Refusal> {
    let mut message = message.clone();
    let is_listed = matches!(message.text("role").as_deref(), Some("assistant" | "toolResult"));
    if is_listed && let Some(said) = message.text("content").map(Cow::into_owned) {
        message.put("content", &[serde_json::json!({"type": "text", "text": said})]);
    }
    message.json().ok_or(Refusal::Field("a message that cannot be written"))
}

/// Messages say when they were said, in milliseconds.
fn timed(message: Json<'_>, now: Timestamp) -> Json<'_> {
    let with_time = Object::read(message.get()).filter(|object| !object.has("timestamp"));
    let json = with_time.and_then(|mut object| {
        object.put("timestamp", &now.0);
        object.json()
    });
    json.map_or(message, Cow::Owned)
}

fn id_of(value: &RawValue) -> Result<String, Refusal> {
    let id = text(value).ok_or(Refusal::Id)?;
    let is_good = !id.is_empty()
        && id.len() <= LONGEST_ID
        && !id.chars().any(char::is_control)
        // The place before the first entry, and entries that are named by their line.
        && id != "root"
        && !id.starts_with('#');
    if is_good { Ok(id.into_owned()) } else { Err(Refusal::Id) }
}

/// Of a hostile name enough to recognise it.
fn short(name: &str) -> String {
    name.chars().take(40).collect()
}

/// Where JSON ends to be JSON, without a word of it.
fn without_text(error: &serde_json::Error) -> String {
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
    fn what_nobody_would_understand_is_refused() {
        for (json, why) in [
            ("", "not a JSON object"),
            ("[]", "not a JSON object"),
            ("{}", "needs a type"),
            (r#"{"type":"session"}"#, "no entry type"),
            (r#"{"type":7}"#, "no entry type"),
            (r#"{"role":"wizard","content":""}"#, "no role"),
            (r#"{"type":"message","message":{"role":"tool","content":""}}"#, "no role"),
            (r#"{"type":"message","message":{"role":"user"}}"#, "`content`"),
            (r#"{"type":"message","message":"hi"}"#, "needs `message`"),
            (r#"{"role":"toolResult","content":[]}"#, "`toolCallId`"),
            (r#"{"type":"leaf"}"#, "`targetId`"),
            (r#"{"type":"reset"}"#, "`reason`"),
            (r#"{"type":"custom","customType":"a","id":""}"#, "an id is"),
            (r#"{"type":"custom","customType":"a","id":7}"#, "an id is"),
            (r#"{"type":"custom","customType":"a","parentId":"a\u0000b"}"#, "an id is"),
            (r#"{"type":"custom","customType":"a","timestamp":"soon"}"#, "`timestamp`"),
            (r#"{"type":"compaction"}"#, "`summary`"),
            (r#"{"type":"context_edit","targetId":"a"}"#, "`replacement`"),
            (r#"{"type":"context_edit","targetId":"a","replacement":"gone"}"#, "`replacement`"),
            (
                r#"{"type":"context_edit","targetId":"a","replacement":{"content":5}}"#,
                "`replacement`",
            ),
            (r#"{"role":"user","content":[5]}"#, "a block of `content`"),
            (r#"{"role":"user","content":[{"text":"hi"}]}"#, "a block of `content`"),
            (r#"{"type":"custom_message","customType":"a","content":["hi"]}"#, "a block of"),
            (r#"{"role":"assistant","content":"hi","usage":"x"}"#, "`usage`"),
            (r#"{"type":"custom","customType":"a","id":"root"}"#, "an id is"),
            (r##"{"type":"custom","customType":"a","id":"#7"}"##, "an id is"),
        ] {
            let refused = line(json);
            assert!(refused.starts_with("refused: ") && refused.contains(why), "{json}: {refused}");
        }
        let deep = format!(r#"{{"role":"user","content":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        assert!(matches!(NewEntry::read(&deep), Err(Refusal::TooDeep)));
        let long = format!(r#"{{"role":"user","content":"{}"}}"#, "a".repeat(LONGEST));
        assert!(matches!(NewEntry::read(&long), Err(Refusal::TooLong(_))));
    }

    #[test]
    fn refusals_quote_nothing_of_a_message() {
        let refused = line(r#"{"role":"user","content":"secret"#);
        assert!(!refused.contains("secret"), "{refused}");
    }
}
