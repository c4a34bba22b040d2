//! What a runtime may append to a session: entries in pi's shapes (version 3), checked before they
//! are written. Whatever is not understood by those who read the session later is refused here, with
//! a sentence that says why.

mod check;
mod lines;

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json::object::{Json, Object, text};
use crate::time::Timestamp;
pub use lines::{header, id_in, mirror, rehung, thinking_level_in};

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
    /// A field holds something else than it should.
    #[error("`{field}` of {of} {should}")]
    Wrong {
        /// The field.
        field: &'static str,
        /// What it is a field of.
        of: &'static str,
        /// What it should be, or what is wrong with it.
        should: &'static str,
    },
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
            Some(value) => check::known_type(&text(value).unwrap_or_default())?,
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
            entry.role = Some(check::message(&object)?);
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
        check::fields(self.type_name, object)?;
        if let Some(id) = object.some("id") {
            self.id = Some(id_of(id)?);
        }
        self.parent = match object.get("parentId") {
            None => ParentSaid::Unsaid,
            Some(value) if value.get() == "null" => ParentSaid::Root,
            Some(value) => ParentSaid::Id(id_of(value)?),
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
                self.role = Some(check::message(&message.unwrap_or_default())?);
            }
            "label" => self.refers_to.extend(refers("targetId")?),
            "context_edit" => {
                self.refers_to.extend(refers("targetId")?);
                check::replacement(object)?;
            }
            "compaction" => self.refers_to.extend(refers("firstKeptEntryId")?),
            // `root`: before the first entry.
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

impl NewEntry {
    /// Whether `line` is this entry as it was written before. Fields that were filled in then do not
    /// count, nor does where a branch summary was written from: the leaf has moved since.
    pub fn is_written_as(&self, line: &str) -> bool {
        let written = Object::read(line.trim_end());
        let id = written.as_ref().and_then(|written| written.text("id")).unwrap_or_default();
        let id = self.id.as_deref().unwrap_or(&id);
        let again = self.line(id, None, Timestamp(0));
        let (Some(mut written), Some(mut again)) =
            (written.clone(), Object::read(again.trim_end()))
        else {
            return false;
        };
        let parent = written.take("parentId");
        again.take("parentId");
        let parent = parent.as_ref().and_then(|parent| text(parent));
        let is_there = match &self.parent {
            ParentSaid::Unsaid => true,
            ParentSaid::Root => parent.is_none(),
            ParentSaid::Id(id) => parent.as_deref() == Some(id),
        };
        let brings = |name: &str| self.fields.iter().any(|(field, _)| field == name);
        for object in [&mut written, &mut again] {
            if !brings("timestamp") {
                object.take("timestamp");
            }
            if self.type_name == "branch_summary" {
                object.take("fromId");
            }
        }
        let (message, other) = (written.take("message"), again.take("message"));
        let is_same_message = match (&message, &other) {
            (Some(message), Some(other)) => {
                let said = self.fields.iter().find(|(name, _)| name == "message");
                let said = said.and_then(|(_, message)| Object::read(message.get()));
                let is_timed = said.is_some_and(|message| message.has("timestamp"));
                is_same_message(message, other, is_timed)
            }
            (None, None) => true,
            _ => false,
        };
        is_there && is_same_message && has_same_fields(&written, &again)
    }
}

/// Whether two messages are the same. Unless `is_timed`, their times were filled in.
fn is_same_message(one: &RawValue, other: &RawValue, is_timed: bool) -> bool {
    let (Some(mut one), Some(mut other)) = (Object::read(one.get()), Object::read(other.get()))
    else {
        return false;
    };
    if !is_timed {
        one.take("timestamp");
        other.take("timestamp");
    }
    has_same_fields(&one, &other)
}

