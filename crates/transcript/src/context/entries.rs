//! The entries that a context comes from, each with its messages: what a compaction cuts.
//!
//! Unlike a [`Plan`], it also has the entries without a message (labels, changes of the model), and
//! it leaves tool calls and results where they were written.

use serde_json::value::RawValue;

use super::plan::{self, Plan};
use super::row::{Kind, Models, Role, Row};
use super::tree::Tree;
use super::{Context, Message, window};
use crate::json::object::{Object, list};
use crate::json::strings::lossy_text;

/// The lines that [`PathEntries`] are made from.
#[derive(Debug)]
pub struct PathPlan {
    plan: Plan,
    /// The entries, without their messages.
    slots: Vec<PathEntry>,
}

/// The entries of a context: the last compaction or reset, the entries that it keeps, and those
/// after it.
#[derive(Debug, Default)]
pub struct PathEntries {
    /// The context without its messages.
    pub(crate) context: Context,
    pub(crate) entries: Vec<PathEntry>,
    /// The messages of all entries, in their order. Tool calls and results are not paired.
    pub(crate) messages: Vec<Message>,
}

/// One of these entries.
#[derive(Debug)]
pub(crate) struct PathEntry {
    pub(crate) line: usize,
    pub(crate) id: Option<String>,
    pub(crate) kind: EntryKind,
    /// True if the last compaction or reset comes after it on the path.
    pub(crate) is_kept: bool,
    /// The number of messages on the path before it.
    pub(crate) messages_before: u64,
    /// Its messages: a range of [`PathEntries::messages`].
    pub(crate) first: usize,
    pub(crate) end: usize,
}

impl PathEntry {
    /// Returns whether it has a message in the context.
    pub(crate) fn has_messages(&self) -> bool {
        self.first < self.end
    }
}

/// The type of an entry, as far as a cut depends on it.
#[derive(Debug)]
pub(crate) enum EntryKind {
    Message {
        is_answer: bool,
    },
    /// A custom message, or a summary of a branch.
    Shown,
    Compaction(Box<Earlier>),
    Reset,
    Edit {
        target: String,
        /// True if it removes its target from the context.
        removes: bool,
    },
    /// An entry without a message.
    Silent,
}

/// The summary and the file lists of an earlier compaction.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    pub(crate) summary: String,
    pub(crate) read_files: Vec<String>,
    pub(crate) modified_files: Vec<String>,
}

/// Returns the plan for the entries on the path to `leaf`. `None` if the reader has its own rows.
pub(super) fn plan(
    rows: &[Row],
    models: &Models,
    tree: &Tree,
    leaf: Option<usize>,
) -> Option<PathPlan> {
    let path = tree.path(leaf);
    if rows.iter().any(|row| matches!(row.kind, Kind::Own { .. })) {
        return None;
    }
    let plan = plan::of_path(rows, models, tree, leaf, &path);
    let window = window::window(rows, tree, &path);
    let mut messages_before = vec![0; rows.len()];
    let mut messages = 0;
    for index in path.iter().copied() {
        let Some(row) = rows.get(index) else { continue };
        if let Some(before) = messages_before.get_mut(index) {
            *before = messages;
        }
        messages += u64::from(matches!(row.kind, Kind::Message { .. }));
    }
    let slot = |index: usize, is_kept: bool| {
        let row = rows.get(index)?;
        let kind = match &row.kind {
            Kind::Message { role: Role::Missing, .. } => EntryKind::Silent,
            Kind::Message { role, .. } => {
                EntryKind::Message { is_answer: *role == Role::Assistant }
            }
            Kind::Custom | Kind::BranchSummary => EntryKind::Shown,
            Kind::Compaction(_) => EntryKind::Compaction(Box::default()),
            Kind::Reset(_) => EntryKind::Reset,
            Kind::Edit(target) => EntryKind::Edit { target: target.to_string(), removes: false },
            _ => EntryKind::Silent,
        };
        let messages_before = messages_before.get(index).copied().unwrap_or_default();
        let id = row.id.as_deref().map(str::to_owned);
        let line = row.line;
        Some(PathEntry { line, id, kind, is_kept, messages_before, first: 0, end: 0 })
    };
    let boundary = window.boundary.and_then(|index| slot(index, false));
    let kept = window.kept.iter().filter_map(|index| slot(*index, true));
    let after = window.after.iter().filter_map(|index| slot(*index, false));
    let slots = boundary.into_iter().chain(kept).chain(after).collect();
    Some(PathPlan { plan, slots })
}

