//! The files that calls of tools read and changed. Summaries carry them forward.
//!
//! They are those of pi's tools `read`, `write` and `edit`, by their argument `path`. Tools of that
//! name in any case, and an argument `file_path`, are read too.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::context::Message;
use crate::context::entries::Earlier;
use crate::json::object::{Object, list};
use crate::json::strings::lossy_text;
use crate::story::changes_file;

/// Files of a session, in the order of JavaScript's `sort`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Files {
    /// The files that were read and not changed.
    #[serde(rename = "readFiles")]
    pub read: Vec<String>,
    /// The files that were written or edited.
    #[serde(rename = "modifiedFiles")]
    pub modified: Vec<String>,
}

impl Files {
    /// Returns the lists as the end of a summary.
    pub(crate) fn as_tags(&self) -> String {
        let mut tags = String::new();
        for (name, files) in [("read-files", &self.read), ("modified-files", &self.modified)] {
            if !files.is_empty() {
                tags.push_str(&format!("\n\n<{name}>\n{}\n</{name}>", files.join("\n")));
            }
        }
        tags
    }
}

/// Returns a summary without the lists at its end.
pub(crate) fn without_tags(summary: &str) -> &str {
    let mut text = summary.trim_end();
    for name in ["modified-files", "read-files"] {
        let body = text.strip_suffix(&format!("</{name}>"));
        if let Some(start) = body.and_then(|body| body.rfind(&format!("<{name}>\n"))) {
            text = text.get(..start).unwrap_or(text).trim_end();
        }
    }
    text
}

/// Returns the files of an earlier compaction and of calls.
pub(crate) fn of_messages<'a>(
    earlier: Option<&Earlier>,
    messages: impl Iterator<Item = &'a Message>,
) -> Files {
    /// Sorts as JavaScript does: by UTF-16 units.
    fn units(name: &str) -> Vec<u16> {
        name.encode_utf16().collect()
    }
    let mut files: BTreeMap<Vec<u16>, (String, bool)> = BTreeMap::new();
    let mut add = |name: String, is_modified: bool| {
        let (_, modified) = files.entry(units(&name)).or_insert((name, false));
        *modified |= is_modified;
    };
    if let Some(earlier) = earlier {
        earlier.read_files.iter().for_each(|name| add(name.clone(), false));
        earlier.modified_files.iter().for_each(|name| add(name.clone(), true));
    }
    for message in messages {
        for (name, is_modified) in of_calls(message) {
            add(name, is_modified);
        }
    }
    let mut found = Files::default();
    for (name, is_modified) in files.into_values() {
        match is_modified {
            true => found.modified.push(name),
            false => found.read.push(name),
        }
    }
    found
}

/// Returns the files of a message's calls, each with whether it was changed.
fn of_calls(message: &Message) -> Vec<(String, bool)> {
    // Most messages have no call, and need not be read.
    if !message.json().contains("toolCall") {
        return Vec::new();
    }
    let Some(message) = Object::read(message.json()) else { return Vec::new() };
    if message.text("role").as_deref() != Some("assistant") {
        return Vec::new();
    }
    let blocks = message.get("content").and_then(list).unwrap_or_default().into_iter();
    let file = |block: Object<'_>| -> Option<(String, bool)> {
        if block.text("type").as_deref() != Some("toolCall") {
            return None;
        }
        let is_modified = changes_file(&block.text("name")?)?;
        let arguments = Object::read(block.get("arguments")?.get())?;
        let path = ["path", "file_path", "notebook_path"].into_iter().find_map(|name| {
            arguments.get(name).and_then(lossy_text).filter(|path| !path.is_empty())
        });
        Some((path?, is_modified))
    };
    blocks.filter_map(|block| file(Object::read(block.get())?)).collect()
}
