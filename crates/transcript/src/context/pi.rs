//! Builds the tree by pi's rules.

use std::collections::HashMap;

use super::row::{self, Kind, Parent, Row};
use super::tree::Tree;

pub(super) fn tree(rows: &[Row]) -> Tree {
    let is_linear = row::version(rows).is_linear();
    let is_entry: Vec<bool> =
        rows.iter().map(|row| !matches!(row.kind, Kind::Header(_) | Kind::Nothing)).collect();
    let entries = || (0..rows.len()).filter(|row| is_entry.get(*row) == Some(&true));
    let mut by_id = HashMap::new();
    for index in entries() {
        if let Some(Row { id: Some(id), .. }) = rows.get(index) {
            by_id.insert(&**id, index);
        }
    }
    let mut parents = vec![None; rows.len()];
    let mut before = None;
    for index in entries() {
        let (Some(row), Some(parent)) = (rows.get(index), parents.get_mut(index)) else { continue };
        *parent = match &row.parent {
            _ if is_linear => before,
            Parent::Id(id) => by_id.get(&**id).copied(),
            // pi does not know bare lines; a message without an envelope follows the line before
            // it.
            Parent::Implicit if matches!(row.kind, Kind::Message { is_bare: true, .. }) => before,
            Parent::Implicit | Parent::Root => None,
        };
        before = Some(index);
    }
    Tree { parents, is_entry, leaf: before }
}
