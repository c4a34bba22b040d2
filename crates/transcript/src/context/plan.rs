//! Lists the lines that make up a context, and the purpose of each.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

use serde_json::value::RawValue;

use super::messages::Maker;
use super::row::{self, Kind, Model, Models, Role, Row};
use super::tree::Tree;
use super::window;
use super::{Context, Message, apart, look, shapes};
use crate::json::object::Object;

/// The lines that a context is made from. Call [`Plan::next_line`] and pass its text to
/// [`Plan::put`] until it returns `None`; then call [`Plan::finish`].
#[derive(Debug)]
pub struct Plan {
    steps: VecDeque<Step>,
    context: Context,
    maker: Maker,
    edits: HashMap<String, Box<RawValue>>,
    /// Calls among the entries that a reset keeps.
    kept_calls: HashSet<String>,
    /// Makes messages from the lines of [`StepKind::Own`].
    assembler: Option<Box<dyn Assemble>>,
}

/// A maker of messages for a reader with its own rows.
pub(crate) trait Assemble: fmt::Debug + Send + Sync {
    /// Adds the next line of the plan. A message may wait for the lines after it.
    fn put(&mut self, line: &str, maker: &mut Maker, out: &mut Vec<Message>);

    /// Adds the message that still waits, if there is one.
    fn end(&mut self, maker: &mut Maker, out: &mut Vec<Message>);
}

/// One line and its purpose.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) what: StepKind,
    /// The entry's id, if an edit may refer to it.
    pub(crate) id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// An edit of another entry.
    Edit,
    Message {
        is_bare: bool,
    },
    /// A message that a reset keeps.
    Kept {
        is_bare: bool,
        is_result: bool,
    },
    Custom,
    BranchSummary,
    Compaction,
    /// A line that the reader's own [`Assemble`] makes messages from.
    Own,
}

impl Step {
    /// Returns the message, if it is written in pi's shape and needs no other change.
    fn quick(&self, line: &str) -> Option<Message> {
        match self.what {
            StepKind::Message { is_bare: false } => look::message(row::clean(line)),
            _ => None,
        }
    }
}

impl Plan {
    pub(crate) fn new(
        leaf: Option<String>,
        model: Option<Model>,
        thinking_level: String,
        steps: VecDeque<Step>,
    ) -> Plan {
        Plan {
            steps,
            context: Context { leaf, model, thinking_level, messages: Vec::new() },
            maker: Maker::default(),
            edits: HashMap::new(),
            kept_calls: HashSet::new(),
            assembler: None,
        }
    }

    /// Returns the plan with a maker for lines of [`StepKind::Own`].
    pub(crate) fn with_assembler(mut self, assembler: Box<dyn Assemble>) -> Plan {
        self.assembler = Some(assembler);
        self
    }

    /// Sets the thinking level that applies unless the lines set another.
    pub fn set_thinking_level(&mut self, level: String) {
        self.context.thinking_level = level;
    }

    /// Returns the number of lines that are still needed.
    pub fn lines_left(&self) -> usize {
        self.steps.len()
    }

    /// Returns all lines that are still needed, in order.
    pub fn lines(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().map(|step| step.line)
    }

    /// Returns the line that is needed next, counted from 0.
    pub fn next_line(&self) -> Option<usize> {
        self.steps.front().map(|step| step.line)
    }

