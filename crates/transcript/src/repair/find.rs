//! Finds the errors in the context of a session's leaf, and in the session's lines.

use std::collections::HashMap;

use serde::Serialize;

use super::parents::{self, PathStart};
use crate::context::pairing::{self, LeftOut, Order, Place};
use crate::context::plan::Plan;
use crate::context::row::{Kept, Kind, Role, Row};
use crate::context::{At, Message, PathPlan, Reader, Session, row, window};

/// The reason why a session with a bad header is not repaired.
pub const BAD_HEADER: &str = "invalid session header";

/// An error of a session, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The kind of error.
    pub kind: ChangeKind,
    /// The number of the line, from 1.
    pub line: Option<usize>,
    /// The entry that is wrong; for a missing result, the entry with the call.
    pub entry: Option<String>,
    /// The number of the message, from 1, in the context before it is repaired.
    pub message: Option<usize>,
    /// The id of the call.
    pub call: Option<String>,
    /// The entry with the call of a result that is moved, or the parent that leads nowhere.
    pub other: Option<String>,
}

/// The kinds of errors, each with its repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeKind {
    /// The first line is no header. A new one is written on request.
    Header,
    /// A line is no JSON object, or a message without a role. It is left out.
    InvalidLine,
    /// The session does not have the parent of an entry. The entry becomes the first one.
    MissingParent,
    /// The parent of an entry comes after it. The entry becomes the first one.
    CircularParent,
    /// A result does not directly follow its call. It is moved there.
    ResultApart,
    /// A result does not name its call. It gets the call's id.
    ResultUnnamed,
    /// A call has no result. An error that is marked as synthetic takes its place.
    ResultMissing,
    /// A call has another result. This one is left out.
    ResultDouble,
    /// A result has no call. It is left out.
    ResultOrphaned,
}

/// The lines from which a [`Repair`] is made.
#[derive(Debug)]
pub struct RepairPlan {
    messages: Option<Wanted>,
    found: Vec<Change>,
    dropped_lines: u64,
    leaf: Option<String>,
    path: Vec<PathLine>,
    begins_anew: bool,
}

#[derive(Debug)]
enum Wanted {
    /// The entries of the path.
    Entries(PathPlan),
    /// The messages, for a reader whose lines are not entries.
    Messages(Plan),
}

/// The errors of a session, and the entries of the repaired path.
#[derive(Debug)]
pub struct Repair {
    /// The errors: first those of the header and the lines, then of the parents, then of the
    /// results.
    pub changes: Vec<Change>,
    /// The number of invalid lines.
    pub dropped_lines: u64,
    /// The leaf.
    pub leaf: Option<String>,
    /// False if the session's lines are not entries, so that only its messages can be copied.
    pub has_entries: bool,
    pub(super) path: Vec<PathLine>,
    pub(super) messages: Vec<Message>,
    pub(super) order: Order,
    /// The position on the path of the first entry that a branch has to copy.
    pub(super) first: usize,
}

impl Repair {
    /// Returns the repair of a session that has no lines.
    pub fn of_no_lines() -> Repair {
        Session::new(Reader::PI).repair_plan().fill(&|_| None)
    }
}

/// An entry of the path.
#[derive(Debug)]
pub(super) struct PathLine {
    pub(super) line: usize,
    pub(super) id: Option<Box<str>>,
    pub(super) kind: PathLineKind,
    /// True if another entry can name it as its parent.
    pub(super) is_parent: bool,
    /// True if the context comes from it.
    pub(super) is_shown: bool,
    /// Its messages in the context: a range of [`Repair::messages`].
    pub(super) first: usize,
    pub(super) end: usize,
}

/// The types of entries that are copied in different ways.
#[derive(Debug)]
pub(super) enum PathLineKind {
    Message {
        is_bare: bool,
    },
    /// A message without a role.
    Invalid,
    /// A custom message, or the summary of a branch.
    Shown,
    /// A compaction or a reset, with the position on the path of the first entry that it keeps.
    Boundary {
        first_kept: Option<usize>,
    },
    Edit {
        target: Box<str>,
    },
    Other,
}

