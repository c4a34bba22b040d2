//! The entries of a session as nodes, and the forks among them.
//!
//! Parallel calls and bookkeeping entries also give a node several children. They are no forks. At
//! a fork the conversation went back: at least two children lead to text, and one of them begins
//! with a prompt or with the summary of an abandoned branch. Every other child next to the main
//! branch belongs to the run of its parent. Nothing here draws.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::{EntryId, PackedId, SessionRow, order_by_line};

/// The form of entries about texts that wait until the agent has time.
const QUEUE: &str = "queue";

/// An entry.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) id: EntryId,
    pub(super) time: Option<i64>,
    pub(super) tool_calls: u64,
    pub(super) notable: Option<Notable>,
    pub(super) is_prompt: bool,
    pub(super) is_leaf: bool,
    /// True on the path to the leaf.
    pub(super) is_current: bool,
    /// True next to the branch that is drawn.
    pub(super) is_aside: bool,
    has_role: bool,
    parent: Option<usize>,
    /// The indexes of its children, in order.
    children: Vec<usize>,
    /// The number of entries in its subtree.
    size: u64,
    is_voiced: bool,
    /// True if the subtree begins with a prompt, or with the summary of an abandoned branch.
    begins_with_prompt: bool,
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

/// All entries of a session that are nodes of its tree. Entries of a queue are not nodes; the
/// prompts that they become are.
#[derive(Debug)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    roots: Vec<usize>,
    /// The recorded parents of nodes, if the session has no such entry.
    missing: HashMap<EntryId, PackedId>,
    /// The number of sub-agents' entries in this session's file.
    pub(super) sidechain: u64,
}

impl Nodes {
    pub(super) fn load(conn: &Connection, session: SessionRow) -> Result<Nodes> {
        let mut nodes =
            Nodes { nodes: Vec::new(), roots: Vec::new(), missing: HashMap::new(), sidechain: 0 };
        let parents = nodes.read(conn, session)?;
        nodes.link(&parents);
        nodes.mark_path_to_leaf(conn, session)?;
        nodes.measure();
        Ok(nodes)
    }

    pub(super) fn get(&self, index: usize) -> Option<&Node> {
        self.nodes.get(index)
    }

    /// Returns the recorded parent of an entry, if the session has no such entry.
    pub(super) fn missing_parent(&self, entry: EntryId) -> Option<String> {
        self.missing.get(&entry).map(PackedId::unpack)
    }

    pub(super) fn roots(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.roots.iter().copied()
    }

    /// Returns the branches after a node, the main one last.
    pub(super) fn branches(&self, index: usize) -> Vec<usize> {
        let Some(node) = self.nodes.get(index) else { return Vec::new() };
        let Some(main) = self.main(node) else { return Vec::new() };
        if !self.is_fork(node) {
            return vec![main];
        }
        let voiced = node.children.iter().filter(|child| self.is(**child, |node| node.is_voiced));
        let mut branches: Vec<usize> = voiced.copied().filter(|child| *child != main).collect();
        branches.push(main);
        branches
    }

    /// Returns whether a descendant of a node has text.
    pub(super) fn has_later_text(&self, index: usize) -> bool {
        let children = self.nodes.get(index).into_iter().flat_map(|node| &node.children);
        children.into_iter().any(|child| self.is(*child, |node| node.is_voiced))
    }

    /// Returns all nodes next to the branches after a node.
    pub(super) fn asides(&self, index: usize) -> Vec<usize> {
        let Some(node) = self.nodes.get(index) else { return Vec::new() };
        let is_aside = |child: &usize| self.is(*child, |node| node.is_aside);
        let mut open: Vec<usize> = node.children.iter().copied().filter(is_aside).collect();
        let mut asides = Vec::new();
        while let Some(aside) = open.pop() {
            asides.push(aside);
            open.extend(self.nodes.get(aside).into_iter().flat_map(|node| &node.children));
        }
        asides.sort_unstable();
        asides
    }

    fn is(&self, index: usize, look: impl Fn(&Node) -> bool) -> bool {
        self.nodes.get(index).is_some_and(look)
    }

    fn is_fork(&self, node: &Node) -> bool {
        let voiced =
            || node.children.iter().filter(|child| self.is(**child, |node| node.is_voiced));
        voiced().nth(1).is_some()
            && voiced().any(|child| self.is(*child, |node| node.begins_with_prompt))
    }

    /// Returns the main child: the one on the path to the leaf, or the one with the largest
    /// subtree. So nested branches are indented only a few times.
    fn main(&self, node: &Node) -> Option<usize> {
        let children = node.children.iter().copied();
        children.max_by_key(|child| {
            let child = self.nodes.get(*child);
            child.map(|node| (node.is_current, node.is_voiced, node.size))
        })
    }

