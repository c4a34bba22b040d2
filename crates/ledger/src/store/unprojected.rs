//! What this store has appended to sessions and what is not in the projection yet: where the next
//! entry hangs, and which ids are taken.
//!
//! The projection follows behind (`follow`), so an append need not wait for it. Whatever another
//! process appends to the same session moves its cursor, and then nothing of this counts any more.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::Connection;

use super::NativeSession;
use super::tree::{self, Node};
use crate::base::ids::GenerationId;
use crate::project::rebuild::Projected;
use crate::{Error, Result};

/// What is named and not there.
pub(super) const ENTRY: &str = "entry of the session";

/// Sessions that were appended to.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    tips: HashMap<GenerationId, Tip>,
}

/// A session as its last append has left it.
#[derive(Debug)]
pub(super) struct Tip {
    /// How many bytes it has.
    cursor: u64,
    /// Everything up to this record is in the projection, or here.
    since: i64,
    leaf: Option<Node>,
    nodes: HashMap<String, Node>,
}

impl Ahead {
    /// Nothing that was remembered is needed any more.
    pub(super) fn let_go(&mut self) {
        self.tips.clear();
    }

    /// Whether everything is known about a session that ends there.
    pub(super) fn knows(&self, session: &NativeSession, cursor: u64, projected: Projected) -> bool {
        let tip = self.tips.get(&session.generation);
        tip.is_some_and(|tip| tip.cursor == cursor && tip.since <= projected.to)
    }

    /// The session that ends there. Unless it is known, all of it has to be in the projection.
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
            // All of it is in the projection by now.
            tip.nodes.clear();
            tip.since = projected.to;
        }
        Ok(tip)
    }
}

impl Tip {
    /// Takes in an entry that was appended.
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

/// An entry that was appended.
pub(super) struct Grown {
    pub(super) node: Node,
    /// Where it moves the leaf, if it is one that does.
    pub(super) leaf_target: Option<Option<String>>,
    /// Where the session ends now.
    pub(super) cursor: u64,
}

/// A session as an append sees it: the projection, and what is ahead of it.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) conn: &'a Connection,
    pub(super) session: &'a NativeSession,
    /// `None` if everything is in the projection.
    pub(super) tip: Option<&'a Tip>,
}

impl<'a> View<'a> {
    /// A session of which everything is in the projection.
    pub(super) fn settled(conn: &'a Connection, session: &'a NativeSession) -> View<'a> {
        View { conn, session, tip: None }
    }

    /// The session's leaf.
    pub(super) fn leaf(&self) -> Result<Option<Node>> {
        match self.tip {
            Some(tip) => Ok(tip.leaf.clone()),
            None => tree::leaf(self.conn, self.session.row),
        }
    }

    /// The entry of that id.
    pub(super) fn find(&self, id: &str) -> Result<Option<Node>> {
        match self.tip.and_then(|tip| tip.nodes.get(id)) {
            Some(node) => Ok(Some(node.clone())),
            None => tree::find(self.conn, self.session.row, id),
        }
    }

    /// Whether an id is taken.
    pub(super) fn has(&self, id: &str) -> Result<bool> {
        let is_ahead = self.tip.is_some_and(|tip| tip.nodes.contains_key(id));
        Ok(is_ahead || tree::has(self.conn, self.session.row, id)?)
    }

    /// The entry of that id, which others may hang off.
    pub(super) fn known(&self, field: &str, id: &str) -> Result<Node> {
        match self.find(id)? {
            Some(node) if node.is_on_paths() => Ok(node),
            Some(_) => Err(Error::refused(format!(
                "`{field}`: {} stands beside the conversation",
                id.escape_debug()
            ))),
            None => Err(Error::NoMatch { what: ENTRY, name: id.to_owned() }),
        }
    }
}
