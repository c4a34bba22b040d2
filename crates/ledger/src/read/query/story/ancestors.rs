//! Finds the nearest ancestor that is shown at or before the last text.
//!
//! Thousands of parents may follow their children in a file, so each entry is read once. Its node
//! stores the nearest ancestor that is shown earlier, and a jump to a more distant one. A search
//! then takes few steps on a path of any length. The last text never moves back, so nodes before it
//! are dropped.

use foldhash::{HashMap, HashMapExt};
use rusqlite::{Connection, OptionalExtension};

use super::plan::Plan;
use crate::Result;
use crate::base::ids::EntryId;

/// The position of an entry in the story, and its id. Entries of one line have the same position.
type StoryPosition = (u64, EntryId);

/// The result of a search through the ancestors of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NearestShown {
    /// The nearest ancestor shown at or before the last text.
    Shown(EntryId),
    /// The root. No ancestor is shown early enough.
    Root(EntryId),
    /// Unknown: a parent is missing, or the parents form a cycle.
    Unknown,
}

/// The ancestors of entries, read as far as they are needed.
pub(super) struct Ancestors<'c> {
    conn: &'c Connection,
    nodes: HashMap<EntryId, Node>,
    /// The newest version of each entry that has newer versions.
    newest: HashMap<EntryId, EntryId>,
    /// The number of nodes at which those that are no longer needed are dropped.
    max_nodes: usize,
}

/// An entry whose ancestors were read, as far as they were needed.
#[derive(Debug, Clone, Copy)]
struct Node {
    position: StoryPosition,
    /// The nearest ancestor that is shown earlier.
    earlier: Option<StoryPosition>,
    /// A more distant entry in the chain of `earlier`.
    jump: Option<StoryPosition>,
    /// The length of the chain of `earlier`.
    depth: u32,
    /// The result if no ancestor is shown early enough.
    end: NearestShown,
    /// True while its ancestors are being read.
    is_open: bool,
}

/// The number of nodes below which none is dropped. It keeps the cost of dropping small.
const MIN_NODES_TO_DROP: usize = 1 << 12;

/// The largest number of versions that are followed. It ends a cycle of versions.
const MAX_VERSIONS: usize = 1 << 20;