impl PathPlan {
    /// Returns all lines that are needed.
    pub fn lines(&self) -> impl Iterator<Item = usize> {
        self.plan.lines()
    }

    /// Returns the entries of a session whose lines are all available.
    pub fn fill<'a>(self, line: &(dyn Fn(usize) -> Option<&'a str> + Sync)) -> PathEntries {
        let PathPlan { plan, slots } = self;
        let is_edit = |entry: &&PathEntry| matches!(entry.kind, EntryKind::Edit { .. });
        let edits = slots.iter().filter(is_edit).count();
        let lines: Vec<usize> = plan.lines().collect();
        let (mut context, marks) = plan.fill_marked(line);
        // Edits are read first; all other lines are in the order of the entries.
        let mut made = lines.into_iter().zip(marks).skip(edits).peekable();
        let mut end = 0;
        let mut entries = Vec::with_capacity(slots.len());
        for mut entry in slots {
            let number = entry.line;
            entry.first = end;
            if let Some((_, mark)) = made.next_if(|(line, _)| *line == number) {
                end = mark;
            }
            entry.end = end;
            let has_messages = entry.has_messages();
            match &mut entry.kind {
                kind @ EntryKind::Shown if !has_messages => {
                    // Without a text, a summary of a branch is never shown.
                    let summary = line(number).and_then(Object::read);
                    let is_empty = summary.is_some_and(|line| {
                        line.text("type").as_deref() == Some("branch_summary")
                            && line.text("summary").is_none_or(|text| text.is_empty())
                    });
                    if is_empty {
                        *kind = EntryKind::Silent;
                    }
                }
                EntryKind::Compaction(earlier) => {
                    **earlier = line(number).map(Earlier::read).unwrap_or_default();
                }
                EntryKind::Edit { removes, .. } => {
                    let edit = line(number).and_then(Object::read);
                    let replacement = edit.as_ref().and_then(|edit| edit.get("replacement"));
                    *removes = replacement.is_some_and(|value| value.get() == "null");
                }
                _ => {}
            }
            entries.push(entry);
        }
        let messages = std::mem::take(&mut context.messages);
        PathEntries { context, entries, messages }
    }
}

impl PathEntries {
    /// Returns the entry that the context was selected for.
    pub fn leaf(&self) -> Option<&str> {
        self.context.leaf.as_deref()
    }

    /// Returns the model in use at the leaf.
    pub fn model(&self) -> Option<&super::Model> {
        self.context.model.as_ref()
    }

    /// Returns the number of messages in the context.
    pub fn message_count(&self) -> usize {
        self.messages.len()
    }
}

impl Earlier {
    fn read(line: &str) -> Earlier {
        let Some(line) = Object::read(super::row::clean(line)) else { return Earlier::default() };
        let summary = line.get("summary").and_then(lossy_text).unwrap_or_default();
        // The lists of an extension may mean something else.
        let is_from_hook = line.get("fromHook").is_some_and(|value| value.get() == "true");
        let details = line.get("details").filter(|_| !is_from_hook);
        let details = details.and_then(|details| Object::read(details.get())).unwrap_or_default();
        let files = |name| details.get(name).map(texts).unwrap_or_default();
        Earlier { summary, read_files: files("readFiles"), modified_files: files("modifiedFiles") }
    }
}

/// Returns the texts in a JSON list.
fn texts(value: &RawValue) -> Vec<String> {
    list(value).unwrap_or_default().into_iter().filter_map(lossy_text).collect()
}
