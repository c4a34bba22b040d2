//! The readers that formats supply: each selects contexts by the rules of one agent.

use std::fmt;

use super::plan::{self, Plan};
use super::row::{self, Models, Row};
use super::tree::Tree;
use super::{claude, openclaw, pi};

/// The rules by which one agent selects a model's context.
///
/// A session goes through them in three steps: lines become rows, rows become a tree with a leaf,
/// and the path to a leaf becomes the list of lines that make messages. A format whose lines follow
/// each other, for example, returns a tree in which every row follows the one before it.
pub(crate) trait Rules: Sync {
    /// Returns the name for debugging.
    fn name(&self) -> &'static str;

    /// Returns a line reduced to what the tree needs; `None` if it holds no JSON.
    fn row(&self, line: &str, number: usize, models: &mut Models) -> Option<Row>;

    /// Returns the entry that each row follows, and the leaf.
    fn tree(&self, rows: &[Row]) -> Tree;

    /// Returns the lines that make up the context for the end of `path`.
    fn plan(
        &self,
        rows: &[Row],
        models: &Models,
        tree: &Tree,
        leaf: Option<usize>,
        path: &[usize],
    ) -> Plan;

    /// Answers [`Reader::plain_types`].
    fn plain_types(&self) -> &'static [&'static str] {
        &[]
    }

    /// Answers [`Reader::has_native_lines`].
    fn has_native_lines(&self) -> bool {
        false
    }
}

/// The context reader of a format.
#[derive(Clone, Copy)]
pub struct Reader(&'static dyn Rules);

impl Reader {
    /// pi 0.87: the last line is the leaf, a line without a parent is another root, and lines
    /// of unknown types are on the path.
    pub const PI: Reader =
        Reader::new(&EntryRules { name: "Pi", tree: pi::tree, has_native_lines: false });

    /// OpenClaw 2026.7.1, with the `reset` of later releases: `leaf` lines move the leaf, side
    /// lines never become it, a line without a parent field follows the leaf, and lines of unknown
    /// types are skipped.
    pub const OPENCLAW: Reader =
        Reader::new(&EntryRules { name: "OpenClaw", tree: openclaw::tree, has_native_lines: true });

    /// Claude Code: the chain of parents from the last message, with the pieces of one response
    /// joined.
    pub const CLAUDE_CODE: Reader = Reader::new(&claude::ClaudeRules);

    /// Returns the reader that follows these rules.
    pub(crate) const fn new(rules: &'static dyn Rules) -> Reader {
        Reader(rules)
    }

    /// Returns the types of lines that neither move the leaf nor are skipped. Where the end of a
    /// session holds only these, its context can be selected from the end alone. Empty if a reader
    /// always needs all lines.
    pub fn plain_types(self) -> &'static [&'static str] {
        self.0.plain_types()
    }

    /// Returns whether its lines are those of native sessions, so that a fork copies them as
    /// they are.
    pub fn has_native_lines(self) -> bool {
        self.0.has_native_lines()
    }

    pub(super) fn rules(self) -> &'static dyn Rules {
        self.0
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.name())
    }
}

/// The types of pi's lines that each add one entry to the path.
const PLAIN_TYPES: &[&str] = &[
    "message",
    "model_change",
    "thinking_level_change",
    "compaction",
    "branch_summary",
    "custom",
    "custom_message",
    "label",
    "session_info",
    "context_edit",
    "reset",
];

/// The rules of pi and OpenClaw: their lines are entries, and only their trees differ.
struct EntryRules {
    name: &'static str,
    tree: fn(&[Row]) -> Tree,
    has_native_lines: bool,
}

impl Rules for EntryRules {
    fn name(&self) -> &'static str {
        self.name
    }

    fn row(&self, line: &str, number: usize, models: &mut Models) -> Option<Row> {
        row::read(line, number, models)
    }

    fn tree(&self, rows: &[Row]) -> Tree {
        (self.tree)(rows)
    }

    fn plan(
        &self,
        rows: &[Row],
        models: &Models,
        tree: &Tree,
        leaf: Option<usize>,
        path: &[usize],
    ) -> Plan {
        plan::of_path(rows, models, tree, leaf, path)
    }

    fn plain_types(&self) -> &'static [&'static str] {
        PLAIN_TYPES
    }

    fn has_native_lines(&self) -> bool {
        self.has_native_lines
    }
}
