//! The entries of a session as nodes, and the forks among them.
//!
//! A node may have several children without being a fork: parallel tool calls and bookkeeping
//! entries are children too. It is a fork if the conversation went back to it: at least two of its
//! subtrees have text, and one of them begins with a prompt or with the summary of an abandoned
//! branch, or two of them begin with different answers. A child that is not on a branch is an
//! *aside*: it is counted in the line of its parent.
//! `tree` makes the lines.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::{EntryId, PackedId, SessionRow, order_by_line};

/// The form of entries about the agent's queue of prompts.
const QUEUE_FORM: &str = "queue";

/// An entry of the tree.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) id: EntryId,
    pub(super) time: Option<i64>,
    pub(super) tool_calls: u64,
    pub(super) notable: Option<Notable>,
    pub(super) is_prompt: bool,
    pub(super) is_leaf: bool,
    /// True if it is on the path from the root to the leaf.
    pub(super) is_on_leaf_path: bool,
    /// True if it is not on a branch.
    pub(super) is_aside: bool,
    /// True if it is an answer with text.
    pub(super) is_text_answer: bool,
    /// True if it has a role and is not a relayed message of a sub-agent.
    is_message: bool,
    parent: Option<usize>,
    /// The indexes of its children, in order.
    children: Vec<usize>,
    /// The number of entries in its subtree.
    size: u64,
    /// True if it or a descendant is a prompt or has text.
    has_text: bool,
    /// True if the subtree begins with a prompt, or with the summary of an abandoned branch.
    /// Bookkeeping entries before it are skipped.
    begins_with_prompt: bool,
    /// The answer with which the subtree begins. Bookkeeping entries before it are skipped.
    begins_with: Option<Answer>,
}

/// An entry of an answer. One response may have several entries, and only its first one has usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    WithoutUsage,
    WithUsage,
}

/// A kind of entry that gets a separate line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notable {
    Compaction,
    BranchSummary,
    Reset,
}

impl Notable {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Notable::Compaction => "compaction",
            Notable::BranchSummary => "branch_summary",
            Notable::Reset => "reset",
        }
    }
}

/// The nodes of a session's tree. Entries about the queue are not nodes; the prompts that come out
/// of it are.
#[derive(Debug)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    roots: Vec<usize>,
    /// The ids of parents that are not in the session, by child.
    missing_parents: HashMap<EntryId, PackedId>,
    /// The number of entries of sub-agents in the session's own file.
    pub(super) sidechain_entries: u64,
}

impl Nodes {
    /// Reads the nodes of a session and links them.
    pub(super) fn load(conn: &Connection, session: SessionRow) -> Result<Nodes> {
        let mut nodes = Nodes {
            nodes: Vec::new(),
            roots: Vec::new(),
            missing_parents: HashMap::new(),
            sidechain_entries: 0,
        };
        let parents = nodes.read(conn, session)?;
        nodes.link(&parents);
        nodes.mark_path_to_leaf(conn, session)?;
        let order = nodes.sum_subtrees();
        nodes.mark_asides(order);
        Ok(nodes)
    }

    /// Returns the node at an index.
    pub(super) fn get(&self, index: usize) -> Option<&Node> {
        self.nodes.get(index)
    }

    /// Returns the recorded parent of an entry, if the session has no such entry.
    pub(super) fn missing_parent(&self, entry: EntryId) -> Option<String> {
        self.missing_parents.get(&entry).map(PackedId::unpack)
    }

    /// Returns the nodes without a parent, in order.
    pub(super) fn roots(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.roots.iter().copied()
    }

    /// Returns the first node of each branch after a node, the main branch last.
    pub(super) fn branches(&self, index: usize) -> Vec<usize> {
        let Some(node) = self.nodes.get(index) else { return Vec::new() };
        let Some(main) = self.main_child(node) else { return Vec::new() };
        if !self.is_fork(node) {
            return vec![main];
        }
        let with_text =
            node.children.iter().filter(|child| self.node_is(**child, |node| node.has_text));
        let mut branches: Vec<usize> = with_text.copied().filter(|child| *child != main).collect();
        branches.push(main);
        branches
    }

