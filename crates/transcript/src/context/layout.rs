//! Lays out a session in files that pi and OpenClaw 2026.7.1 read in the same way.
//!
//! pi takes the last line as the leaf and does not know `leaf` and `reset`; OpenClaw 2026.7.1 does
//! not know `reset` and edits. So the leaf's line comes last and all others stay in their order.
//! `leaf` lines, which only move the leaf, are left out. At each reset on the path to the leaf, a
//! new file begins; entries that do not descend from the reset stay in the file before it. Entries
//! that a reset keeps are in both files. A line stays unchanged wherever both readers interpret it
//! as we do.

mod ids;
mod links;

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::messages::Maker;
use super::row::{self, Kept, Kind, Model, Parent, Role, Row};
use super::tree::Tree;
use super::window::first_kept;
use super::{Session, shapes};
use crate::json::object::Object;
use ids::Ids;
use links::Links;

/// The files of a session.
#[derive(Debug)]
pub struct Layout {
    /// The line of the session's header.
    pub header: Option<usize>,
    /// The files, oldest first; the session continues in the last one.
    pub files: Vec<LaidFile>,
    /// The number of lines in none of the files, because they are not entries.
    pub left_out: usize,
    pub(super) has_hooks: bool,
}

/// A file of a session.
#[derive(Debug)]
pub struct LaidFile {
    /// The line of the reset that ended the file.
    pub ended_by: Option<usize>,
    /// Its entries. Their line numbers ascend, except for entries that a reset keeps and for the
    /// leaf.
    pub entries: Vec<LaidEntry>,
}

/// An entry of a file.
#[derive(Debug, Clone)]
pub struct LaidEntry {
    /// The source line; `None` for an entry without one.
    pub line: Option<usize>,
    pub(super) id: String,
    pub(super) parent: Option<String>,
    /// True if the entry was a side entry and later became part of the conversation.
    pub(super) joins: bool,
    /// True for an entry at the beginning of a file. If it is written differently there, it also
    /// stores its original line.
    pub(super) keeps_original: bool,
    pub(super) what: Written,
}

/// The form in which an entry is written.
#[derive(Debug, Clone)]
pub(super) enum Written {
    Message {
        is_bare: bool,
        edit: Option<Box<RawValue>>,
    },
    Custom {
        edit: Option<Box<RawValue>>,
    },
    Summary {
        is_removed: bool,
    },
    /// A compaction or reset. `first_kept` is the first entry that it keeps, if its line names
    /// another id.
    Boundary {
        first_kept: Option<String>,
    },
    Other,
    /// The model, repeated from the file before.
    Model(Model),
    /// The thinking level, repeated from the file before.
    Thinking(String),
    /// A repeated thinking level. OpenClaw 2026.7.1 takes this entry as the leaf.
    Foothold(String),
    /// Marks that the leaf is before the first entry.
    Root,
}

impl LaidEntry {
    /// Returns an entry without a source line.
    fn made(id: String, parent: Option<String>, what: Written) -> LaidEntry {
        LaidEntry { line: None, id, parent, joins: false, keeps_original: false, what }
    }
}

impl Session {
    /// Returns the lines whose text [`Session::layout`] needs.
    pub fn layout_wants(&self) -> Vec<usize> {
        let tree = self.tree();
        let path = tree.path(tree.leaf);
        let mut wanted: Vec<usize> = Vec::new();
        for (place, row) in path.iter().enumerate() {
            match self.rows.get(*row).map(|row| (row.line, &row.kind)) {
                Some((line, Kind::Edit(_))) => wanted.push(line),
                Some((_, Kind::Reset(kept))) => {
                    let kept = self.explicitly_kept(&tree, &path, place, kept);
                    wanted.extend(kept.iter().filter_map(|row| Some(self.rows.get(*row)?.line)));
                }
                _ => {}
            }
        }
        wanted
    }

    /// Returns the files of the session. `texts` has the lines of [`Session::layout_wants`].
    pub fn layout(&self, texts: &HashMap<usize, String>) -> Layout {
        let tree = self.tree();
        let mut work = Work::new(self, &tree, texts);
        let header = self.rows.iter().find(|row| matches!(row.kind, Kind::Header(_)));
        let files = work.files();
        let written: HashSet<usize> =
            files.iter().flat_map(|file| &file.entries).filter_map(|laid| laid.line).collect();
        let moves = self.rows.iter().filter(|row| {
            matches!(row.kind, Kind::Leaf(_)) && !written.contains(&row.line)
                || Some(row.line) == header.map(|row| row.line)
        });
        Layout {
            header: header.map(|row| row.line),
            left_out: self.lines.saturating_sub(written.len() + moves.count()),
            files,
            has_hooks: row::version(&self.rows).has_hooks(),
        }
    }

