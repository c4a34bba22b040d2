//! Links between the entries in the files of a session. There are no cycles, and nothing recurses.

use std::collections::HashMap;

use super::super::tree::Tree;

/// The links between a session's rows.
pub(super) struct Links {
    /// The row that each row is written to follow.
    up: Vec<Option<usize>>,
    /// The number of children of each row that has any; being the leaf counts as one child.
    followed: HashMap<usize, usize>,
}

impl Links {
    /// Builds the links. A skipped row has no children, so that its position makes no difference.
    pub(super) fn of(tree: &Tree) -> Links {
        let mut up = tree.parents.clone();
        cut_cycles(&mut up, tree.leaf);
        let mut followed: HashMap<usize, usize> = HashMap::new();
        for row in up.iter().copied().flatten().chain(tree.leaf) {
            *followed.entry(row).or_default() += 1;
        }
        Links { up, followed }
    }

    /// Returns the row that a row follows.
    pub(super) fn up(&self, row: usize) -> Option<usize> {
        self.up.get(row).copied().flatten()
    }

    /// Returns the number of children of a row; being the leaf counts as one child.
    pub(super) fn followers(&self, row: usize) -> usize {
        self.followed.get(&row).copied().unwrap_or_default()
    }

    /// Returns, for each row, the number of starts on its path to the root, itself included.
    pub(super) fn segments(&self, starts: &[usize]) -> Vec<usize> {
        let mut segments: Vec<Option<usize>> = vec![None; self.up.len()];
        for start in 0..self.up.len() {
            let mut visited = Vec::new();
            let mut at = Some(start);
            let mut count = loop {
                let Some(row) = at else { break 0 };
                if let Some(known) = segments.get(row).copied().flatten() {
                    break known;
                }
                visited.push(row);
                at = self.up.get(row).copied().flatten();
            };
            for row in visited.into_iter().rev() {
                count += usize::from(starts.contains(&row));
                if let Some(segment) = segments.get_mut(row) {
                    *segment = Some(count);
                }
            }
        }
        segments.into_iter().map(Option::unwrap_or_default).collect()
    }
}

/// Cuts cycles. A cycle above the leaf is cut where the leaf's path ends.
fn cut_cycles(up: &mut [Option<usize>], leaf: Option<usize>) {
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut states = vec![0_u8; up.len()];
    for start in leaf.into_iter().chain(0..up.len()) {
        let mut visited = Vec::new();
        let mut at = start;
        while let Some(state) = states.get_mut(at).filter(|state| **state == 0) {
            *state = OPEN;
            visited.push(at);
            let Some(next) = up.get(at).copied().flatten() else { break };
            if states.get(next) == Some(&OPEN)
                && let Some(link) = up.get_mut(at)
            {
                *link = None;
                break;
            }
            at = next;
        }
        for row in visited {
            if let Some(state) = states.get_mut(row) {
                *state = DONE;
            }
        }
    }
}
