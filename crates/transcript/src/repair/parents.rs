//! Finds the entry at which the path to a leaf begins, and the reason.

use std::collections::{HashMap, HashSet};

use crate::context::row::{self, Kind, Parent, Row};
use crate::context::tree::Tree;

/// The reason why a path begins where it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathStart {
    /// Its first row has no parent.
    Root,
    /// This row names a parent that the session does not have.
    Missing { row: usize, parent: String },
    /// The parent that this row names comes later on the path.
    Circle { row: usize, parent: String },
}

/// Returns where the path to a leaf begins.
pub(super) fn start(rows: &[Row], tree: &Tree, leaf: Option<usize>) -> PathStart {
    let mut seen = vec![false; rows.len()];
    let mut at = leaf;
    let mut last = None;
    while let Some(row) = at {
        match seen.get_mut(row) {
            Some(seen) if !*seen => *seen = true,
            _ => return circle(rows, last),
        }
        last = Some(row);
        at = tree.parents.get(row).copied().flatten();
    }
    match last {
        // Entries of version 1 follow each other, and need no parents.
        Some(last) if !row::version(rows).is_linear() => without_parent(rows, last),
        _ => PathStart::Root,
    }
}

fn circle(rows: &[Row], last: Option<usize>) -> PathStart {
    let named = last.and_then(|row| Some((row, parent_of(rows, row)?)));
    named.map_or(PathStart::Root, |(row, parent)| PathStart::Circle { row, parent })
}

/// Returns the parent that a row names.
fn parent_of(rows: &[Row], row: usize) -> Option<String> {
    match &rows.get(row)?.parent {
        Parent::Id(id) => Some(id.to_string()),
        Parent::Implicit | Parent::Root => None,
    }
}

/// Returns why no entry comes before the first row of a path. A parent of an unknown type is
/// skipped: its own parent takes its place.
fn without_parent(rows: &[Row], first: usize) -> PathStart {
    let Some(named) = parent_of(rows, first) else { return PathStart::Root };
    let by_id: HashMap<&str, &Row> =
        rows.iter().filter_map(|row| Some((row.id.as_deref()?, row))).collect();
    let mut seen = HashSet::new();
    let mut parent = &*named;
    loop {
        if !seen.insert(parent) {
            return PathStart::Circle { row: first, parent: named };
        }
        let Some(row) = by_id.get(parent).copied() else {
            return PathStart::Missing { row: first, parent: named };
        };
        match (&row.kind, &row.parent) {
            (Kind::Unknown, Parent::Id(id)) => parent = id,
            _ => return PathStart::Root,
        }
    }
}