    /// Returns the rows that a reset explicitly keeps: the messages of users, models and tools on
    /// the path since its first kept entry.
    fn explicitly_kept(
        &self,
        tree: &Tree,
        path: &[usize],
        place: usize,
        kept: &Kept,
    ) -> Vec<usize> {
        let before = path.get(..place).unwrap_or_default();
        let is_spoken = |row: &&usize| {
            let kind = self.rows.get(**row).map(|row| &row.kind);
            let roles = [Role::User, Role::Assistant, Role::Result];
            matches!(kind, Some(Kind::Message { role, .. }) if roles.contains(role))
        };
        let first = first_kept(&self.rows, tree, before, kept);
        before.iter().skip(first).filter(is_spoken).copied().collect()
    }
}

struct Work<'s> {
    session: &'s Session,
    tree: &'s Tree,
    texts: &'s HashMap<usize, String>,
    path: Vec<usize>,
    links: Links,
    ids: Ids<'s>,
    edits: HashMap<usize, Box<RawValue>>,
    /// The compaction in effect at the leaf.
    compaction: Option<usize>,
    /// The first kept entry of each reset.
    firsts: HashMap<usize, String>,
}

impl<'s> Work<'s> {
    fn new(session: &'s Session, tree: &'s Tree, texts: &'s HashMap<usize, String>) -> Work<'s> {
        let path = tree.path(tree.leaf);
        let is_compaction = |row: &&usize| {
            matches!(session.rows.get(**row).map(|row| &row.kind), Some(Kind::Compaction(_)))
        };
        let mut work = Work {
            session,
            tree,
            texts,
            links: Links::of(tree),
            ids: Ids::of(&session.rows, tree),
            edits: HashMap::new(),
            firsts: HashMap::new(),
            compaction: path.iter().rev().find(is_compaction).copied(),
            path,
        };
        work.edit();
        work
    }

    fn row(&self, row: usize) -> Option<&'s Row> {
        self.session.rows.get(row)
    }

    fn is_entry(&self, row: usize) -> bool {
        self.tree.is_entry.get(row).copied().unwrap_or_default()
    }

    /// Collects the edits in effect at the leaf, by the row that they change.
    fn edit(&mut self) {
        let rows = &self.session.rows;
        for row in self.path.iter().filter_map(|row| rows.get(*row)) {
            let Kind::Edit(target) = &row.kind else { continue };
            let text = self.texts.get(&row.line).map(|text| row::clean(text));
            let edit = text.and_then(Object::read);
            let replacement = edit.as_ref().and_then(|edit| edit.get("replacement"));
            let found = self.tree.find(rows, target);
            self.edits.extend(found.zip(replacement.map(ToOwned::to_owned)));
        }
    }

    /// Returns the resets on the path, at each of which a new file begins.
    fn breaks(&self) -> Vec<Break> {
        let kind = |place: usize| Some(&self.row(*self.path.get(place)?)?.kind);
        let mut breaks: Vec<Break> = Vec::new();
        for place in (0..self.path.len()).filter(|at| matches!(kind(*at), Some(Kind::Reset(_)))) {
            // Changes of the model and thinking level directly before a reset belong to it.
            let mut start = place;
            while let Some(before) = start.checked_sub(1)
                && matches!(kind(before), Some(Kind::ModelChange(_) | Kind::Thinking(_)))
                && self.path.get(before).is_some_and(|row| self.links.followers(*row) == 1)
            {
                start = before;
            }
            breaks.push(Break { start, reset: place });
        }
        breaks
    }

