//! Estimates tokens as pi 0.87.1 does: four UTF-16 units are one token, rounded up for each
//! message, and a picture has 4,800 units.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::context::entries::{EntryKind, PathEntries};
use crate::context::{Message, apart};
use crate::json::object::{Object, list};
use crate::json::strings::{lossy_text, string_len, utf16_len};
use crate::json::{is_stringified, stringify};

/// The units of a picture.
const PICTURE_UNITS: u64 = 4800;

/// The roles of messages that tokens and cuts distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It begins a turn: a user's message, a command, a custom message or a summary.
    Opening,
    Answer,
    Result,
    System,
    Other,
}

/// The facts about a message that a compaction needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weighed {
    pub(crate) role: Role,
    pub(crate) tokens: u64,
    /// The size of the context after an answer, as its model counted it.
    pub(super) usage: Option<u64>,
}

/// Returns the tokens of a text.
pub fn of_text(text: &str) -> u64 {
    utf16_len(text).div_ceil(4)
}

/// Returns the estimated tokens of a message.
pub fn of_message(message: &Message) -> u64 {
    weigh(message.json()).tokens
}

/// Computes the tokens and the role of each message of a context.
pub(crate) fn weigh_all(messages: &[Message]) -> Vec<Weighed> {
    let parts = apart::map(
        messages,
        |message| message.json().len(),
        |messages| messages.iter().map(|message| weigh(message.json())).collect::<Vec<_>>(),
    );
    parts.into_iter().flatten().collect()
}

#[cfg(test)]
thread_local! {
    /// The number of messages that this thread has weighed.
    static WEIGHED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Computes the tokens and the role of a message.
pub(crate) fn weigh(json: &str) -> Weighed {
    #[cfg(test)]
    WEIGHED.set(WEIGHED.get() + 1);
    let message = Object::read(json).unwrap_or_default();
    let length = |name: &str| message.get(name).and_then(string_len).unwrap_or_default();
    let content = || message.get("content").map(shown_units).unwrap_or_default();
    let (role, units) = match message.text("role").as_deref().unwrap_or_default() {
        "user" | "custom" => (Role::Opening, content()),
        "toolResult" => (Role::Result, content()),
        "assistant" => (Role::Answer, message.get("content").map(answer_units).unwrap_or_default()),
        "bashExecution" => (Role::Opening, length("command").saturating_add(length("output"))),
        "branchSummary" | "compactionSummary" => (Role::Opening, length("summary")),
        "system" => (Role::System, content().saturating_add(system_units(&message))),
        _ => (Role::Other, 0),
    };
    let usage = if role == Role::Answer { usage(&message) } else { None };
    Weighed { role, tokens: units.div_ceil(4), usage }
}

/// Returns the units of texts and pictures.
pub(super) fn shown_units(content: &RawValue) -> u64 {
    if let Some(units) = string_len(content) {
        return units;
    }
    let blocks = list(content).unwrap_or_default().into_iter();
    let units = blocks.filter_map(|block| {
        let block = Object::read(block.get())?;
        match block.text("type").as_deref() {
            Some("text") => block.get("text").and_then(string_len),
            Some("image") => Some(PICTURE_UNITS),
            _ => None,
        }
    });
    units.fold(0, u64::saturating_add)
}

/// Returns the units of an answer: texts, thinking, and calls with their arguments.
fn answer_units(content: &RawValue) -> u64 {
    let blocks = list(content).unwrap_or_default().into_iter();
    let units = blocks.filter_map(|block| {
        let block = Object::read(block.get())?;
        let length = |name: &str| block.get(name).and_then(string_len).unwrap_or_default();
        match block.text("type").as_deref() {
            Some("text") => Some(length("text")),
            Some("thinking") => Some(length("thinking")),
            Some("toolCall") => {
                let arguments = block.get("arguments").map(written_units);
                Some(length("name").saturating_add(arguments.unwrap_or_default()))
            }
            _ => None,
        }
    });
    units.fold(0, u64::saturating_add)
}

/// Returns the units of a system message's sections and tools.
fn system_units(message: &Object<'_>) -> u64 {
    let sections = message.get("sections").and_then(|sections| Object::read(sections.get()));
    let sections = sections.unwrap_or_default();
    let units = sections.fields().filter_map(|(_, section)| string_len(section));
    let tools = message.some("toolsAdded").map(written_units).unwrap_or_default();
    units.fold(tools, u64::saturating_add)
}

/// Returns the units of a value as `JSON.stringify` writes it.
fn written_units(value: &RawValue) -> u64 {
    match is_stringified(value.get().as_bytes()) {
        true => utf16_len(value.get()),
        false => utf16_len(&stringify(value.get())),
    }
}

/// Returns the tokens of the context after an answer, unless it failed, was stopped, or used none.
fn usage(message: &Object<'_>) -> Option<u64> {
    if matches!(message.text("stopReason").as_deref(), Some("aborted" | "error")) {
        return None;
    }
    let usage = Object::read(message.some("usage")?.get())?;
    let number = |name: &str| usage.get(name)?.get().parse::<f64>().ok();
    let total = match number("totalTokens") {
        Some(total) if total != 0.0 => total,
        // Without a field, JavaScript's sum is not a number.
        _ => number("input")? + number("output")? + number("cacheRead")? + number("cacheWrite")?,
    };
    (total > 0.0).then_some(total as u64)
}

/// The estimate for a context.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Estimate {
    /// All tokens.
    pub tokens: u64,
    /// The part that a model counted: the usage of the last answer that can be trusted.
    pub counted: u64,
}

