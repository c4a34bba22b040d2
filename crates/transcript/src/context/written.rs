//! Writes the lines of a file that [`super::layout`] laid out.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::layout::{LaidEntry, Layout, Written};
use super::messages::Maker;
use super::row;
use crate::json::object::Object;
use crate::json::stringify;

/// The custom type of an entry that replaces a removed one, so that no model sees it.
const REMOVED_TYPE: &str = "quipu.removed";

/// The values of a file's header.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The session's id.
    pub id: &'a str,
    /// The start of the session, for a session without a header.
    pub time: &'a str,
    /// The file of the session that this one continues, if it has one.
    pub parent: Option<&'a str>,
    /// The session's id in the ledger, if its file cannot have that id.
    pub own: Option<&'a str>,
    /// True if the file continues the one before it.
    pub continues_previous: bool,
}

/// The header field for [`Head::own`].
pub const OWN_ID: &str = "quipuSession";

/// The header field for [`Head::continues_previous`]. The first line does not show it: the reset
/// that begins the file may come after its children, because the leaf comes last.
pub const CONTINUES_FIELD: &str = "quipuGoesOn";

/// The field that marks an entry without a line of the session: [`REPEATED_SETTING`] if it repeats
/// a setting from the file before, [`LEAF_ONLY`] if it only serves as the leaf.
pub const ADDED_FIELD: &str = "quipuMade";
/// The value of [`ADDED_FIELD`] for a repeated setting.
pub const REPEATED_SETTING: &str = "again";
/// The value of [`ADDED_FIELD`] for an entry that only serves as the leaf.
pub const LEAF_ONLY: &str = "leaf";

/// The field that holds the session's own line in an entry that is changed because a file begins
/// with it.
pub const OWN_LINE: &str = "quipuLine";

/// Returns a header without the [`OWN_ID`] and [`CONTINUES_FIELD`] that an export wrote into it,
/// and with the session's own `id`; `None` if it is not a header.
pub fn own_header(line: &str, id: Option<&str>) -> Option<String> {
    let mut object = Object::read(row::clean(line))?;
    if object.text("type").as_deref() != Some("session") {
        return None;
    }
    object.take(OWN_ID);
    object.take(CONTINUES_FIELD);
    if let Some(id) = id {
        object.put("id", &id);
    }
    Some(text(&object))
}

/// Returns the time in a line, in milliseconds UTC.
pub fn line_time(line: &str) -> Option<i64> {
    Object::read(row::clean(line))?.get("timestamp").and_then(super::messages::time_of)
}

/// Writes the lines of one file, in its order.
#[derive(Debug)]
pub struct Writer {
    maker: Maker,
    /// The time of entries without a line.
    time: String,
}

impl Writer {
    /// Returns a writer for a new file. Entries without a time get `time`.
    pub fn new(layout: &Layout, time: &str) -> Writer {
        let mut maker = Maker::default();
        maker.has_hooks = layout.has_hooks;
        Writer { maker, time: time.to_owned() }
    }

    /// Returns the header as written, except for its version and the ids in it.
    pub fn header(&self, line: Option<&str>, head: &Head<'_>) -> String {
        let read = line.map(row::clean).and_then(Object::read);
        let mut object = read.unwrap_or_else(|| {
            let mut object = Object::default();
            object.put("type", &"session");
            object.put("version", &3);
            object.put("id", &head.id);
            object.put("timestamp", &head.time);
            object.put("cwd", &"");
            object
        });
        let is_version_3 = object.get("version").is_some_and(|version| version.get() == "3");
        if !is_version_3 {
            object.put("version", &3);
        }
        object.put("id", &head.id);
        if let Some(parent) = head.parent {
            object.put("parentSession", &parent);
        }
        if let Some(own) = head.own {
            object.put(OWN_ID, &own);
        }
        if head.continues_previous {
            object.put(CONTINUES_FIELD, &true);
        }
        spelled(&text(&object))
    }

    /// Returns the lines of an entry, usually one, each with its newline. They are spelled as
    /// OpenClaw would write them, so that its database stores the same bytes.
    pub fn entry(&mut self, laid: &LaidEntry, line: &str) -> String {
        spelled(&self.laid_out(laid, line))
    }

    fn laid_out(&mut self, laid: &LaidEntry, line: &str) -> String {
        let line = row::clean(line);
        let read = if laid.line.is_some() { Object::read(line) } else { self.made(laid) };
        let Some(mut object) = read else { return String::new() };
        let mut is_changed = laid.line.is_none() || laid.joins;
        if laid.joins {
            object.take("appendMode");
        }
        match &laid.what {
            Written::Message { is_bare, edit } => {
                return self.message(laid, line, object, *is_bare, edit.as_deref());
            }
            Written::Custom { edit } => {
                let mut messages = Vec::new();
                self.maker.custom(line, edit.as_deref(), &mut messages);
                match messages.first().map(|message| Object::read(message.json())) {
                    None => return removed(laid, &object),
                    Some(Some(mut message)) if edit.is_some() => {
                        let content = message.take("content").map(Cow::into_owned);
                        object.put("content", &content);
                        is_changed = true;
                    }
                    Some(_) => {}
                }
            }
            Written::Summary { is_removed: true } => return removed(laid, &object),
            Written::Summary { is_removed: false } => {
                if object.has("branchPoint") && !object.has("fromId") {
                    object.rename("branchPoint", "fromId");
                    is_changed = true;
                }
            }
            Written::Boundary { first_kept: Some(first) } => {
                object.take("firstKeptEntryIndex");
                object.put("firstKeptEntryId", first);
                is_changed = true;
            }
            Written::Boundary { first_kept: None } => {}
            Written::Other => {
                let is_model = object.text("type").is_some_and(|name| name == "model_change");
                if is_model && object.has("model") && !object.has("modelId") {
                    object.rename("model", "modelId");
                    is_changed = true;
                }
            }
            Written::Model(_) | Written::Thinking(_) | Written::Foothold(_) => {}
            Written::Root => {
                object.put("targetId", &None::<&str>);
                is_changed = true;
            }
        }
        if !is_changed && is_placed(laid, &object) {
            return format!("{line}\n");
        }
        object.put("id", &laid.id);
        object.put("parentId", &laid.parent);
        if laid.keeps_original && laid.line.is_some() {
            object.put(OWN_LINE, &line);
        }
        text(&object)
    }