    fn files(&mut self) -> Vec<LaidFile> {
        let breaks = self.breaks();
        let starts: Vec<usize> =
            breaks.iter().filter_map(|one| self.path.get(one.start)).copied().collect();
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); breaks.len() + 1];
        for (row, file) in self.links.segments(&starts).into_iter().enumerate() {
            if self.ids.get(row).is_some()
                && let Some(rows) = rows.get_mut(file)
            {
                rows.push(row);
            }
        }
        let mut files = Vec::new();
        for (number, mut rows) in rows.into_iter().enumerate() {
            let began = number.checked_sub(1).and_then(|number| breaks.get(number));
            let ended = breaks.get(number);
            let from = began.map_or(0, |began| began.start);
            let to = ended.map_or(self.path.len(), |ended| ended.start);
            let path = self.path.get(from..to).unwrap_or_default().to_vec();
            let known = path.iter().rposition(|row| self.is_known(*row));
            let tail: HashSet<usize> = path.iter().skip(known.unwrap_or(0)).copied().collect();
            rows.retain(|row| !tail.contains(row));
            // If no entry precedes the reset, there is no file before it.
            if ended.is_some() && rows.is_empty() && tail.is_empty() {
                continue;
            }
            let mut carried = began.map(|began| self.carried(began)).unwrap_or_default();
            if known.is_none() && carried.is_empty() && !rows.is_empty() {
                carried.extend(self.foothold(&path));
            }
            let last = carried.last().map(|laid| laid.id.clone());
            // The first rows of the path belong to the reset. Their parents are in the file before.
            let begins = began.map_or(0, |began| began.reset + 1 - began.start);
            let first = path.get(..begins.max(1)).unwrap_or_default();
            let laid = |row: &usize| {
                let mut laid = match &last {
                    Some(last) if Some(row) == path.first() => self.laid(*row, Some(last.clone())),
                    _ => self.laid(*row, self.parent(*row)),
                };
                if let Some(laid) = laid.as_mut().filter(|_| first.contains(row)) {
                    laid.keeps_original = true;
                }
                laid
            };
            let others: Vec<LaidEntry> = rows.iter().filter_map(laid).collect();
            let ends: Vec<LaidEntry> =
                path.iter().filter(|row| tail.contains(row)).filter_map(laid).collect();
            let mut entries = match known {
                Some(_) => [carried, others, ends].concat(),
                None => [others, carried, ends].concat(),
            };
            if ended.is_none() && self.tree.leaf.is_none() && !entries.is_empty() {
                entries.push(self.root());
            }
            let reset = ended.and_then(|ended| self.path.get(ended.reset)).copied();
            let ended_by = reset.and_then(|reset| self.row(reset)).map(|row| row.line);
            files.push(LaidFile { ended_by, entries });
        }
        files
    }

    /// Returns the line that moved the leaf before the first entry, as an entry that marks this.
    fn root(&mut self) -> LaidEntry {
        let moved = self.session.rows.iter().rfind(|row| matches!(row.kind, Kind::Leaf(_)));
        let id = moved.and_then(|row| row.id.as_deref()).map(str::to_owned);
        let id = id.unwrap_or_else(|| self.ids.fresh(self.session.lines));
        LaidEntry { line: moved.map(|row| row.line), ..LaidEntry::made(id, None, Written::Root) }
    }

    /// Returns whether OpenClaw 2026.7.1 knows the type of an entry, so that it can be the leaf.
    fn is_known(&self, row: usize) -> bool {
        let kind = self.row(row).map(|row| &row.kind);
        self.is_entry(row)
            && !matches!(kind, None | Some(Kind::Reset(_) | Kind::Edit(_) | Kind::Newer))
    }

    /// Returns an entry for OpenClaw 2026.7.1 to take as the leaf. Without it, that release would
    /// skip the whole path, which has only entries that it does not know, and take another branch.
    fn foothold(&mut self, path: &[usize]) -> Option<LaidEntry> {
        let parent = self.parent(*path.first()?);
        let (_, thinking) = self.settings(&self.path);
        let what = Written::Foothold(thinking.to_owned());
        Some(LaidEntry::made(self.ids.fresh(self.session.lines), parent, what))
    }

    /// Returns the parent that a row is written with. A named parent that does not exist stays as
    /// written.
    fn parent(&self, row: usize) -> Option<String> {
        if let Some(up) = self.links.up(row) {
            return self.ids.get(up).map(str::to_owned);
        }
        match self.row(row).map(|row| &row.parent) {
            Some(Parent::Id(id)) if !self.ids.is_known(id) => Some(id.to_string()),
            _ => None,
        }
    }

    fn laid(&self, index: usize, parent: Option<String>) -> Option<LaidEntry> {
        let (row, id) = (self.row(index)?, self.ids.get(index)?.to_owned());
        let edit = self.edits.get(&index);
        let is_removed = edit.is_some_and(|edit| edit.get() == "null");
        let what = match &row.kind {
            Kind::Message { is_bare, .. } => {
                Written::Message { is_bare: *is_bare, edit: edit.cloned() }
            }
            Kind::Custom => Written::Custom { edit: edit.cloned() },
            Kind::BranchSummary => Written::Summary { is_removed },
            Kind::Compaction(kept) => Written::Boundary { first_kept: self.kept(index, kept) },
            Kind::Reset(kept) => {
                let first = self.firsts.get(&index);
                let is_other = first.is_some_and(|first| kept.first.as_deref() != Some(first));
                Written::Boundary { first_kept: first.filter(|_| is_other).cloned() }
            }
            _ => Written::Other,
        };
        // A side entry that became part of the conversation.
        let joins = row.is_side && self.links.followers(index) > 0;
        Some(LaidEntry { line: Some(row.line), id, parent, joins, keeps_original: false, what })
    }

    /// Returns the id of the first entry that a compaction keeps; its own id if it keeps nothing.
    /// `None` if the compaction already names an id that all readers know, or is not the one in
    /// effect at the leaf.
    fn kept(&self, row: usize, kept: &Kept) -> Option<String> {
        let first = kept.first.as_ref().filter(|_| kept.first_index.is_none());
        let found = first.and_then(|id| self.tree.find(&self.session.rows, id));
        let names_known_id = first.is_some() && found.is_none_or(|row| self.is_known(row));
        let is_unspecified =
            first.is_none() && kept.first_index.is_none() && kept.compacted.is_none();
        if names_known_id || is_unspecified || self.compaction != Some(row) {
            return None;
        }
        let place = self.path.iter().position(|other| *other == row)?;
        let before = self.path.get(..place)?;
        let place = first_kept(&self.session.rows, self.tree, before, kept);
        let first = before.iter().skip(place).find(|row| self.is_known(**row));
        self.ids.get(*first.unwrap_or(&row)).map(str::to_owned)
    }

    /// Returns the first entries of a file that continues after a reset: the entries that the reset
    /// keeps, then the model and the thinking level from before it.
    fn carried(&mut self, began: &Break) -> Vec<LaidEntry> {
        let reset = self.path.get(began.reset).and_then(|row| self.row(*row));
        let Some(Row { kind: Kind::Reset(kept), .. }) = reset else { return Vec::new() };
        let kept = self.session.explicitly_kept(self.tree, &self.path, began.reset, kept);
        let kept = self.answered(kept);
        // The first kept entry may be a result that is left out here. The reset then names the
        // first one that is written.
        let first = kept.first().and_then(|row| self.ids.get(*row)).map(str::to_owned);
        let reset = self.path.get(began.reset).copied();
        self.firsts.extend(reset.zip(first));
        let mut carried: Vec<LaidEntry> = Vec::new();
        for (number, row) in kept.iter().enumerate() {
            let parent = match number.checked_sub(1).and_then(|before| kept.get(before)) {
                Some(before) => self.ids.get(*before).map(str::to_owned),
                None => self.parent(*row),
            };
            carried.extend(self.laid(*row, parent));
        }
        let own = self.path.get(began.start..began.reset).unwrap_or_default();
        let there: Vec<usize> = kept.iter().chain(own).copied().collect();
        let (model, thinking) = self.settings(self.path.get(..began.reset).unwrap_or_default());
        let (own_model, own_thinking) = self.settings(&there);
        let mut repeated = Vec::new();
        if let Some(model) = model.filter(|model| own_model != Some(*model)) {
            repeated.extend(self.session.models.get(model).cloned().map(Written::Model));
        }
        if thinking != own_thinking {
            repeated.push(Written::Thinking(thinking.to_owned()));
        }
        for what in repeated {
            let parent = match (carried.last(), self.path.get(began.start)) {
                (Some(before), _) => Some(before.id.clone()),
                (None, Some(start)) => self.parent(*start),
                (None, None) => None,
            };
            let id = self.ids.fresh(self.session.lines);
            carried.push(LaidEntry::made(id, parent, what));
        }
        carried
    }

    /// Removes the results of calls that are not kept.
    fn answered(&self, kept: Vec<usize>) -> Vec<usize> {
        let mut maker = Maker::default();
        let mut calls = HashSet::new();
        kept.into_iter()
            .filter(|index| {
                let Some(row) = self.row(*index) else { return false };
                let Kind::Message { role, is_bare, .. } = row.kind else { return false };
                let text = self.texts.get(&row.line).map(|text| row::clean(text));
                let edit = self.edits.get(index).map(|edit| &**edit);
                let mut messages = Vec::new();
                maker.message(text.unwrap_or_default(), is_bare, edit, &mut messages);
                for message in messages.iter().filter_map(|message| Object::read(message.json())) {
                    if role == Role::Result {
                        return shapes::id_of_result(&message)
                            .is_some_and(|id| calls.contains(&id));
                    }
                    let content = message.get("content").map(shapes::calls).unwrap_or_default();
                    calls.extend(content.into_iter().map(|(id, _)| id));
                }
                true
            })
            .collect()
    }

    /// Returns the model and thinking level in effect after these rows of a path.
    fn settings(&self, rows: &[usize]) -> (Option<row::ModelId>, &'s str) {
        let (mut model, mut thinking) = (None, "off");
        for row in rows.iter().filter_map(|row| self.row(*row)) {
            match &row.kind {
                Kind::Thinking(level) => thinking = level,
                Kind::ModelChange(id) | Kind::Message { model: Some(id), .. } => {
                    model = Some(*id);
                }
                _ => {}
            }
        }
        (model, thinking)
    }
}

/// A reset on the path, as indexes into the path.
struct Break {
    /// The first row that belongs to the reset.
    start: usize,
    reset: usize,
}