impl<'c> Ancestors<'c> {
    pub(super) fn new(conn: &'c Connection) -> Ancestors<'c> {
        Ancestors {
            conn,
            nodes: HashMap::new(),
            newest: HashMap::new(),
            max_nodes: MIN_NODES_TO_DROP,
        }
    }

    /// Returns the nearest ancestor of an entry that is shown at or before `last`. From call to
    /// call, `last` must not move back.
    pub(super) fn nearest_shown(
        &mut self,
        plan: &Plan,
        from: EntryId,
        last: EntryId,
    ) -> Result<NearestShown> {
        let last = (plan.position(last), last);
        if self.nodes.len() >= self.max_nodes {
            self.nodes.retain(|_, node| node.position > last);
            self.max_nodes = MIN_NODES_TO_DROP.max(2 * self.nodes.len());
        }
        self.walk(plan, from, last)?;
        let mut at = self.nodes.get(&from);
        while let Some(node) = at {
            at = match (node.jump, node.earlier) {
                (Some(jump), _) if jump > last => self.nodes.get(&jump.1),
                (_, Some(earlier)) if earlier > last => self.nodes.get(&earlier.1),
                (_, Some((_, shown))) => return Ok(NearestShown::Shown(shown)),
                (_, None) => return Ok(node.end),
            };
        }
        Ok(NearestShown::Unknown)
    }

    /// Reads the ancestors of an entry, up to one that is known or early enough.
    fn walk(&mut self, plan: &Plan, from: EntryId, last: StoryPosition) -> Result<()> {
        let mut walked = Vec::new();
        let mut at = from;
        // The first ancestor that need not be read, and the result if none is early enough.
        let (mut above, end) = loop {
            match self.nodes.get(&at) {
                Some(node) if node.is_open => break (None, NearestShown::Unknown),
                Some(node) => break (Some(*node), node.end),
                None => {}
            }
            let position = (plan.position(at), at);
            let mut node = Node {
                position,
                earlier: None,
                jump: None,
                depth: 0,
                end: NearestShown::Unknown,
                is_open: false,
            };
            if position <= last {
                break (Some(node), NearestShown::Unknown);
            }
            node.is_open = true;
            self.nodes.insert(at, node);
            walked.push(node);
            match self.parent_of(at)? {
                (Some(up), _) => at = up,
                // The position of a missing parent is unknown.
                (None, true) => break (None, NearestShown::Unknown),
                (None, false) => break (None, NearestShown::Root(at)),
            }
        };
        while let Some(node) = walked.pop() {
            let earlier = above.and_then(|above| self.before(above, node.position));
            let (jump, depth) = earlier.map_or((None, 0), |earlier| self.jump(earlier));
            let node = Node {
                earlier: earlier.map(|earlier| earlier.position),
                jump,
                depth,
                end,
                is_open: false,
                ..node
            };
            self.nodes.insert(node.position.1, node);
            above = Some(node);
        }
        Ok(())
    }

    /// Returns the nearest of a node and its ancestors that is shown before `position`.
    fn before(&self, from: Node, position: StoryPosition) -> Option<Node> {
        let mut at = from;
        while at.position >= position {
            let next = at.jump.filter(|jump| *jump >= position).or(at.earlier)?;
            at = self.node(next);
        }
        Some(at)
    }

    /// Returns a node. One that was dropped is before every position that is searched for.
    fn node(&self, position: StoryPosition) -> Node {
        let dropped = Node {
            position,
            earlier: None,
            jump: None,
            depth: 0,
            end: NearestShown::Unknown,
            is_open: false,
        };
        self.nodes.get(&position.1).copied().unwrap_or(dropped)
    }

    /// Returns the jump and the depth of a node below `above`. If the last two jumps have equal
    /// lengths, the new jump spans both, as in a skip list.
    fn jump(&self, above: Node) -> (Option<StoryPosition>, u32) {
        let depth = above.depth + 1;
        let far = above.jump.map(|jump| self.node(jump));
        let further = far.and_then(|far| far.jump).map(|jump| self.node(jump));
        match (far, further) {
            (Some(far), Some(further))
                if above.depth.abs_diff(far.depth) == far.depth.abs_diff(further.depth) =>
            {
                (Some(further.position), depth)
            }
            _ => (Some(above.position), depth),
        }
    }

    /// Returns the newest version of an entry's parent, and whether the entry names a parent that
    /// is missing.
    fn parent_of(&mut self, entry: EntryId) -> Result<(Option<EntryId>, bool)> {
        let found: Option<(Option<EntryId>, bool, Option<EntryId>)> = self
            .conn
            .prepare_cached(
                "SELECT e.parent, e.parent_uuid IS NOT NULL, p.superseded_by
                   FROM entry_rows e LEFT JOIN entry_rows p ON p.id = e.parent
                  WHERE e.id = ?1",
            )?
            .query_row([entry], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        Ok(match found {
            None => (None, false),
            Some((parent, is_missing, None)) => (parent, is_missing),
            Some((_, is_missing, Some(newer))) => (Some(self.newest(newer)?), is_missing),
        })
    }

    /// Returns the newest version of an entry.
    fn newest(&mut self, entry: EntryId) -> Result<EntryId> {
        let mut newer =
            self.conn.prepare_cached("SELECT superseded_by FROM entry_rows WHERE id = ?1")?;
        let mut walked = Vec::new();
        let mut at = entry;
        while walked.len() < MAX_VERSIONS {
            let next = match self.newest.get(&at) {
                Some(newest) => Some(*newest),
                None => newer.query_row([at], |row| row.get(0)).optional()?.flatten(),
            };
            let Some(next) = next else { break };
            walked.push(at);
            at = next;
        }
        self.newest.extend(walked.into_iter().map(|older| (older, at)));
        Ok(at)
    }
}