/// Whether two objects have the same fields, in any order.
fn has_same_fields(one: &Object<'_>, other: &Object<'_>) -> bool {
    let is_same = |one: &RawValue, other: &RawValue| {
        let tree = |value: &RawValue| serde_json::from_str::<serde_json::Value>(value.get()).ok();
        one.get() == other.get()
            || tree(one).is_some_and(|tree_of_one| tree(other) == Some(tree_of_one))
    };
    one.fields().count() == other.fields().count()
        && one
            .fields()
            .all(|(name, value)| other.get(name).is_some_and(|other| is_same(value, other)))
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
    fn an_entry_is_known_again_by_what_it_brought() {
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
            (hi, r#"{"role":"user","content":"hi","n":1e400,"timestamp":5}"#, false),
            (
                r#"{"type":"custom","customType":"a","data":{"b":1,"c":2}}"#,
                r#"{"data":{"c":2,"b":1},"customType":"a","type":"custom"}"#,
                true,
            ),
            (
                r#"{"type":"custom","customType":"a"}"#,
                r#"{"type":"custom","customType":"a","id":"0000000b"}"#,
                false,
            ),
            (
                r#"{"type":"custom","customType":"a"}"#,
                r#"{"type":"custom","customType":"a","parentId":"00000009"}"#,
                true,
            ),
            (
                r#"{"type":"custom","customType":"a"}"#,
                r#"{"type":"custom","customType":"a","parentId":null}"#,
                false,
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
            (r#"{"type":"message","message":"hi"}"#, "`message` of a message is an object"),
            (r#"{"type":"message","message":null}"#, "needs `message`"),
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
            (r#"{"role":"user","content":[5]}"#, "a block is"),
            (r#"{"role":"user","content":[{"text":"hi"}]}"#, "a block is"),
            (r#"{"type":"custom_message","customType":"a","content":["hi"]}"#, "a block is"),
            (r#"{"role":"user","content":[{"type":"text"}]}"#, "`text`"),
            (r#"{"role":"user","content":[{"type":"image"}]}"#, "`data`"),
            (r#"{"role":"assistant","content":[{"type":"thinking","thinking":5}]}"#, "`thinking`"),
            (r#"{"role":"assistant","content":[{"type":"toolCall","name":"a"}]}"#, "`id`"),
            (r#"{"role":"assistant","content":[{"type":"toolCall","id":"a"}]}"#, "`name`"),
            (r#"{"role":"assistant","content":[{"type":"toolCall","id":"","name":"a"}]}"#, "`id`"),
            (r#"{"role":"assistant","content":[{"type":"tool_use","name":"a"}]}"#, "`id`"),
            (r#"{"role":"assistant","content":"","model":5}"#, "`model` of an answer is text"),
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
            (r#"{"type":"usage","usage":{"input":-1}}"#, "no whole numbers"),
            (r#"{"type":"usage","usage":{"output":1.5}}"#, "no whole numbers"),
            (r#"{"type":"usage","usage":{"cacheRead":1e400}}"#, "no whole numbers"),
            (r#"{"type":"usage","usage":{"totalTokens":"7"}}"#, "no whole numbers"),
            (r#"{"type":"usage","usage":{},"model":5}"#, "`model`"),
            (r#"{"role":"assistant","content":"","usage":{"input":-1}}"#, "no whole numbers"),
            (r#"{"role":"assistant","content":"","usage":{"cost":{"total":-1}}}"#, "costs"),
            (r#"{"role":"assistant","content":"","usage":{"cost":{"total":1e400}}}"#, "costs"),
            (r#"{"type":"compaction","summary":"a","tokensBefore":-5}"#, "`tokensBefore`"),
            (r#"{"type":"compaction","summary":"a","usage":5}"#, "`usage`"),
            (r#"{"type":"branch_summary","summary":"a","fromId":5}"#, "`fromId`"),
            (r#"{"type":"custom_message","customType":"a","content":"","display":1}"#, "`display`"),
            (r#"{"type":"context_edit","targetId":"a","replacement":{"content":[5]}}"#, "`replace"),
            (r#"{"type":"custom","customType":"a","timestamp":1706976000000}"#, "`timestamp`"),
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