impl Session {
    /// Returns the plan for finding errors in the context of the leaf.
    pub fn repair_plan(&self) -> RepairPlan {
        let (rows, tree) = (self.rows(), self.tree());
        let path = tree.path(tree.leaf);
        let start = parents::start(rows, &tree, tree.leaf);
        let mut found: Vec<Change> = header(rows).into_iter().collect();
        let mut invalid: Vec<usize> = self.invalid_lines().to_vec();
        let is_invalid = |row: &&Row| {
            matches!(row.kind, Kind::Nothing | Kind::Message { role: Role::Missing, .. })
        };
        invalid.extend(rows.iter().filter(is_invalid).map(|row| row.line));
        invalid.sort_unstable();
        let dropped_lines = invalid.len() as u64;
        found.extend(invalid.into_iter().map(|line| Change::at(ChangeKind::InvalidLine, line)));
        found.extend(parent(rows, &start));
        let entries = self.path_plan(At::Leaf).map(Wanted::Entries);
        let messages = entries.or_else(|| self.plan(At::Leaf).map(Wanted::Messages));
        let mut last_of_id: HashMap<&str, usize> = HashMap::new();
        for (index, row) in rows.iter().enumerate() {
            if let Some(id) = row.id.as_deref().filter(|_| tree.is_entry.get(index) == Some(&true))
            {
                last_of_id.insert(id, index);
            }
        }
        let place_of: HashMap<usize, usize> =
            path.iter().enumerate().map(|(place, row)| (*row, place)).collect();
        let by_id = |id: &str| place_of.get(last_of_id.get(id)?).copied();
        let last_boundary = path.iter().rposition(|row| kept(rows, *row).is_some());
        let line = |(place, index): (usize, &usize)| {
            let row = rows.get(*index)?;
            let kind = match &row.kind {
                Kind::Message { role: Role::Missing, .. } => PathLineKind::Invalid,
                Kind::Message { is_bare, .. } => PathLineKind::Message { is_bare: *is_bare },
                Kind::Custom | Kind::BranchSummary => PathLineKind::Shown,
                Kind::Compaction(kept) | Kind::Reset(kept) => {
                    let before = path.get(..place).unwrap_or_default();
                    let first = match &kept.first {
                        // Earlier boundaries have no effect on the context.
                        Some(id) if Some(place) != last_boundary => by_id(id),
                        _ => Some(window::first_kept(rows, &tree, before, kept)),
                    };
                    PathLineKind::Boundary { first_kept: first.filter(|first| *first < place) }
                }
                Kind::Edit(target) => PathLineKind::Edit { target: target.clone() },
                _ => PathLineKind::Other,
            };
            let id = row.id.clone();
            let is_parent = id.as_deref().is_some_and(|id| last_of_id.get(id) == Some(index));
            let line = row.line;
            Some(PathLine { line, id, kind, is_parent, is_shown: false, first: 0, end: 0 })
        };
        RepairPlan {
            messages,
            found,
            dropped_lines,
            leaf: tree.leaf.and_then(|leaf| rows.get(leaf)).map(Row::name),
            begins_anew: start != PathStart::Root,
            path: path.iter().enumerate().filter_map(line).collect(),
        }
    }
}

/// Returns what a compaction or a reset keeps.
fn kept(rows: &[Row], row: usize) -> Option<&Kept> {
    match &rows.get(row)?.kind {
        Kind::Compaction(kept) | Kind::Reset(kept) => Some(kept),
        _ => None,
    }
}

/// Returns the error of a session whose first line is no header.
fn header(rows: &[Row]) -> Option<Change> {
    let first = rows.first()?;
    let is_good = match &first.kind {
        Kind::Header(_) => first.id.is_some(),
        // Some formats have no headers.
        Kind::Own { .. } => true,
        _ => false,
    };
    (!is_good).then(|| Change::at(ChangeKind::Header, first.line))
}

/// Returns the error of a path whose first entry names a parent that is not on it.
fn parent(rows: &[Row], start: &PathStart) -> Option<Change> {
    let (kind, row, parent) = match start {
        PathStart::Root => return None,
        PathStart::Missing { row, parent } => (ChangeKind::MissingParent, row, parent),
        PathStart::Circle { row, parent } => (ChangeKind::CircularParent, row, parent),
    };
    let row = rows.get(*row)?;
    let (entry, other) = (Some(row.name()), Some(parent.clone()));
    Some(Change { entry, other, ..Change::at(kind, row.line) })
}

impl Change {
    /// Returns an error of a line, counted from 0.
    fn at(kind: ChangeKind, line: usize) -> Change {
        let line = Some(line + 1);
        Change { kind, line, entry: None, message: None, call: None, other: None }
    }
}

impl RepairPlan {
    /// Returns all lines that are needed.
    pub fn lines(&self) -> Vec<usize> {
        match &self.messages {
            Some(Wanted::Entries(plan)) => plan.lines().collect(),
            Some(Wanted::Messages(plan)) => plan.lines().collect(),
            None => Vec::new(),
        }
    }

    /// Finds the errors of a session whose lines are all available.
    pub fn fill<'a>(self, line: &(dyn Fn(usize) -> Option<&'a str> + Sync)) -> Repair {
        let RepairPlan { messages, found, dropped_lines, leaf, mut path, begins_anew } = self;
        let has_entries = matches!(messages, Some(Wanted::Entries(_)));
        let messages = match messages {
            None => Vec::new(),
            Some(Wanted::Messages(plan)) => plan.fill(line).messages,
            Some(Wanted::Entries(plan)) => {
                let filled = plan.fill(line);
                let place_of: HashMap<usize, usize> =
                    path.iter().enumerate().map(|(place, one)| (one.line, place)).collect();
                for entry in &filled.entries {
                    let place = place_of.get(&entry.line);
                    if let Some(one) = place.and_then(|place| path.get_mut(*place)) {
                        (one.is_shown, one.first, one.end) = (true, entry.first, entry.end);
                    }
                }
                filled.messages
            }
        };
        let order = pairing::order(&messages);
        let first = if begins_anew { 0 } else { path.len() };
        let mut repair = Repair {
            changes: found,
            dropped_lines,
            leaf,
            has_entries,
            path,
            messages,
            order,
            first,
        };
        repair.pair();
        let before = repair.first.checked_sub(1).and_then(|place| repair.path.get(place));
        if before.is_some_and(|before| !before.is_parent) {
            // No entry can follow that one, so a branch begins at the root.
            repair.first = 0;
        }
        repair
    }
}

