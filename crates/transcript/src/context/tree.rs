//! Who follows whom, once a reader's rules have been applied.

use super::row::{Row, line_of};

/// The tree of a session: for each row the entry that it follows. Parents may stand behind their
/// children, and may lead in circles.
#[derive(Debug)]
pub(super) struct Tree {
    /// By row; always an entry.
    pub(super) parents: Vec<Option<usize>>,
    /// By row: it stands on paths. Other rows are seen through.
    pub(super) is_entry: Vec<bool>,
    pub(super) leaf: Option<usize>,
}

impl Tree {
    /// The entry of that id. The last one counts, as in the readers, and entries come before rows
    /// that are only seen through.
    pub(super) fn find(&self, rows: &[Row], id: &str) -> Option<usize> {
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

    /// The entries from the root to `leaf`. A circle ends where it closes.
    pub(super) fn path(&self, leaf: Option<usize>) -> Vec<usize> {
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
