//! What a model should see for a leaf of a session: **context**.
//!
//! A session is read twice. First every line goes through [`Session::push`], which keeps only what
//! the tree is made of (ids, parents, types); then a [`Plan`] says which few lines the answer needs,
//! in order, and makes messages of them. So the size of a session bounds neither memory nor the time
//! that its messages take, and nothing here recurses.
//!
//! Messages come out in pi's shapes, exactly as written wherever the record already has them.
//! [`Rules`] says whose reading is followed; what the agents' readers and we do differently on
//! purpose stands in docs/store.md. The answer is the reader's own. [`pairing`] is a step of its own
//! behind it.

mod apart;
mod claude;
mod layout;
mod look;
mod messages;
mod openclaw;
pub mod pairing;
mod pi;
mod plan;
mod row;
mod shapes;
mod tree;
mod window;
mod written;

use serde::Serialize;
use serde_json::value::RawValue;

pub use layout::{Laid, LaidFile, Layout};
pub use plan::Plan;
pub use row::Model;
use row::{Kind, Models, Row};
use tree::Tree;
pub use written::{
    AGAIN, FOOTHOLD, GOES_ON, Head, MADE, OWN_ID, OWN_LINE, Writer, line_time, own_header,
};

/// Whose reader is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// pi 0.87: the last line is the leaf, a line without a parent is a root of its own, and lines of
    /// unknown types stand on the path.
    Pi,
    /// OpenClaw 2026.7.1, with the `reset` of later releases: `leaf` lines move the leaf, side lines
    /// never are it, a line that says nothing of its parent follows the leaf, and lines of unknown
    /// types are seen through.
    OpenClaw,
    /// Claude Code: the chain of parents from the last message, pieces of one response joined.
    ClaudeCode,
}

/// Which leaf to look from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At<'a> {
    /// The one that the format's own rule finds.
    Leaf,
    /// Before the first entry: nothing is there.
    Root,
    /// The entry with that id; an entry without one is called `#` and its line's number.
    Entry(&'a str),
}

/// What a model should see.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    /// The entry that it was looked from.
    pub leaf: Option<String>,
    /// The model in use there.
    pub model: Option<Model>,
    /// The thinking level there.
    pub thinking_level: String,
    /// The messages, oldest first.
    pub messages: Vec<Message>,
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

    /// The message's JSON text.
    pub fn json(&self) -> &str {
        self.json.get()
    }
}

/// What is known of a message without reading it again.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Unread,
    /// Neither calls nor a result.
    Nothing,
    /// Ids of calls, and the names of their tools.
    Calls {
        calls: Vec<(String, String)>,
        is_broken: bool,
    },
    /// A real result of the call of that id.
    Result {
        id: String,
        /// It says its tool's name.
        is_named: bool,
    },
}

/// The lines of a session, as far as its tree needs them.
#[derive(Debug)]
pub struct Session {
    rules: Rules,
    rows: Vec<Row>,
    models: Models,
    lines: usize,
}

impl Session {
    /// A session without lines.
    pub fn new(rules: Rules) -> Session {
        Session { rules, rows: Vec::new(), models: Models::default(), lines: 0 }
    }

    /// Takes the next line, whatever it holds. Lines that are not JSON count, and say nothing: the
    /// readers skip them too.
    pub fn push(&mut self, line: &str) {
        let row = match self.rules {
            Rules::ClaudeCode => claude::row(line, self.lines, &mut self.models),
            Rules::Pi | Rules::OpenClaw => row::read(line, self.lines, &mut self.models),
        };
        self.rows.extend(row);
        self.lines += 1;
    }

    /// Takes the next lines, all at once.
    pub fn extend(&mut self, lines: &[&str]) {
        let numbered: Vec<(usize, &str)> = (self.lines..).zip(lines.iter().copied()).collect();
        let rules = self.rules;
        let parts = apart::map(
            &numbered,
            |(_, line)| line.len(),
            |lines| {
                let mut part = Session::new(rules);
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
        }
        self.lines += lines.len();
    }

    /// How many lines there are.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// Whether an entry of that name is there.
    pub fn has(&self, id: &str) -> bool {
        let numbered = row::line_of(id);
        self.rows.iter().any(|row| row.id.as_deref() == Some(id) || numbered == Some(row.line))
    }

    /// What to read for the context. `None` if there is no such entry.
    pub fn plan(&self, at: At<'_>) -> Option<Plan> {
        let tree = self.tree();
        let leaf = match at {
            At::Leaf => tree.leaf,
            At::Root => None,
            At::Entry(id) => Some(tree.find(&self.rows, id)?),
        };
        let path = tree.path(leaf);
        Some(match self.rules {
            Rules::ClaudeCode => claude::plan(&self.rows, &self.models, leaf, &path),
            Rules::Pi | Rules::OpenClaw => {
                plan::of_path(&self.rows, &self.models, &tree, leaf, &path)
            }
        })
    }

    /// The plan for the leaf, if it is the same whatever stands before these lines: a compaction or
    /// a reset is on the path, what it keeps is here, and so is the model. False with it if the
    /// thinking level is not: then it is the one before.
    pub fn plan_of_the_end(&self) -> Option<(Plan, bool)> {
        if self.rules == Rules::ClaudeCode {
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
        let says_model = |kind: &Kind| {
            matches!(kind, Kind::ModelChange(_) | Kind::Message { model: Some(_), .. })
        };
        if !is_here || kept.first_index.is_some() || !path.iter().filter_map(kind).any(says_model) {
            return None;
        }
        let mut kinds = path.iter().filter_map(kind);
        let says_thinking = kinds.any(|kind| matches!(kind, Kind::Thinking(_)));
        let plan = plan::of_path(&self.rows, &self.models, &tree, tree.leaf, &path);
        Some((plan, says_thinking))
    }

    fn tree(&self) -> Tree {
        match self.rules {
            Rules::Pi => pi::tree(&self.rows),
            Rules::OpenClaw => openclaw::tree(&self.rows),
            Rules::ClaudeCode => claude::tree(&self.rows),
        }
    }
}

/// The context of a session that is in memory.
pub fn context(rules: Rules, lines: &[&str], at: At<'_>) -> Option<Context> {
    let mut session = Session::new(rules);
    session.extend(lines);
    let plan = session.plan(at)?;
    Some(plan.fill(&|number| lines.get(number).copied()))
}