impl Repair {
    /// Returns whether there is an error that a model or another reader would see.
    ///
    /// Invalid lines are on no path. A copy in another session does not have them; a branch in the
    /// same session cannot remove them.
    pub fn is_needed(&self, in_a_new_session: bool) -> bool {
        self.changes.iter().any(|change| in_a_new_session || change.kind != ChangeKind::InvalidLine)
    }

    /// Returns whether the session has no valid header.
    pub fn has_bad_header(&self) -> bool {
        self.changes.iter().any(|change| change.kind == ChangeKind::Header)
    }

    /// Adds the errors of tool results.
    fn pair(&mut self) {
        // For each message, the place of its entry on the path.
        let mut place_of = vec![None; self.messages.len()];
        for (place, one) in self.path.iter().enumerate() {
            for message in place_of.get_mut(one.first..one.end).into_iter().flatten() {
                *message = Some(place);
            }
        }
        let place_of = |message: usize| place_of.get(message).copied().flatten();
        let mut found = Vec::new();
        let mut first = self.first;
        let mut note = |kind, message: usize, call: Option<&str>, behind: Option<usize>| {
            let place = place_of(message);
            let one = place.and_then(|place| self.path.get(place));
            let other = behind.and_then(place_of).and_then(|place| self.path.get(place));
            found.push(Change {
                kind,
                line: one.map(|one| one.line + 1),
                entry: one.map(PathLine::name),
                message: Some(message + 1),
                call: call.map(str::to_owned),
                other: other.map(PathLine::name),
            });
            // An entry with a changed result is copied, and so are all entries after it.
            let behind = behind.and_then(place_of).map(|place| place + 1);
            let own = place.map(|place| place + usize::from(kind == ChangeKind::ResultMissing));
            for changed in [own, behind].into_iter().flatten() {
                first = first.min(changed);
            }
        };
        let in_place = in_place(&self.order, self.messages.len());
        let mut caller = 0;
        for place in &self.order.places {
            match place {
                Place::Message(message) => caller = *message,
                Place::Result { message, call } => {
                    if in_place.get(*message) == Some(&false) {
                        note(ChangeKind::ResultApart, *message, Some(&call.id), Some(caller));
                    }
                    if self
                        .messages
                        .get(*message)
                        .is_some_and(|one| pairing::call_of(one).is_none())
                    {
                        note(ChangeKind::ResultUnnamed, *message, Some(&call.id), None);
                    }
                }
                Place::Missing(call) => {
                    note(ChangeKind::ResultMissing, caller, Some(&call.id), None);
                }
            }
        }
        for (message, why) in &self.order.left_out {
            let kind = match why {
                LeftOut::Duplicate => ChangeKind::ResultDouble,
                LeftOut::Orphan => ChangeKind::ResultOrphaned,
            };
            let id = self.messages.get(*message).and_then(pairing::call_of);
            note(kind, *message, id.as_deref(), None);
        }
        found.sort_by_key(|change| (change.message, change.kind));
        self.first = first;
        self.changes.extend(found);
    }
}

/// Returns for each message whether it is a result that directly follows its call. Results of the
/// same message may have any order, and results that are left out are ignored.
fn in_place(order: &Order, messages: usize) -> Vec<bool> {
    let mut caller_of: Vec<Option<usize>> = vec![None; messages];
    let mut callers = Vec::new();
    for place in &order.places {
        match (place, callers.last()) {
            (Place::Message(message), _) => callers.push(*message),
            (Place::Result { message, .. }, Some(caller)) => {
                if let Some(caller_of) = caller_of.get_mut(*message) {
                    *caller_of = Some(*caller);
                }
            }
            _ => {}
        }
    }
    let mut is_left_out = vec![false; messages];
    for (message, _) in &order.left_out {
        if let Some(is_left_out) = is_left_out.get_mut(*message) {
            *is_left_out = true;
        }
    }
    let mut in_place = vec![false; messages];
    for caller in callers {
        for message in caller + 1..messages {
            let is_result = caller_of.get(message) == Some(&Some(caller));
            if !is_result && is_left_out.get(message) != Some(&true) {
                break;
            }
            if let Some(in_place) = in_place.get_mut(message) {
                *in_place = is_result;
            }
        }
    }
    in_place
}

impl PathLine {
    /// Returns the name of the entry for people: its id, or `#` and its line number.
    pub(super) fn name(&self) -> String {
        match &self.id {
            Some(id) => id.to_string(),
            None => row::name_of_line(self.line),
        }
    }
}
