//! Ids of entries in the files of a session: unchanged where possible, and all different.

use std::collections::{HashMap, HashSet};

use super::super::row::{Kind, Parent, Row};
use super::super::tree::Tree;

/// The ids of a session's rows.
pub(super) struct Ids<'s> {
    /// The id of each row in the files; `None` for rows that are left out.
    by_row: Vec<Option<String>>,
    /// The ids that rows have themselves.
    known: HashSet<&'s str>,
    /// Ids that are used or referred to.
    taken: HashSet<String>,
}

impl<'s> Ids<'s> {
    /// Gives every row a different id. Of several rows with one id, the one that readers find
    /// keeps it.
    pub(super) fn of(rows: &'s [Row], tree: &Tree) -> Ids<'s> {
        let is_entry = |row: usize| tree.is_entry.get(row).copied().unwrap_or_default();
        let known: HashSet<&str> = rows.iter().filter_map(|row| row.id.as_deref()).collect();
        let parents = rows.iter().filter_map(|row| match &row.parent {
            Parent::Id(id) => Some(&**id),
            _ => None,
        });
        let taken = known.iter().copied().chain(parents).map(str::to_owned).collect();
        let mut ids = Ids { by_row: Vec::with_capacity(rows.len()), known, taken };
        let mut owners: HashMap<&str, usize> = HashMap::new();
        for (index, row) in rows.iter().enumerate() {
            if let Some(id) = row.id.as_deref()
                && (is_entry(index) || !owners.get(id).is_some_and(|row| is_entry(*row)))
            {
                owners.insert(id, index);
            }
        }
        for (index, row) in rows.iter().enumerate() {
            let is_linked = !matches!(row.parent, Parent::Implicit) && row.id.is_some();
            let is_written = is_entry(index) || matches!(row.kind, Kind::Unknown) && is_linked;
            let id = is_written.then(|| match row.id.as_deref() {
                Some(id) if owners.get(id) == Some(&index) => id.to_owned(),
                _ => ids.fresh(row.line),
            });
            ids.by_row.push(id);
        }
        ids
    }

    /// Returns the id of a row in the files, if it is in one.
    pub(super) fn get(&self, row: usize) -> Option<&str> {
        self.by_row.get(row)?.as_deref()
    }

    /// Returns whether a row has this id itself.
    pub(super) fn is_known(&self, id: &str) -> bool {
        self.known.contains(id)
    }

    /// Returns an id that no entry has. It is derived from a line number, so that every export
    /// makes the same ids.
    pub(super) fn fresh(&mut self, line: usize) -> String {
        let mut number = line as u64;
        loop {
            let id = format!("{number:08x}");
            if self.taken.insert(id.clone()) {
                return id;
            }
            number = number.wrapping_add(0x1000_0000);
        }
    }
}
