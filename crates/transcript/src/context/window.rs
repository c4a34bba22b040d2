//! Selects the entries of a path that are in the context: the last compaction or reset replaces all
//! earlier entries except those that it keeps.

use super::row::{Kept, Kind, Role, Row};
use super::tree::Tree;

/// The part of a path that is in the context.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The compaction or reset.
    pub(super) boundary: Option<usize>,
    /// The entries before the boundary that stay.
    pub(super) kept: Vec<usize>,
    /// The entries after the boundary.
    pub(super) after: Vec<usize>,
}

/// Returns the part of a path that is in the context.
pub(super) fn window(rows: &[Row], tree: &Tree, path: &[usize]) -> Window {
    let kind = |place: &usize| path.get(*place).and_then(|row| rows.get(*row)).map(|row| &row.kind);
    let is_boundary =
        |place: &usize| matches!(kind(place), Some(Kind::Compaction(_) | Kind::Reset(_)));
    let Some(place) = (0..path.len()).rev().find(is_boundary) else {
        return Window { after: path.to_vec(), ..Window::default() };
    };
    let (before, rest) = path.split_at(place);
    let first = match kind(&place) {
        Some(Kind::Compaction(kept) | Kind::Reset(kept)) => first_kept(rows, tree, before, kept),
        _ => before.len(),
    };
    let is_system = |row: &&usize| {
        let kind = rows.get(**row).map(|row| &row.kind);
        matches!(kind, Some(Kind::Message { role: Role::System, .. }))
    };
    Window {
        boundary: path.get(place).copied(),
        // A system prompt comes with the summary, not with the kept entries.
        kept: before.iter().skip(first).filter(|row| !is_system(row)).copied().collect(),
        after: rest.iter().skip(1).copied().collect(),
    }
}

/// Returns the index of the first entry that stays, or the length if none does.
pub(crate) fn first_kept(rows: &[Row], tree: &Tree, before: &[usize], kept: &Kept) -> usize {
    let place_of = |row: usize| before.iter().position(|other| *other == row);
    let found = if let Some(index) = kept.first_index {
        usize::try_from(index).ok().and_then(place_of)
    } else if let Some(id) = &kept.first {
        tree.find(rows, id).and_then(|row| {
            let is_entry = tree.is_entry.get(row).copied().unwrap_or_default();
            // A skipped row stands for its parent, or at the root for the next row.
            match tree.parents.get(row).copied().flatten() {
                _ if is_entry => place_of(row),
                Some(parent) => place_of(parent),
                None => before.first().filter(|first| **first > row).map(|_| 0),
            }
        })
    } else if let Some(count) = kept.compacted {
        after_messages(rows, before, count)
    } else {
        None
    };
    found.unwrap_or(before.len())
}

/// Returns the index of the next message after the first `count` messages.
fn after_messages(rows: &[Row], before: &[usize], count: u64) -> Option<usize> {
    let is_message =
        |row: &usize| rows.get(*row).is_some_and(|row| matches!(row.kind, Kind::Message { .. }));
    let mut left = count;
    before.iter().position(|row| {
        let is_message = is_message(row);
        if left == 0 {
            return is_message;
        }
        left -= u64::from(is_message);
        false
    })
}