    /// Returns whether a descendant of a node has text.
    pub(super) fn has_later_text(&self, index: usize) -> bool {
        let children = self.nodes.get(index).into_iter().flat_map(|node| &node.children);
        children.into_iter().any(|child| self.node_is(*child, |node| node.has_text))
    }

    /// Returns the children of a node that are not on a branch, and all their descendants.
    pub(super) fn asides(&self, index: usize) -> Vec<usize> {
        let Some(node) = self.nodes.get(index) else { return Vec::new() };
        let is_aside = |child: &usize| self.node_is(*child, |node| node.is_aside);
        let mut to_visit: Vec<usize> = node.children.iter().copied().filter(is_aside).collect();
        let mut asides = Vec::new();
        while let Some(aside) = to_visit.pop() {
            asides.push(aside);
            to_visit.extend(self.nodes.get(aside).into_iter().flat_map(|node| &node.children));
        }
        asides.sort_unstable();
        asides
    }

    fn node_is(&self, index: usize, condition: impl Fn(&Node) -> bool) -> bool {
        self.nodes.get(index).is_some_and(condition)
    }

    fn is_fork(&self, node: &Node) -> bool {
        let with_text =
            || node.children.iter().filter(|child| self.node_is(**child, |node| node.has_text));
        with_text().nth(1).is_some()
            && (with_text().any(|child| self.node_is(*child, |node| node.begins_with_prompt))
                || self.has_several_answers(node))
    }

    /// Returns whether at least two children begin with different answers. Where a response has
    /// usage, an answer without usage is a further entry of the same response.
    fn has_several_answers(&self, node: &Node) -> bool {
        let children = node.children.iter().filter_map(|child| self.nodes.get(*child));
        let mut answers: Vec<Answer> =
            children.filter(|child| child.has_text).filter_map(|child| child.begins_with).collect();
        answers.sort_unstable();
        match answers.as_slice() {
            [.., first, second] => first == second,
            _ => false,
        }
    }

    /// Returns the child with which the main branch continues: the one on the path to the leaf,
    /// else one with text, and of several the one with the largest subtree. The main branch is not
    /// indented, so nested branches are indented only a few times.
    fn main_child(&self, node: &Node) -> Option<usize> {
        let children = node.children.iter().copied();
        children.max_by_key(|child| {
            let child = self.nodes.get(*child);
            child.map(|node| (node.is_on_leaf_path, node.has_text, node.size))
        })
    }

