//! Builds the tree by the rules of OpenClaw 2026.7.1.
//!
//! Entries of known types are on the path. Other rows that name a parent are skipped: their
//! children follow that parent. A `leaf` row moves the leaf to its target, if the ids in it are
//! known; children of the row follow that target. Side rows are appended like any other but never
//! become the leaf, so later rows continue from the leaf.

use std::collections::HashMap;

use super::row::{self, Kind, LeafMove, Parent, Row};
use super::tree::Tree;

pub(super) fn tree(rows: &[Row]) -> Tree {
    let is_linear = row::version(rows).is_linear();
    let mut scan = Scan::new(rows.len());
    for (index, row) in rows.iter().enumerate() {
        match &row.kind {
            Kind::Header(_) | Kind::Nothing | Kind::Own { .. } => {}
            Kind::Leaf(leaf) => scan.move_leaf(row, index, leaf),
            Kind::Unknown => scan.add_transparent(row, index),
            _ if is_linear => scan.chain(row, index),
            _ => scan.enter(rows, row, index),
        }
    }
    let parents = (0..rows.len()).map(|index| scan.follow(index)).collect();
    Tree { parents, is_entry: scan.is_entry, leaf: scan.leaf }
}

/// The target of a row's link.
#[derive(Debug, Clone, Copy)]
enum Next<'a> {
    Nothing,
    Entry(usize),
    /// The row with this id, which may come later.
    Id(&'a str),
}

struct Scan<'a> {
    entries: HashMap<&'a str, usize>,
    /// Rows that are skipped, including `leaf` rows.
    others: HashMap<&'a str, usize>,
    next: Vec<Next<'a>>,
    is_entry: Vec<bool>,
    /// True for `leaf` rows that name an unknown id.
    is_void: Vec<bool>,
    leaf: Option<usize>,
    /// The row that was appended last, or the one that a `leaf` row names instead.
    append: Option<usize>,
    /// Marks the rows of one walk, to detect a cycle.
    walked: Vec<u32>,
    walk: u32,
}

impl<'a> Scan<'a> {
    fn new(rows: usize) -> Scan<'a> {
        Scan {
            entries: HashMap::new(),
            others: HashMap::new(),
            next: vec![Next::Nothing; rows],
            is_entry: vec![false; rows],
            is_void: vec![false; rows],
            leaf: None,
            append: None,
            walked: vec![0; rows],
            walk: 0,
        }
    }

    /// Adds an entry of version 1, which follows the one before it.
    fn chain(&mut self, row: &'a Row, index: usize) {
        set(&mut self.next, index, self.leaf.map_or(Next::Nothing, Next::Entry));
        self.add_entry(row, index);
        self.leaf = Some(index);
    }

    fn enter(&mut self, rows: &'a [Row], row: &'a Row, index: usize) {
        let continues_previous = || self.leaf.map_or(Next::Nothing, Next::Entry);
        let appended_to = self.append.and_then(|row| rows.get(row)).map(|row| row.id.as_deref());
        let next = match &row.parent {
            Parent::Implicit => continues_previous(),
            // A row whose parent is the last appended row, or the root if there is none, continues
            // from the leaf.
            Parent::Root if appended_to.is_none() && !row.is_side => continues_previous(),
            Parent::Root => Next::Nothing,
            Parent::Id(id) => {
                let names_last = appended_to == Some(Some(&**id));
                if names_last && !row.is_side && self.leaf != self.append {
                    continues_previous()
                } else {
                    Next::Id(id)
                }
            }
        };
        set(&mut self.next, index, next);
        self.add_entry(row, index);
        if !row.is_side {
            self.leaf = Some(index);
        }
    }

    fn add_entry(&mut self, row: &'a Row, index: usize) {
        set(&mut self.is_entry, index, true);
        if let Some(id) = &row.id {
            self.entries.insert(id, index);
        }
        self.append = Some(index);
    }

    fn add_transparent(&mut self, row: &'a Row, index: usize) {
        let next = match &row.parent {
            Parent::Implicit => return,
            Parent::Root => Next::Nothing,
            Parent::Id(id) => Next::Id(id),
        };
        let Some(id) = &row.id else { return };
        set(&mut self.next, index, next);
        self.others.insert(id, index);
        self.append = Some(index);
    }

    fn move_leaf(&mut self, row: &'a Row, index: usize, leaf: &'a LeafMove) {
        let (Some(id), Some(target)) = (&row.id, &leaf.target) else { return };
        if !leaf.is_known || matches!(row.parent, Parent::Implicit) {
            return;
        }
        let append = leaf.append.as_ref().unwrap_or(target);
        self.others.insert(id, index);
        if !self.knows(target.as_deref()) || !self.knows(append.as_deref()) {
            set(&mut self.is_void, index, true);
            if let Parent::Id(parent) = &row.parent {
                set(&mut self.next, index, Next::Id(parent));
            }
            return;
        }
        let target = target.as_deref().and_then(|id| self.resolve(id));
        set(&mut self.next, index, target.map_or(Next::Nothing, Next::Entry));
        self.leaf = target;
        self.append = match &leaf.append {
            None => target,
            Some(append) => append
                .as_deref()
                .and_then(|id| self.entries.get(id).or_else(|| self.others.get(id)).copied()),
        };
    }

    /// Returns whether a `leaf` row may name this id: none, or that of an earlier row.
    fn knows(&self, id: Option<&str>) -> bool {
        let Some(id) = id else { return true };
        let is_sound = |row: &usize| self.is_void.get(*row) == Some(&false);
        self.entries.contains_key(id) || self.others.get(id).is_some_and(is_sound)
    }

    /// Returns the entry that a row follows.
    fn follow(&mut self, row: usize) -> Option<usize> {
        match self.next.get(row).copied()? {
            Next::Nothing => None,
            Next::Entry(entry) => Some(entry),
            Next::Id(id) => self.resolve(id),
        }
    }

    /// Returns the entry with this id, or the one that its row links to. Skipped rows are then
    /// linked to it directly, so that a long chain is walked once.
    fn resolve(&mut self, id: &'a str) -> Option<usize> {
        self.walk += 1;
        let mut skipped = Vec::new();
        let mut id = id;
        let end = loop {
            if let Some(entry) = self.entries.get(id) {
                break Next::Entry(*entry);
            }
            let Some(&row) = self.others.get(id) else { break Next::Id(id) };
            match self.walked.get_mut(row) {
                Some(walked) if *walked != self.walk => *walked = self.walk,
                _ => break Next::Nothing,
            }
            skipped.push(row);
            match self.next.get(row).copied() {
                Some(Next::Id(further)) => id = further,
                Some(end) => break end,
                None => break Next::Nothing,
            }
        };
        for row in skipped {
            set(&mut self.next, row, end);
        }
        match end {
            Next::Entry(entry) => Some(entry),
            // No row has that id yet.
            Next::Nothing | Next::Id(_) => None,
        }
    }
}

fn set<T>(list: &mut [T], index: usize, value: T) {
    if let Some(place) = list.get_mut(index) {
        *place = value;
    }
}