    /// Returns an entry without a line of the session.
    fn made(&self, laid: &LaidEntry) -> Option<Object<'static>> {
        let mut object = Object::default();
        let type_name = match &laid.what {
            Written::Model(_) => "model_change",
            Written::Thinking(_) | Written::Foothold(_) => "thinking_level_change",
            Written::Root => "leaf",
            _ => return None,
        };
        object.put("type", &type_name);
        object.put("id", &laid.id);
        object.put("parentId", &laid.parent);
        object.put("timestamp", &self.time);
        match &laid.what {
            Written::Model(model) => {
                object.put("provider", &model.provider.as_deref().unwrap_or_default());
                object.put("modelId", &model.model_id.as_deref().unwrap_or_default());
            }
            Written::Thinking(level) | Written::Foothold(level) => {
                object.put("thinkingLevel", level);
            }
            _ => object.put("targetId", &None::<&str>),
        }
        match &laid.what {
            Written::Model(_) | Written::Thinking(_) => object.put(ADDED_FIELD, &REPEATED_SETTING),
            Written::Foothold(_) => object.put(ADDED_FIELD, &LEAF_ONLY),
            _ => {}
        }
        Some(object)
    }

    /// Converts a message into pi's shape; results inside another message become entries before it.
    fn message(
        &mut self,
        laid: &LaidEntry,
        line: &str,
        object: Object<'_>,
        is_bare: bool,
        edit: Option<&RawValue>,
    ) -> String {
        let mut messages = Vec::new();
        self.maker.message(line, is_bare, edit, &mut messages);
        let Some((last, before)) = messages.split_last() else { return removed(laid, &object) };
        let is_same = !is_bare
            && !laid.joins
            && before.is_empty()
            && object.get("message").is_some_and(|message| message.get() == last.json());
        if is_same && is_placed(laid, &object) {
            return format!("{line}\n");
        }
        let mut lines = String::new();
        let mut parent = laid.parent.clone();
        for (number, message) in messages.iter().enumerate() {
            let id = match number + 1 == messages.len() {
                true => laid.id.clone(),
                false => format!("{}-{number}", laid.id),
            };
            let mut entry = Object::default();
            if !is_bare {
                entry = object.clone();
            }
            entry.put("type", &"message");
            entry.put("id", &id);
            entry.put("parentId", &parent);
            if !entry.has("timestamp") {
                entry.put("timestamp", &self.time_of(&object));
            }
            entry.put("message", &message);
            lines.push_str(&text(&entry));
            parent = Some(id);
        }
        lines
    }

    /// Returns a bare message's own time, or the session's.
    fn time_of(&self, object: &Object<'_>) -> String {
        let millis = object.get("timestamp").and_then(super::messages::time_of);
        millis.map_or_else(|| self.time.clone(), |millis| crate::time::Timestamp(millis).to_iso())
    }
}

/// Returns whether a line already has the id and parent that it must have.
fn is_placed(laid: &LaidEntry, object: &Object<'_>) -> bool {
    let has_parent = match object.get("parentId") {
        None => false,
        Some(written) if written.get() == "null" => laid.parent.is_none(),
        Some(written) => crate::json::object::text(written).as_deref() == laid.parent.as_deref(),
    };
    has_parent && object.text("id").is_some_and(|id| id == laid.id)
}

/// Returns an entry that no model sees, in the place of a removed one.
fn removed(laid: &LaidEntry, object: &Object<'_>) -> String {
    removed_line(&laid.id, laid.parent.as_deref(), object)
}

/// Returns the line of an entry that no model sees, in the place of a removed one.
pub(crate) fn removed_line(id: &str, parent: Option<&str>, object: &Object<'_>) -> String {
    let mut data = Object::default();
    data.put("entry", object);
    let mut line = Object::default();
    let message = object.get("message").and_then(|message| Object::read(message.get()));
    let word = |name: &str| message.as_ref()?.text(name).map(Cow::into_owned);
    match (word("role").as_deref(), word("provider"), word("model")) {
        // The model that answered stays the model in use.
        (Some("assistant"), Some(provider), Some(model)) => {
            line.put("type", &"model_change");
            line.put("provider", &provider);
            line.put("modelId", &model);
        }
        _ => line.put("type", &"custom"),
    }
    line.put("customType", &REMOVED_TYPE);
    line.put("data", &data);
    line.put("id", &id);
    line.put("parentId", &parent);
    if let Some(time) = object.get("timestamp") {
        line.put("timestamp", &time);
    }
    text(&line)
}

/// Returns lines in JavaScript's spelling.
fn spelled(lines: &str) -> String {
    let mut spelled = String::with_capacity(lines.len());
    for line in lines.split_terminator('\n') {
        spelled.push_str(&stringify(line));
        spelled.push('\n');
    }
    spelled
}

fn text(object: &Object<'_>) -> String {
    object.json().map(|json| format!("{}\n", json.get())).unwrap_or_default()
}