    /// Reads the rows. Returns the parent of each node, in the order of the nodes.
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
                    iif(e.parent IS NULL, e.parent_uuid, NULL)
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
        let mut newer: HashMap<EntryId, EntryId> = HashMap::new();
        while let Some(row) = rows.next()? {
            let id: EntryId = row.get(0)?;
            if let Some(version) = row.get(3)? {
                newer.insert(id, version);
                continue;
            }
            if row.get(7)? {
                self.sidechain += 1;
                continue;
            }
            let form: String = row.get(6)?;
            let has_words: bool = row.get(8)?;
            let parent: Option<EntryId> = row.get(1)?;
            if form == QUEUE {
                parent.and_then(|parent| newer.insert(id, parent));
                continue;
            }
            let notable = match &*form {
                _ if row.get(9)? => Some(Notable::Compaction),
                "branch_summary" => Some(Notable::BranchSummary),
                "reset" => Some(Notable::Reset),
                _ => None,
            };
            if let Some(missing) = row.get(10)? {
                self.missing.insert(id, missing);
            }
            let is_prompt = row.get::<_, Option<EntryId>>(4)? == Some(id);
            parents.push(parent);
            self.nodes.push(Node {
                id,
                time: row.get(2)?,
                tool_calls: calls.get(&id).copied().unwrap_or(0),
                notable,
                is_prompt,
                is_leaf: false,
                is_current: false,
                is_aside: false,
                has_role: row.get(5)?,
                parent: None,
                children: Vec::new(),
                size: 1,
                is_voiced: is_prompt || has_words,
                begins_with_prompt: is_prompt || notable == Some(Notable::BranchSummary),
            });
        }
        // A child of an older version becomes a child of the newest. A child of a queue entry
        // becomes a child of that entry's parent.
        for parent in parents.iter_mut().flatten() {
            *parent = newest(&mut newer, *parent);
        }
        Ok(parents)
    }

    /// Connects the nodes. A cycle is cut, and one of its nodes becomes a root.
    fn link(&mut self, parents: &[Option<EntryId>]) {
        let places: HashMap<EntryId, usize> =
            self.nodes.iter().enumerate().map(|(index, node)| (node.id, index)).collect();
        for (index, parent) in parents.iter().enumerate() {
            let parent = parent.and_then(|parent| places.get(&parent)).copied();
            if let Some(node) = self.nodes.get_mut(index) {
                node.parent = parent;
            }
            match parent.and_then(|parent| self.nodes.get_mut(parent)) {
                Some(parent) => parent.children.push(index),
                None => self.roots.push(index),
            }
        }
        let mut is_seen = vec![false; self.nodes.len()];
        self.reach(self.roots.clone(), &mut is_seen);
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
                self.reach(vec![first], &mut is_seen);
            }
        }
        self.roots.sort_unstable();
    }

    /// Returns the first node of the cycle that the ancestors of a node end in.
    fn first_in_cycle(&self, from: usize) -> usize {
        let above = |index: usize| self.nodes.get(index).and_then(|node| node.parent);
        let mut walked = HashSet::new();
        let mut at = from;
        while walked.insert(at)
            && let Some(up) = above(at)
        {
            at = up;
        }
        let mut first = at;
        let mut around = above(at);
        while let Some(index) = around.filter(|index| *index != at) {
            first = first.min(index);
            around = above(index);
        }
        first
    }

    fn reach(&self, mut open: Vec<usize>, is_seen: &mut [bool]) {
        while let Some(index) = open.pop() {
            if let Some(seen) = is_seen.get_mut(index)
                && !std::mem::replace(seen, true)
            {
                open.extend(self.nodes.get(index).into_iter().flat_map(|node| &node.children));
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
            && !node.is_current
        {
            node.is_current = true;
            at = node.parent;
        }
        Ok(())
    }

    /// Computes the size of each subtree, and marks the nodes next to the branches.
    fn measure(&mut self) {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut open = self.roots.clone();
        while let Some(index) = open.pop() {
            order.push(index);
            open.extend(self.nodes.get(index).into_iter().flat_map(|node| &node.children));
        }
        for index in order.iter().rev() {
            let Some(node) = self.nodes.get(*index) else { continue };
            let (parent, size, is_voiced, begins_with_prompt) =
                (node.parent, node.size, node.is_voiced, node.begins_with_prompt);
            let Some(parent) = parent.and_then(|parent| self.nodes.get_mut(parent)) else {
                continue;
            };
            parent.size += size;
            parent.is_voiced |= is_voiced;
            // Bookkeeping before a prompt belongs to the prompt.
            parent.begins_with_prompt |=
                begins_with_prompt && !parent.has_role && parent.notable.is_none();
        }
        // Goes from the roots down, so that all descendants of an aside are asides.
        for index in order {
            let Some(node) = self.nodes.get(index) else { continue };
            let main = self.main(node);
            let is_fork = self.is_fork(node);
            let is_aside = |child: usize| {
                node.is_aside
                    || if is_fork {
                        !self.is(child, |node| node.is_voiced)
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

/// Returns the entry that finally replaces this one. All steps to it are stored, since there may be
/// any number of versions with any number of children.
fn newest(newer: &mut HashMap<EntryId, EntryId>, entry: EntryId) -> EntryId {
    let mut walked = Vec::new();
    let mut at = entry;
    while walked.len() <= newer.len()
        && let Some(next) = newer.get(&at)
        && *next != at
    {
        walked.push(at);
        at = *next;
    }
    newer.extend(walked.into_iter().map(|older| (older, at)));
    at
}
