//! Selects what a model should see for a leaf of a session: its **context**.
//!
//! A session is read twice. First every line goes through [`Session::push`], which keeps only the
//! tree (ids, parents, types). Then a [`Plan`] lists the few lines that the context needs, in
//! order, and makes messages of them. So neither memory nor time grows with lines outside the
//! context, and nothing here recurses.
//!
//! Messages are returned in pi's shapes, exactly as written wherever the record already has them. A
//! [`Reader`] follows the rules of one agent; its format supplies it. Deliberate differences
//! between the agents' own readers and ours are listed in docs/store.md. [`pairing`] is a separate
//! step after that.

pub(crate) mod apart;
mod claude;
pub(crate) mod entries;
mod layout;
mod look;
pub(crate) mod messages;
mod openclaw;
pub mod pairing;
mod pi;
pub(crate) mod plan;
pub(crate) mod reader;
pub(crate) mod row;
mod shapes;
pub(crate) mod tree;
pub(crate) mod window;
pub(crate) mod written;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::json::object::{Object, list, text};
pub use entries::{PathEntries, PathPlan};
pub use layout::{LaidEntry, LaidFile, Layout};
pub use plan::Plan;
pub use reader::Reader;
pub use row::Model;
use row::{Kind, Models, Row};
use tree::Tree;
pub use written::{
    ADDED_FIELD, CONTINUES_FIELD, Head, LEAF_ONLY, OWN_ID, OWN_LINE, REPEATED_SETTING, Writer,
    line_time, own_header,
};

/// The leaf to start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At<'a> {
    /// The leaf that the format's own rule finds.
    Leaf,
    /// The place before the first entry; its context is empty.
    Root,
    /// The entry with this id. An entry without an id is named `#` and its line's number.
    Entry(&'a str),
}

/// The messages that a model should see, with its settings.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    /// The entry that the context was selected for.
    pub leaf: Option<String>,
    /// The model in use at the leaf.
    pub model: Option<Model>,
    /// The thinking level at the leaf.
    pub thinking_level: String,
    /// The messages, oldest first.
    pub messages: Vec<Message>,
}

impl Default for Context {
    /// Returns the context of a session without entries.
    fn default() -> Context {
        Context { leaf: None, model: None, thinking_level: "off".to_owned(), messages: Vec::new() }
    }
}

/// One message in pi's shape, as JSON.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Message {
    json: Box<RawValue>,
    #[serde(skip)]
    seen: Seen,
}

impl Message {
    fn new(json: Box<RawValue>) -> Message {
        Message { json, seen: Seen::Unread }
    }

    /// Returns the message's JSON text.
    pub fn json(&self) -> &str {
        self.json.get()
    }

    /// Returns the message's role, for example `user`, `assistant` or `toolResult`.
    pub fn role(&self) -> String {
        let message = Object::read(self.json());
        message.and_then(|message| Some(message.text("role")?.into_owned())).unwrap_or_default()
    }

    /// Returns the message's text: its blocks of text, one after the other.
    pub fn text(&self) -> String {
        let Some(message) = Object::read(self.json()) else { return String::new() };
        let Some(content) = message.get("content") else { return String::new() };
        if let Some(text) = text(content) {
            return text.into_owned();
        }
        let blocks = list(content).unwrap_or_default().into_iter();
        blocks
            .filter_map(|block| Some(Object::read(block.get())?.text("text")?.into_owned()))
            .collect()
    }
}

/// The facts about a message that pairing needs, so that it is not decoded again.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    /// Not decoded yet.
    Unread,
    /// Neither calls nor a result.
    Nothing,
    /// Ids of calls, with the names of their tools.
    Calls { calls: Vec<(String, String)>, is_broken: bool },
    /// A real result of the call with this id.
    Result {
        id: String,
        /// True if the result names its tool.
        is_named: bool,
    },
}

/// The lines of a session, reduced to what its tree needs.
#[derive(Debug)]
pub struct Session {
    reader: Reader,
    rows: Vec<Row>,
    models: Models,
    lines: usize,
    /// The lines that hold no JSON.
    invalid: Vec<usize>,
}

impl Session {
    /// Returns a session without lines.
    pub fn new(reader: Reader) -> Session {
        let (rows, models) = (Vec::new(), Models::default());
        Session { reader, rows, models, lines: 0, invalid: Vec::new() }
    }