/// Returns the estimate for a context. `weighed` has its messages.
///
/// The usage of an answer before the last compaction, reset or edit is ignored, because it belongs
/// to another context.
pub(crate) fn of_context(path: &PathEntries, weighed: &[Weighed]) -> Estimate {
    // The last compaction is first in the list, and comes after the entries that it keeps.
    let changed = path.entries.iter().rposition(|entry| {
        let changes = matches!(
            entry.kind,
            EntryKind::Edit { .. } | EntryKind::Compaction(_) | EntryKind::Reset
        );
        changes && !entry.is_kept
    });
    let last = weighed.iter().rposition(|message| message.usage.is_some());
    let counted = last.and_then(|last| {
        let index = path.entries.iter().position(|entry| last < entry.end)?;
        let entry = path.entries.get(index)?;
        let is_trusted = !entry.is_kept && changed.is_none_or(|changed| index > changed);
        let usage = weighed.get(last)?.usage.filter(|_| is_trusted)?;
        Some((last, usage))
    });
    if let Some((last, counted)) = counted {
        let since = weighed.iter().skip(last + 1).map(|message| message.tokens);
        return Estimate { tokens: since.fold(counted, u64::saturating_add), counted };
    }
    let system = current_system(&path.messages, weighed);
    let system = system.map_or(0, |system| weigh(system.get()).tokens);
    let others = weighed.iter().filter(|message| message.role != Role::System);
    let tokens = others.map(|message| message.tokens).fold(system, u64::saturating_add);
    Estimate { tokens, counted: 0 }
}

