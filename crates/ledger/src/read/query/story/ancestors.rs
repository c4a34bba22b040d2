//! Where the way up from an entry first meets what was told before the last words.
//!
//! Parents may stand behind their children in the file, thousands of them in a row, and whoever
//! walks up from each child anew walks for ever. So every entry is read once, and remembers the
//! nearest one above it that is told earlier than itself, and one further up among those: where a
//! way leads is then found in a few jumps, however long it is. The last words only move on, so what
//! is told before them is forgotten again; in a file that has its parents first, hardly anything is
//! remembered.

use foldhash::{HashMap, HashMapExt};
use rusqlite::{Connection, OptionalExtension};

use super::plan::Plan;
use crate::Result;
use crate::base::ids::EntryId;

/// Where an entry is told. Entries of one line have one position; their numbers tell them apart.
type Place = (u64, EntryId);

/// What the way up from an entry leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// An entry that is told no later than the last words.
    Told(EntryId),
    /// No such entry, but this one that hangs off nothing.
    Root(EntryId),
    /// A parent that is missing, or a circle: nobody knows.
    Nowhere,
}

pub(super) struct Ways<'c> {
    conn: &'c Connection,
    nodes: HashMap<EntryId, Node>,
    /// The newest version of an entry that has newer ones.
    newest: HashMap<EntryId, EntryId>,
    /// When there are so many nodes, those that nobody needs any more are dropped.
    most: usize,
}

/// An entry whose way up is known, as far as it was of interest.
#[derive(Debug, Clone, Copy)]
struct Node {
    place: Place,
    /// The nearest one above that is told earlier.
    earlier: Option<Place>,
    /// One of those that are reached by going on like that.
    jump: Option<Place>,
    /// How many of those there are.
    depth: u32,
    /// What the way ends in where nothing on it is told early enough.
    end: Met,
    /// Its way is being walked.
    is_open: bool,
}

/// So many nodes are always kept.
const FEW: usize = 1 << 12;

/// Nobody follows more versions than these.
const FURTHEST: usize = 1 << 20;

impl<'c> Ways<'c> {
    pub(super) fn new(conn: &'c Connection) -> Ways<'c> {
        Ways { conn, nodes: HashMap::new(), newest: HashMap::new(), most: FEW }
    }

    /// What the way up from an entry leads to first that is told no later than `last`. Whoever asks
    /// again has gone on: `last` is never an earlier one than before.
    pub(super) fn meets(&mut self, plan: &Plan, from: EntryId, last: EntryId) -> Result<Met> {
        let last = (plan.position(last), last);
        if self.nodes.len() >= self.most {
            self.nodes.retain(|_, node| node.place > last);
            self.most = FEW.max(2 * self.nodes.len());
        }
        self.walk(plan, from, last)?;
        let mut at = self.nodes.get(&from);
        while let Some(node) = at {
            at = match (node.jump, node.earlier) {
                (Some(jump), _) if jump > last => self.nodes.get(&jump.1),
                (_, Some(earlier)) if earlier > last => self.nodes.get(&earlier.1),
                (_, Some((_, told))) => return Ok(Met::Told(told)),
                (_, None) => return Ok(node.end),
            };
        }
        Ok(Met::Nowhere)
    }

    /// Reads the way up from an entry, to where it is known or early enough.
    fn walk(&mut self, plan: &Plan, from: EntryId, last: Place) -> Result<()> {
        let mut walked = Vec::new();
        let mut at = from;
        // The last of the way that stands for itself, and what is above it.
        let (mut above, end) = loop {
            match self.nodes.get(&at) {
                Some(node) if node.is_open => break (None, Met::Nowhere),
                Some(node) => break (Some(*node), node.end),
                None => {}
            }
            let place = (plan.position(at), at);
            let mut node = Node {
                place,
                earlier: None,
                jump: None,
                depth: 0,
                end: Met::Nowhere,
                is_open: false,
            };
            if place <= last {
                break (Some(node), Met::Nowhere);
            }
            node.is_open = true;
            self.nodes.insert(at, node);
            walked.push(node);
            match self.above(at)? {
                (Some(up), _) => at = up,
                // A parent that is missing says nothing about where it was.
                (None, true) => break (None, Met::Nowhere),
                (None, false) => break (None, Met::Root(at)),
            }
        };
        while let Some(node) = walked.pop() {
            let earlier = above.and_then(|above| self.before(above, node.place));
            let (jump, depth) = earlier.map_or((None, 0), |earlier| self.jump(earlier));
            let node = Node {
                earlier: earlier.map(|earlier| earlier.place),
                jump,
                depth,
                end,
                is_open: false,
                ..node
            };
            self.nodes.insert(node.place.1, node);
            above = Some(node);
        }
        Ok(())
    }

    /// The first of a node and those above it that is told before a place.
    fn before(&self, from: Node, place: Place) -> Option<Node> {
        let mut at = from;
        while at.place >= place {
            let next = at.jump.filter(|jump| *jump >= place).or(at.earlier)?;
            at = self.node(next);
        }
        Some(at)
    }

    /// A node; one that was dropped is early enough for everybody.
    fn node(&self, place: Place) -> Node {
        let dropped =
            Node { place, earlier: None, jump: None, depth: 0, end: Met::Nowhere, is_open: false };
        self.nodes.get(&place.1).copied().unwrap_or(dropped)
    }

    /// How far a node jumps that has this one above it: twice as far as that one if it and the next
    /// jump equally far, so that jumps of all lengths are near everywhere.
    fn jump(&self, above: Node) -> (Option<Place>, u32) {
        let depth = above.depth + 1;
        let far = above.jump.map(|jump| self.node(jump));
        let further = far.and_then(|far| far.jump).map(|jump| self.node(jump));
        match (far, further) {
            (Some(far), Some(further))
                if above.depth.abs_diff(far.depth) == far.depth.abs_diff(further.depth) =>
            {
                (Some(further.place), depth)
            }
            _ => (Some(above.place), depth),
        }
    }

    /// The newest version of what stands above an entry, and whether it names one that is missing.
    fn above(&mut self, entry: EntryId) -> Result<(Option<EntryId>, bool)> {
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

    /// The newest version of an entry.
    fn newest(&mut self, entry: EntryId) -> Result<EntryId> {
        let mut newer =
            self.conn.prepare_cached("SELECT superseded_by FROM entry_rows WHERE id = ?1")?;
        let mut walked = Vec::new();
        let mut at = entry;
        while walked.len() < FURTHEST {
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
