//! The entries that this store has appended but not projected yet. With them, an append knows the
//! leaf and the taken ids without waiting for the projection.
//!
//! Never holds entries of another process: if one appends to the same session, the session's length
//! changes, and the cached state is dropped.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::Connection;

use super::sessions::NativeSession;
use super::tree::{self, Node};
use crate::base::ids::GenerationId;
use crate::project::rebuild::Projected;
use crate::{Error, Result};

/// The name of a missing entry in errors.
pub(super) const ENTRY: &str = "entry of the session";

/// The sessions with entries that are not projected yet.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    tips: HashMap<GenerationId, Tip>,
}

/// The state of a session after its last append.
#[derive(Debug)]
pub(super) struct Tip {
    /// The length of the session in bytes.
    cursor: u64,
    /// The last record before the cached entries. Everything up to it is projected.
    since: i64,
    leaf: Option<Node>,
    nodes: HashMap<String, Node>,
}

impl Ahead {
    /// Drops all cached state.
    pub(super) fn let_go(&mut self) {
        self.tips.clear();
    }

    /// Returns whether the cache is complete for a session of this length.
    pub(super) fn knows(&self, session: &NativeSession, cursor: u64, projected: Projected) -> bool {
        let tip = self.tips.get(&session.generation);
        tip.is_some_and(|tip| tip.cursor == cursor && tip.since <= projected.to)
    }

    /// Returns the state of a session of this length. Unless the cache is complete, the whole
    /// session must be projected.
    pub(super) fn tip(
        &mut self,
        conn: &Connection,
        session: &NativeSession,
        cursor: u64,
        projected: Projected,
    ) -> Result<&mut Tip> {
        if !self.knows(session, cursor, projected) {
            self.tips.remove(&session.generation);
        }
        let tip = match self.tips.entry(session.generation) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let leaf = tree::leaf(conn, session.row)?;
                new.insert(Tip { cursor, since: projected.to, leaf, nodes: HashMap::new() })
            }
        };
        if projected.lag() == 0 {
            // The whole session is projected now.
            tip.nodes.clear();
            tip.since = projected.to;
        }
        Ok(tip)
    }
}

impl Tip {
    /// Adds an appended entry.
    pub(super) fn advance(
        &mut self,
        conn: &Connection,
        session: &NativeSession,
        new: Grown,
    ) -> Result<()> {
        self.cursor = new.cursor;
        match new.leaf_target {
            Some(None) => self.leaf = None,
            Some(Some(target)) => {
                let view = View { conn, session, tip: Some(self) };
                self.leaf = view.find(&target)?;
            }
            None if new.node.is_on_paths() => self.leaf = Some(new.node.clone()),
            None => {}
        }
        self.nodes.insert(new.node.id.clone(), new.node);
        Ok(())
    }

    pub(super) fn leaf_id(&self) -> Option<String> {
        self.leaf.as_ref().map(|leaf| leaf.id.clone())
    }
}

/// An appended entry with its effects.
pub(super) struct Grown {
    pub(super) node: Node,
    /// The new leaf, if the entry moves the leaf.
    pub(super) leaf_target: Option<Option<String>>,
    /// The length of the session after the entry, in bytes.
    pub(super) cursor: u64,
}

/// A session as an append sees it: its projection plus the entries that are not projected yet.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) conn: &'a Connection,
    pub(super) session: &'a NativeSession,
    /// The entries that are not projected yet; `None` if all are projected.
    pub(super) tip: Option<&'a Tip>,
}

impl<'a> View<'a> {
    /// Returns the view of a session that is fully projected.
    pub(super) fn settled(conn: &'a Connection, session: &'a NativeSession) -> View<'a> {
        View { conn, session, tip: None }
    }

    /// Returns the session's leaf.
    pub(super) fn leaf(&self) -> Result<Option<Node>> {
        match self.tip {
            Some(tip) => Ok(tip.leaf.clone()),
            None => tree::leaf(self.conn, self.session.row),
        }
    }

    /// Returns the entry with that id.
    pub(super) fn find(&self, id: &str) -> Result<Option<Node>> {
        match self.tip.and_then(|tip| tip.nodes.get(id)) {
            Some(node) => Ok(Some(node.clone())),
            None => tree::find(self.conn, self.session.row, id),
        }
    }

    /// Returns whether the session has an entry with that id.
    pub(super) fn has(&self, id: &str) -> Result<bool> {
        let is_ahead = self.tip.is_some_and(|tip| tip.nodes.contains_key(id));
        Ok(is_ahead || tree::has(self.conn, self.session.row, id)?)
    }

    /// Returns the entry with that id. Fails if it cannot be a parent.
    pub(super) fn known(&self, field: &str, id: &str) -> Result<Node> {
        match self.find(id)? {
            Some(node) if node.is_on_paths() => Ok(node),
            Some(_) => Err(Error::refused(format!(
                "`{field}`: {} is not part of the conversation",
                id.escape_debug()
            ))),
            None => Err(Error::NoMatch { what: ENTRY, name: id.to_owned() }),
        }
    }
}