    /// Reads the entries as nodes without links. Returns the parent of each node.
    fn read(&mut self, conn: &Connection, session: SessionRow) -> Result<Vec<Option<EntryId>>> {
        let mut calls: HashMap<EntryId, u64> = HashMap::new();
        let mut statement = conn.prepare_cached(
            "SELECT entry, count(*) FROM tool_call_rows WHERE session = ?1 GROUP BY 1",
        )?;
        let mut rows = statement.query([session])?;
        while let Some(row) = rows.next()? {
            calls.insert(row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned());
        }
        let mut statement = conn.prepare_cached(concat!(
            "SELECT e.id, e.parent, e.time, e.superseded_by, e.turn,
                    k.role <> '' AND k.form <> 'relayed', k.form,
                    k.is_sidechain, EXISTS (SELECT 1 FROM message_texts m WHERE m.id = e.id),
                    EXISTS (SELECT 1 FROM compactions c WHERE c.id = e.id),
                    iif(e.parent IS NULL, e.parent_uuid, NULL),
                    iif(k.role = 'assistant' AND k.form <> 'relayed',
                        EXISTS (SELECT 1 FROM usage_rows u WHERE u.entry = e.id), NULL)
               FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind
              WHERE e.session = ?1 AND e.id > 0
                AND (e.uuid IS NOT NULL OR k.role <> '' OR NOT k.is_side)
                AND k.form NOT IN ('leaf', 'prompt')
                AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.id = e.id)
              ORDER BY ",
            order_by_line!("e.id", "")
        ))?;
        let mut rows = statement.query([session])?;
        let mut parents: Vec<Option<EntryId>> = Vec::new();
        let mut turns: Vec<Option<EntryId>> = Vec::new();
        let mut replaced_by: HashMap<EntryId, EntryId> = HashMap::new();
        while let Some(row) = rows.next()? {
            let id: EntryId = row.get(0)?;
            if let Some(version) = row.get(3)? {
                replaced_by.insert(id, version);
                continue;
            }
            if row.get(7)? {
                self.sidechain_entries += 1;
                continue;
            }
            let form: String = row.get(6)?;
            let has_text: bool = row.get(8)?;
            let parent: Option<EntryId> = row.get(1)?;
            if form == QUEUE_FORM {
                parent.and_then(|parent| replaced_by.insert(id, parent));
                continue;
            }
            let notable = match &*form {
                _ if row.get(9)? => Some(Notable::Compaction),
                "branch_summary" => Some(Notable::BranchSummary),
                "reset" => Some(Notable::Reset),
                _ => None,
            };
            if let Some(missing) = row.get(10)? {
                self.missing_parents.insert(id, missing);
            }
            let answer = row.get::<_, Option<bool>>(11)?.map(|has_usage| match has_usage {
                true => Answer::WithUsage,
                false => Answer::WithoutUsage,
            });
            parents.push(parent);
            turns.push(row.get(4)?);
            self.nodes.push(Node {
                id,
                time: row.get(2)?,
                tool_calls: calls.get(&id).copied().unwrap_or(0),
                notable,
                is_prompt: false,
                is_leaf: false,
                is_on_leaf_path: false,
                is_aside: false,
                is_text_answer: has_text && answer.is_some(),
                is_message: row.get(5)?,
                parent: None,
                children: Vec::new(),
                size: 1,
                has_text,
                begins_with_prompt: notable == Some(Notable::BranchSummary),
                begins_with: answer,
            });
        }
        // A child of an older version becomes a child of the newest. A child of a queue entry
        // becomes a child of that entry's parent.
        for parent in parents.iter_mut().flatten() {
            *parent = newest(&mut replaced_by, *parent);
        }
        // A turn has the id of the first version of its prompt.
        for (node, turn) in self.nodes.iter_mut().zip(turns) {
            if turn.map(|turn| newest(&mut replaced_by, turn)) == Some(node.id) {
                node.is_prompt = true;
                node.has_text = true;
                node.begins_with_prompt = true;
            }
        }
        Ok(parents)
    }

    /// Links parents and children. A cycle is cut at its first node, which becomes a root.
    fn link(&mut self, parents: &[Option<EntryId>]) {
        let index_of: HashMap<EntryId, usize> =
            self.nodes.iter().enumerate().map(|(index, node)| (node.id, index)).collect();
        for (index, parent) in parents.iter().enumerate() {
            let parent = parent.and_then(|parent| index_of.get(&parent)).copied();
            if let Some(node) = self.nodes.get_mut(index) {
                node.parent = parent;
            }
            match parent.and_then(|parent| self.nodes.get_mut(parent)) {
                Some(parent) => parent.children.push(index),
                None => self.roots.push(index),
            }
        }
        let mut is_seen = vec![false; self.nodes.len()];
        self.mark_reachable(self.roots.clone(), &mut is_seen);
        for index in 0..self.nodes.len() {
            if is_seen.get(index).copied() == Some(false) {
                // One cut in the cycle makes all its nodes reachable.
                let first = self.first_in_cycle(index);
                if let Some(parent) = self.nodes.get_mut(first).and_then(|node| node.parent.take())
                    && let Some(parent) = self.nodes.get_mut(parent)
                {
                    parent.children.retain(|child| *child != first);
                }
                self.roots.push(first);
                self.mark_reachable(vec![first], &mut is_seen);
            }
        }
        self.roots.sort_unstable();
    }

    /// Follows the parents of a node into a cycle. Returns the cycle's first node.
    fn first_in_cycle(&self, from: usize) -> usize {
        let parent_of = |index: usize| self.nodes.get(index).and_then(|node| node.parent);
        let mut visited = HashSet::new();
        let mut current = from;
        while visited.insert(current)
            && let Some(parent) = parent_of(current)
        {
            current = parent;
        }
        let mut first = current;
        let mut next_in_cycle = parent_of(current);
        while let Some(index) = next_in_cycle.filter(|index| *index != current) {
            first = first.min(index);
            next_in_cycle = parent_of(index);
        }
        first
    }

    /// Marks all nodes that can be reached from `to_visit`.
    fn mark_reachable(&self, mut to_visit: Vec<usize>, is_seen: &mut [bool]) {
        while let Some(index) = to_visit.pop() {
            if let Some(seen) = is_seen.get_mut(index)
                && !std::mem::replace(seen, true)
            {
                to_visit.extend(self.nodes.get(index).into_iter().flat_map(|node| &node.children));
            }
        }
    }

    /// Marks the leaf and the path to it.
    fn mark_path_to_leaf(&mut self, conn: &Connection, session: SessionRow) -> Result<()> {
        let leaf: Option<EntryId> =
            conn.query_row("SELECT leaf FROM sessions WHERE id = ?1", [session], |row| row.get(0))?;
        let mut at = self.nodes.iter().position(|node| Some(node.id) == leaf);
        if let Some(leaf) = at.and_then(|leaf| self.nodes.get_mut(leaf)) {
            leaf.is_leaf = true;
        }
        while let Some(node) = at.and_then(|index| self.nodes.get_mut(index))
            && !node.is_on_leaf_path
        {
            node.is_on_leaf_path = true;
            at = node.parent;
        }
        Ok(())
    }

    /// Computes for each subtree its size, whether it has text, and whether it begins with a
    /// prompt. Returns all nodes, each before its descendants.
    fn sum_subtrees(&mut self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut to_visit = self.roots.clone();
        while let Some(index) = to_visit.pop() {
            order.push(index);
            to_visit.extend(self.nodes.get(index).into_iter().flat_map(|node| &node.children));
        }
        for index in order.iter().rev() {
            let Some(node) = self.nodes.get(*index) else { continue };
            let (parent, size, has_text) = (node.parent, node.size, node.has_text);
            let (begins_with_prompt, begins_with) = (node.begins_with_prompt, node.begins_with);
            let Some(parent) = parent.and_then(|parent| self.nodes.get_mut(parent)) else {
                continue;
            };
            parent.size += size;
            parent.has_text |= has_text;
            // Bookkeeping before a prompt or an answer belongs to it.
            if !parent.is_message && parent.notable.is_none() {
                parent.begins_with_prompt |= begins_with_prompt;
                parent.begins_with = parent.begins_with.max(begins_with);
            }
        }
        order
    }

    /// Marks the nodes that are not on a branch. `order` has each node before its descendants, so
    /// that all descendants of an aside become asides.
    fn mark_asides(&mut self, order: Vec<usize>) {
        for index in order {
            let Some(node) = self.nodes.get(index) else { continue };
            let main = self.main_child(node);
            let is_fork = self.is_fork(node);
            let is_aside = |child: usize| {
                node.is_aside
                    || if is_fork {
                        !self.node_is(child, |node| node.has_text)
                    } else {
                        Some(child) != main
                    }
            };
            let asides: Vec<usize> =
                node.children.iter().copied().filter(|child| is_aside(*child)).collect();
            for aside in asides {
                if let Some(node) = self.nodes.get_mut(aside) {
                    node.is_aside = true;
                }
            }
        }
    }
}

/// Returns the entry that replaces this one in the end. Stores the result for every entry on the
/// way, so that long chains with many children take linear time.
fn newest(replaced_by: &mut HashMap<EntryId, EntryId>, entry: EntryId) -> EntryId {
    let mut visited = Vec::new();
    let mut current = entry;
    while visited.len() <= replaced_by.len()
        && let Some(next) = replaced_by.get(&current)
        && *next != current
    {
        visited.push(current);
        current = *next;
    }
    replaced_by.extend(visited.into_iter().map(|older| (older, current)));
    current
}