    /// Adds the next line. A line that is not JSON is counted and otherwise ignored, as in the
    /// agents' readers.
    pub fn push(&mut self, line: &str) {
        let row = self.reader.rules().row(line, self.lines, &mut self.models);
        if row.is_none() && !row::clean(line).is_empty() {
            self.invalid.push(self.lines);
        }
        self.rows.extend(row);
        self.lines += 1;
    }

    /// Adds many lines at once.
    pub fn extend(&mut self, lines: &[&str]) {
        let numbered: Vec<(usize, &str)> = (self.lines..).zip(lines.iter().copied()).collect();
        let reader = self.reader;
        let parts = apart::map(
            &numbered,
            |(_, line)| line.len(),
            |lines| {
                let mut part = Session::new(reader);
                for (number, line) in lines {
                    part.lines = *number;
                    part.push(line);
                }
                part
            },
        );
        for part in parts {
            let models = self.models.join(&part.models);
            self.rows.extend(part.rows.into_iter().map(|row| row.with_models(&models)));
            self.invalid.extend(part.invalid);
        }
        self.lines += lines.len();
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// Returns whether an entry with this id or `#` name is present.
    pub fn has(&self, id: &str) -> bool {
        let numbered = row::line_of(id);
        self.rows.iter().any(|row| row.id.as_deref() == Some(id) || numbered == Some(row.line))
    }

    /// Returns the plan for the context, or `None` if there is no such entry.
    pub fn plan(&self, at: At<'_>) -> Option<Plan> {
        let tree = self.tree();
        let leaf = match at {
            At::Leaf => tree.leaf,
            At::Root => None,
            At::Entry(id) => Some(tree.find(&self.rows, id)?),
        };
        let path = tree.path(leaf);
        Some(self.reader.rules().plan(&self.rows, &self.models, &tree, leaf, &path))
    }

    /// Returns the plan for the leaf of a session of which only the last lines were added, if no
    /// earlier line can change it: a compaction or a reset is on the path, and these lines hold the
    /// entries that it keeps and the model. The flag is false if none of these lines sets the
    /// thinking level, so that an earlier line may set it. `None` for a reader without
    /// [`Reader::plain_types`].
    pub fn plan_of_the_end(&self) -> Option<(Plan, bool)> {
        if self.reader.plain_types().is_empty() {
            return None;
        }
        let tree = self.tree();
        let path = tree.path(tree.leaf);
        let kind = |row: &usize| self.rows.get(*row).map(|row| &row.kind);
        let boundary = window::window(&self.rows, &tree, &path).boundary?;
        let (Kind::Compaction(kept) | Kind::Reset(kept)) = kind(&boundary)? else { return None };
        let is_here = match &kept.first {
            Some(id) => tree.find(&self.rows, id).is_some(),
            None => kept.compacted.is_none(),
        };
        let sets_model = |kind: &Kind| {
            matches!(kind, Kind::ModelChange(_) | Kind::Message { model: Some(_), .. })
        };
        if !is_here || kept.first_index.is_some() || !path.iter().filter_map(kind).any(sets_model) {
            return None;
        }
        let mut kinds = path.iter().filter_map(kind);
        let sets_thinking = kinds.any(|kind| matches!(kind, Kind::Thinking(_)));
        let plan = plan::of_path(&self.rows, &self.models, &tree, tree.leaf, &path);
        Some((plan, sets_thinking))
    }

    /// Returns the plan for all entries that the context of an entry comes from, also those without
    /// a message. `None` if there is no such entry, or for a reader whose lines are not entries.
    pub fn path_plan(&self, at: At<'_>) -> Option<PathPlan> {
        let tree = self.tree();
        let leaf = match at {
            At::Leaf => tree.leaf,
            At::Root => None,
            At::Entry(id) => Some(tree.find(&self.rows, id)?),
        };
        entries::plan(&self.rows, &self.models, &tree, leaf)
    }

    /// Returns the lines that are neither JSON nor empty, counted from 0.
    pub(crate) fn invalid_lines(&self) -> &[usize] {
        &self.invalid
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) fn tree(&self) -> Tree {
        self.reader.rules().tree(&self.rows)
    }
}

/// Returns the context of a session that is in memory.
pub fn of_lines(reader: Reader, lines: &[&str], at: At<'_>) -> Option<Context> {
    let mut session = Session::new(reader);
    session.extend(lines);
    let plan = session.plan(at)?;
    Some(plan.fill(&|number| lines.get(number).copied()))
}
