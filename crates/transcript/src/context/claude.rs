//! Selects the context of a Claude Code session.
//!
//! The path is the chain of parents from the last message. A compaction begins a new root, so
//! earlier entries are not on the path; its summary is the user line after it, followed by the
//! entries that it preserved. Claude Code writes one line for each block of a response: these lines
//! are joined, wherever they are. The results of parallel calls, each attached to its own call, are
//! added. Text that Claude Code itself wrote in the model's name is left out. Blocks are returned
//! in pi's shapes.

mod answer;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use super::plan::{self, Plan, Step};
use super::reader::Rules;
use super::row::{self, Kind, ModelId, Models, Parent, Row};
use super::tree::Tree;
use crate::entry::{self, Block, Entry};
use crate::format::{Format, Origin, Part};
use crate::formats::claude_code::ClaudeCode;
use answer::{Assembler, ClaudeStep};

/// The rules of Claude Code.
pub(super) struct ClaudeRules;

impl Rules for ClaudeRules {
    fn name(&self) -> &'static str {
        "ClaudeCode"
    }

    fn row(&self, line: &str, number: usize, models: &mut Models) -> Option<Row> {
        row(line, number, models)
    }

    fn tree(&self, rows: &[Row]) -> Tree {
        tree(rows)
    }

    fn plan(
        &self,
        rows: &[Row],
        models: &Models,
        _: &Tree,
        leaf: Option<usize>,
        path: &[usize],
    ) -> Plan {
        plan(rows, models, leaf, path)
    }
}

/// The fields of a line that the plan needs.
#[derive(Debug)]
struct Piece {
    kind: LineKind,
    /// The response that the line is a block of.
    response: Option<Box<str>>,
    calls: Vec<Box<str>>,
    results: Vec<Box<str>>,
    /// For a boundary: the first preserved line, and the last line before the boundary.
    preserved: Option<(Box<str>, Box<str>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
    User,
    Queued,
    Summary,
    Assistant,
    Boundary,
    /// Part of the chain, but not shown to a model.
    Hidden,
}

fn origin() -> Origin {
    Origin::of(Part::Transcript, "")
}

fn row(line: &str, number: usize, models: &mut Models) -> Option<Row> {
    let entry = ClaudeCode.decode(&origin(), row::clean(line).as_bytes()).ok()?;
    let boxed = |text: &Cow<'_, str>| Box::<str>::from(&**text);
    let mut piece = Piece {
        kind: kind_of(&entry),
        response: entry.response.as_ref().map(|response| boxed(&response.id)),
        calls: Vec::new(),
        results: Vec::new(),
        preserved: None,
    };
    let is_answer = piece.kind == LineKind::Assistant;
    let model = is_answer.then(|| models.add(Some("anthropic"), entry.model.as_deref()));
    for block in &entry.blocks {
        match block {
            Block::ToolCall(call) => piece.calls.extend(call.id.as_ref().map(boxed)),
            Block::ToolResult(result) => piece.results.extend(result.call_id.as_ref().map(boxed)),
            _ => {}
        }
    }
    let parent = match &entry.parent {
        entry::Parent::Id(id) => Parent::Id(boxed(id)),
        entry::Parent::After(id) => {
            if let entry::Kind::Compaction(compaction) = &entry.kind {
                piece.preserved =
                    compaction.first_kept.as_ref().map(|first| (boxed(first), boxed(id)));
            }
            Parent::Root
        }
        entry::Parent::Root => Parent::Root,
        entry::Parent::Implicit => Parent::Implicit,
    };
    Some(Row {
        line: number,
        id: entry.id.as_ref().map(boxed),
        parent,
        kind: Kind::Own { model, row: Box::new(piece) },
        is_side: entry.marks.is_sidechain,
    })
}

fn kind_of(entry: &Entry<'_>) -> LineKind {
    match (&*entry.type_name, &entry.kind) {
        (_, entry::Kind::Compaction(_)) => LineKind::Boundary,
        ("user", _) if entry.marks.is_compact_summary => LineKind::Summary,
        ("user", _) => LineKind::User,
        // An error, or text that Claude Code inserted.
        ("assistant", _)
            if entry.model.is_none() && (entry.marks.is_error || entry.marks.is_meta) =>
        {
            LineKind::Hidden
        }
        ("assistant", _) => LineKind::Assistant,
        ("attachment", entry::Kind::Message) => LineKind::Queued,
        _ => LineKind::Hidden,
    }
}

fn piece(row: &Row) -> Option<&Piece> {
    match &row.kind {
        Kind::Own { row, .. } => row.downcast_ref(),
        _ => None,
    }
}

fn model(row: &Row) -> Option<ModelId> {
    match row.kind {
        Kind::Own { model, .. } => model,
        _ => None,
    }
}

fn tree(rows: &[Row]) -> Tree {
    let kind_of = |row: &Row| piece(row).map_or(LineKind::Hidden, |piece| piece.kind);
    let is_entry: Vec<bool> = rows.iter().map(|row| kind_of(row) != LineKind::Hidden).collect();
    let by_id = by_id(rows);
    let mut parents = Vec::with_capacity(rows.len());
    let mut before = None;
    for (index, row) in rows.iter().enumerate() {
        parents.push(match &row.parent {
            Parent::Id(id) => by_id.get(&**id).copied(),
            // Only a message of the conversation follows the line before it.
            Parent::Implicit if kind_of(row) != LineKind::Hidden => before,
            Parent::Implicit | Parent::Root => None,
        });
        if kind_of(row) != LineKind::Hidden && !row.is_side {
            before = Some(index);
        }
    }
    // In a sub-agent's own file every line is a sidechain.
    let is_message = |row: &&Row| {
        matches!(kind_of(row), LineKind::User | LineKind::Assistant | LineKind::Queued)
    };
    let is_all_side = rows.iter().filter(is_message).all(|row| row.is_side);
    let leaf = rows.iter().rposition(|row| is_message(&row) && (is_all_side || !row.is_side));
    Tree { parents, is_entry, leaf }
}

fn by_id(rows: &[Row]) -> HashMap<&str, usize> {
    let named = rows.iter().enumerate();
    named.filter_map(|(index, row)| Some((row.id.as_deref()?, index))).collect()
}

fn plan(rows: &[Row], models: &Models, leaf: Option<usize>, path: &[usize]) -> Plan {
    let mut model = None;
    let done = vec![false; rows.len()];
    let mut steps = Steps { rows, out: VecDeque::new(), what: VecDeque::new(), done };
    let mut groups: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut results: HashMap<&str, usize> = HashMap::new();
    let mut on_path = vec![false; rows.len()];
    for row in path {
        if let Some(is_on_path) = on_path.get_mut(*row) {
            *is_on_path = true;
        }
    }
    let mut ids = HashSet::new();
    for (index, row) in rows.iter().enumerate() {
        // A line that is written again has the same id.
        let is_new =
            on_path.get(index) == Some(&true) || row.id.as_deref().is_none_or(|id| ids.insert(id));
        if let Some(piece) = piece(row).filter(|_| is_new) {
            if let Some(response) = &piece.response {
                groups.entry(response).or_default().push(index);
            }
            for call in &piece.results {
                results.entry(call).or_insert(index);
            }
        }
    }
    let kept = path.first().map(|first| preserved(rows, *first)).unwrap_or_default();
    // A boundary and its summary come first, then the preserved lines, then the rest.
    let is_head = |row: &&usize| {
        let piece = rows.get(**row).and_then(piece);
        piece.is_some_and(|piece| matches!(piece.kind, LineKind::Boundary | LineKind::Summary))
    };
    let head = path.iter().take_while(is_head);
    let rest = path.iter().skip_while(is_head);
    for index in head.chain(&kept).chain(rest).copied() {
        let Some(piece) = rows.get(index).and_then(piece) else { continue };
        let what = match piece.kind {
            LineKind::User => ClaudeStep::User,
            LineKind::Queued => ClaudeStep::Queued,
            LineKind::Boundary => ClaudeStep::Boundary,
            LineKind::Summary => ClaudeStep::Summary,
            LineKind::Hidden => continue,
            LineKind::Assistant => ClaudeStep::Assistant { begins: true },
        };
        if piece.kind != LineKind::Assistant {
            steps.add(index, what);
            continue;
        }
        model = rows.get(index).and_then(self::model);
        if steps.is_done(index) {
            continue;
        }
        let alone = [index];
        let group = piece.response.as_ref().and_then(|id| groups.get(&**id));
        let group = group.map_or(&alone[..], Vec::as_slice);
        let mut begins = true;
        for row in group {
            begins &= !steps.add(*row, ClaudeStep::Assistant { begins });
        }
        let pieces = group.iter().filter_map(|row| rows.get(*row).and_then(self::piece));
        for call in pieces.flat_map(|piece| &piece.calls) {
            if let Some(result) = results.get(&**call)
                && on_path.get(*result) == Some(&false)
            {
                steps.add(*result, ClaudeStep::User);
            }
        }
    }
    let leaf = leaf.and_then(|row| rows.get(row)).map(Row::name);
    let model = model.and_then(|model| models.get(model)).cloned();
    Plan::new(leaf, model, "off".into(), steps.out)
        .with_assembler(Box::new(Assembler::new(steps.what)))
}

struct Steps<'a> {
    rows: &'a [Row],
    out: VecDeque<Step>,
    /// The purpose of each step.
    what: VecDeque<ClaudeStep>,
    done: Vec<bool>,
}