/// Returns one system message for all of a context: texts joined, sections and tools by name, as pi
/// replays them. `None` if there is none. `weighed` has the same messages.
pub(crate) fn current_system(messages: &[Message], weighed: &[Weighed]) -> Option<Box<RawValue>> {
    let mut texts: Vec<String> = Vec::new();
    let mut sections: Named = Named::default();
    let mut tools: Named = Named::default();
    let mut time = None;
    let both = messages.iter().zip(weighed);
    for (message, _) in both.filter(|(_, weighed)| weighed.role == Role::System) {
        let Some(message) = Object::read(message.json()) else { continue };
        time = time.or_else(|| message.some("timestamp").map(ToOwned::to_owned));
        let text = message.get("content").map(content_text).unwrap_or_default();
        if !text.is_empty() {
            texts.push(text);
        }
        let read = |name: &str| message.some(name).map(ToOwned::to_owned);
        if let Some(changed) = read("sections") {
            for (name, section) in Object::read(changed.get()).unwrap_or_default().fields() {
                match section.get() {
                    "null" => sections.remove(name),
                    _ => sections.set(name, section),
                }
            }
        }
        let name_of = |tool: &RawValue| Some(Object::read(tool.get())?.text("name")?.into_owned());
        if let Some(removed) = read("toolsRemoved") {
            for name in list(&removed).unwrap_or_default().into_iter().filter_map(name_of) {
                tools.remove(&name);
            }
        }
        if let Some(added) = read("toolsAdded") {
            for tool in list(&added).unwrap_or_default() {
                tools.set(&name_of(tool).unwrap_or_default(), tool);
            }
        }
    }
    if time.is_none() && tools.is_empty() {
        return None;
    }
    let mut message = Object::default();
    message.put("role", &"system");
    message.put("content", &texts.join("\n\n"));
    if !sections.is_empty() {
        let mut all = Object::default();
        for (name, section) in sections.values() {
            all.push(name.to_owned().into(), std::borrow::Cow::Borrowed(section));
        }
        message.put("sections", &all);
    }
    if !tools.is_empty() {
        let all: Vec<&RawValue> = tools.values().map(|(_, tool)| tool).collect();
        message.put("toolsAdded", &all);
    }
    message.put("timestamp", &time);
    message.json()
}

/// Returns the text of a message's content, its blocks joined with line breaks.
fn content_text(content: &RawValue) -> String {
    if let Some(text) = lossy_text(content) {
        return text;
    }
    let blocks = list(content).unwrap_or_default().into_iter();
    let texts = blocks.filter_map(|block| {
        let block = Object::read(block.get())?;
        let is_text = block.text("type").as_deref() == Some("text");
        is_text.then(|| block.get("text").and_then(lossy_text))?
    });
    texts.collect::<Vec<String>>().join("\n")
}

/// Values by name, in the order in which they were first set, as in a JavaScript `Map`.
#[derive(Default)]
struct Named {
    places: BTreeMap<String, usize>,
    values: Vec<Option<(String, Box<RawValue>)>>,
}

impl Named {
    fn set(&mut self, name: &str, value: &RawValue) {
        let entry = Some((name.to_owned(), value.to_owned()));
        match self.places.get(name).and_then(|place| self.values.get_mut(*place)) {
            Some(old) => *old = entry,
            None => {
                self.places.insert(name.to_owned(), self.values.len());
                self.values.push(entry);
            }
        }
    }

    fn remove(&mut self, name: &str) {
        if let Some(old) = self.places.remove(name).and_then(|place| self.values.get_mut(place)) {
            *old = None;
        }
    }

    fn values(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.values.iter().flatten().map(|(name, value)| (name.as_str(), &**value))
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::{Budget, Plan};
    use crate::context::{At, Reader, Session};
    use crate::routing::settings::Compaction;

    /// The work of a plan is linear: each message is weighed once, however often less is kept until
    /// the rest fits. The messages are so short that no other thread takes part.
    #[test]
    fn r80_a_plan_weighs_each_message_once() {
        for messages in [100, 1000] {
            let mut lines = vec![r#"{"type":"session","version":3,"id":"s"}"#.to_owned()];
            lines.extend((1..=messages).map(|number| {
                let parent = number - 1;
                format!(
                    r#"{{"type":"message","id":"{number}","parentId":"{parent}","message":{{"role":"user","content":"count the knots"}}}}"#
                )
            }));
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let mut session = Session::new(Reader::OPENCLAW);
            session.extend(&lines);
            let path = session.path_plan(At::Leaf);
            let path = path.map(|path| path.fill(&|number| lines.get(number).copied()));
            let settings =
                Compaction { keep_recent_tokens: Some(1 << 40), ..Compaction::default() };
            let before = WEIGHED.get();
            let plan = Plan::new(path.unwrap_or_default(), Budget::new(&settings, Some(200)), None);
            let keep = plan.map(|plan| plan.budget.keep);
            assert!(keep.as_ref().is_ok_and(|keep| *keep <= 50), "{keep:?}");
            assert_eq!(WEIGHED.get() - before, messages);
        }
    }
}