    /// Returns the context of a session whose lines are all available.
    pub fn fill<'a>(self, line: &(dyn Fn(usize) -> Option<&'a str> + Sync)) -> Context {
        self.fill_marked(line).0
    }

    /// Returns the context, and after each line of [`Plan::lines`] the number of messages so far.
    pub(crate) fn fill_marked<'a>(
        mut self,
        line: &(dyn Fn(usize) -> Option<&'a str> + Sync),
    ) -> (Context, Vec<usize>) {
        let line = |step: &Step| line(step.line).unwrap_or_default();
        let steps: Vec<Step> = std::mem::take(&mut self.steps).into();
        let looked_at = apart::map(
            &steps,
            |step| line(step).len(),
            |steps| -> Vec<Option<Message>> {
                steps.iter().map(|step| step.quick(line(step))).collect()
            },
        );
        let mut marks = Vec::with_capacity(steps.len());
        for (step, quick) in steps.into_iter().zip(looked_at.into_iter().flatten()) {
            let line = line(&step);
            self.take(step, line, quick);
            marks.push(self.context.messages.len());
        }
        (self.finish(), marks)
    }

    /// Adds the text of the line that was needed next.
    pub fn put(&mut self, line: &str) {
        let Some(step) = self.steps.pop_front() else { return };
        let quick = step.quick(line);
        self.take(step, line, quick);
    }

    fn take(&mut self, step: Step, line: &str, quick: Option<Message>) {
        let line = row::clean(line);
        let edit = step.id.as_ref().and_then(|id| self.edits.get(id)).map(|edit| &**edit);
        let out = &mut self.context.messages;
        if let Some(quick) = quick.filter(|_| edit.is_none()) {
            return self.maker.quick(quick, out);
        }
        match step.what {
            StepKind::Edit => {
                let edit = Object::read(line);
                let replacement = edit.as_ref().and_then(|edit| edit.get("replacement"));
                self.edits.extend(step.id.zip(replacement.map(ToOwned::to_owned)));
            }
            StepKind::Message { is_bare } => self.maker.message(line, is_bare, edit, out),
            StepKind::Kept { is_bare, is_result } => {
                let first = out.len();
                self.maker.message(line, is_bare, edit, out);
                self.keep(first, is_result);
            }
            StepKind::Custom => self.maker.custom(line, edit, out),
            StepKind::BranchSummary => self.maker.branch_summary(line, edit, out),
            StepKind::Compaction => self.maker.compaction(line, edit, out),
            StepKind::Own => {
                if let Some(assembler) = &mut self.assembler {
                    assembler.put(line, &mut self.maker, out);
                }
            }
        }
    }

    /// Notes the calls of a message that a reset keeps. A result is removed again unless its call
    /// is kept. `first` is the index of the first message that the line added.
    fn keep(&mut self, first: usize, is_result: bool) {
        let out = &mut self.context.messages;
        if is_result {
            let is_kept = out
                .get(first)
                .and_then(|message| Object::read(message.json()))
                .is_some_and(|message| {
                    let id = shapes::id_of_result(&message);
                    id.is_some_and(|id| self.kept_calls.contains(&id))
                });
            if !is_kept {
                out.truncate(first);
            }
            return;
        }
        for message in out.iter().skip(first) {
            let message = Object::read(message.json());
            let content = message.as_ref().and_then(|message| message.get("content"));
            let calls = content.map(shapes::calls).unwrap_or_default();
            self.kept_calls.extend(calls.into_iter().map(|(id, _)| id));
        }
    }

    /// Returns the context.
    pub fn finish(mut self) -> Context {
        if let Some(assembler) = &mut self.assembler {
            assembler.end(&mut self.maker, &mut self.context.messages);
        }
        self.context
    }
}

/// Returns the plan for a path of a pi or OpenClaw session.
pub(crate) fn of_path(
    rows: &[Row],
    models: &Models,
    tree: &Tree,
    leaf: Option<usize>,
    path: &[usize],
) -> Plan {
    let mut model = None;
    let mut thinking = "off";
    for row in path.iter().filter_map(|row| rows.get(*row)) {
        match &row.kind {
            Kind::Thinking(level) => thinking = level,
            Kind::ModelChange(id) | Kind::Message { model: Some(id), .. } => model = Some(*id),
            _ => {}
        }
    }
    let window = window::window(rows, tree, path);
    let boundary = window.boundary.and_then(|row| rows.get(row));
    let is_reset = boundary.is_some_and(|row| matches!(row.kind, Kind::Reset(_)));
    let mut edits = VecDeque::new();
    let mut steps = VecDeque::new();
    let kept = window.kept.iter().map(|row| (row, true));
    let after = window.after.iter().map(|row| (row, false));
    let chosen = kept.chain(after).filter_map(|(row, is_kept)| Some((rows.get(*row)?, is_kept)));
    for (row, is_kept) in boundary.map(|row| (row, false)).into_iter().chain(chosen) {
        let step = |what| Step { line: row.line, what, id: row.id.as_deref().map(str::to_owned) };
        match &row.kind {
            Kind::Edit(target) => edits.push_back(Step {
                line: row.line,
                what: StepKind::Edit,
                id: Some(target.to_string()),
            }),
            Kind::Message { role, is_bare, .. } if is_kept && is_reset => match role {
                Role::User | Role::Assistant | Role::Result => {
                    let is_result = *role == Role::Result;
                    steps.push_back(step(StepKind::Kept { is_bare: *is_bare, is_result }));
                }
                _ => {}
            },
            Kind::Message { role: Role::Missing, .. } => {}
            Kind::Message { is_bare, .. } => {
                steps.push_back(step(StepKind::Message { is_bare: *is_bare }));
            }
            Kind::Custom if !(is_kept && is_reset) => steps.push_back(step(StepKind::Custom)),
            Kind::BranchSummary if !(is_kept && is_reset) => {
                steps.push_back(step(StepKind::BranchSummary));
            }
            // The last compaction replaces earlier ones, even those among the kept entries.
            Kind::Compaction(_)
                if window
                    .boundary
                    .and_then(|at| rows.get(at))
                    .is_some_and(|at| at.line == row.line) =>
            {
                steps.push_back(step(StepKind::Compaction));
            }
            _ => {}
        }
    }
    // Edits are read first, because they come after the entries that they change.
    edits.append(&mut steps);
    let leaf = leaf.and_then(|row| rows.get(row)).map(Row::name);
    let model = model.and_then(|model| models.get(model)).cloned();
    let mut plan = Plan::new(leaf, model, thinking.to_owned(), edits);
    plan.maker.has_hooks = row::version(rows).has_hooks();
    plan
}

/// Builds a message outside of a plan.
pub(crate) fn message(object: &Object<'_>) -> Option<Message> {
    object.json().map(Message::new)
}