impl Steps<'_> {
    fn is_done(&self, index: usize) -> bool {
        self.done.get(index).copied().unwrap_or_default()
    }

    /// Adds a row once. Returns true if it was added.
    fn add(&mut self, index: usize, what: ClaudeStep) -> bool {
        let (Some(row), Some(done)) = (self.rows.get(index), self.done.get_mut(index)) else {
            return false;
        };
        if std::mem::replace(done, true) {
            return false;
        }
        self.out.push_back(Step { line: row.line, what: plan::StepKind::Own, id: None });
        self.what.push_back(what);
        true
    }
}

/// Returns the preserved lines before a boundary, oldest first.
fn preserved(rows: &[Row], boundary: usize) -> Vec<usize> {
    let ends = rows.get(boundary).and_then(piece).and_then(|piece| piece.preserved.as_ref());
    let Some((first, last)) = ends else { return Vec::new() };
    let by_id = by_id(rows);
    let mut seen = vec![false; rows.len()];
    let mut kept = Vec::new();
    let mut at = by_id.get(&**last).copied();
    while let Some(index) = at {
        let Some(row) = rows.get(index) else { break };
        if seen.get_mut(index).is_none_or(|seen| std::mem::replace(seen, true)) {
            break;
        }
        kept.push(index);
        if row.id.as_deref() == Some(&**first) {
            kept.reverse();
            return kept;
        }
        at = match &row.parent {
            Parent::Id(id) => by_id.get(&**id).copied(),
            _ => None,
        };
    }
    Vec::new()
}
