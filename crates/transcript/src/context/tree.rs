//! The tree of a session, after a reader's rules have been applied.

use super::row::{Row, line_of};

/// The tree of a session: for each row the entry that it follows. A parent may come after its
/// child, and parents may form a cycle.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The parent of each row; always an entry.
    pub(crate) parents: Vec<Option<usize>>,
    /// True for each row that can be on a path. Other rows are skipped.
    pub(crate) is_entry: Vec<bool>,
    pub(crate) leaf: Option<usize>,
}

impl Tree {
    /// Returns the entry with this id. The last one wins, as in the agents' readers, and entries
    /// win over skipped rows.
    pub(crate) fn find(&self, rows: &[Row], id: &str) -> Option<usize> {
        let is_entry = |row: usize| self.is_entry.get(row).copied().unwrap_or_default();
        let mut found = None;
        for (index, row) in rows.iter().enumerate() {
            let is_named = row.id.as_deref() == Some(id);
            if is_named && (is_entry(index) || !found.is_some_and(is_entry)) {
                found = Some(index);
            }
        }
        found.or_else(|| {
            let line = line_of(id)?;
            let index = rows.iter().position(|row| row.id.is_none() && row.line == line)?;
            is_entry(index).then_some(index)
        })
    }

    /// Returns the entries from the root to `leaf`. A cycle is cut where it closes.
    pub(crate) fn path(&self, leaf: Option<usize>) -> Vec<usize> {
        let mut seen = vec![false; self.parents.len()];
        let mut path = Vec::new();
        let mut at = leaf;
        while let Some(row) = at {
            match seen.get_mut(row) {
                Some(seen) if !*seen => *seen = true,
                _ => break,
            }
            if self.is_entry.get(row).copied().unwrap_or_default() {
                path.push(row);
            }
            at = self.parents.get(row).copied().flatten();
        }
        path.reverse();
        path
    }
}
