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
use crate::base::ids::{GenerationId, Seq};
use crate::project::rebuild::Projected;
use crate::{Error, Result};

/// The name of a missing entry in errors.
pub(super) const ENTRY: &str = "entry of the session";

/// The sessions with entries that are not projected yet.
#[derive(Debug, Default)]
pub(super) struct Unprojected {
    states: HashMap<GenerationId, AppendState>,
}

/// The state of a session after its last append.
#[derive(Debug)]
pub(super) struct AppendState {
    /// The length of the session in bytes.
    cursor: u64,
    /// The last record before the cached entries. Everything up to it is projected.
    since: i64,
    leaf: Option<Node>,
    nodes: HashMap<String, Node>,
}

impl Unprojected {
    /// Drops all cached state.
    pub(super) fn drop_cached(&mut self) {
        self.states.clear();
    }

    /// Returns whether the cache is complete for a session of this length.
    pub(super) fn is_complete_for(
        &self,
        session: &NativeSession,
        cursor: u64,
        projected: Projected,
    ) -> bool {
        let state = self.states.get(&session.generation);
        state.is_some_and(|state| state.cursor == cursor && state.since <= projected.to)
    }

    /// Returns the state of a session of this length. Unless the cache is complete, the whole
    /// session must be projected.
    pub(super) fn state(
        &mut self,
        conn: &Connection,
        session: &NativeSession,
        cursor: u64,
        projected: Projected,
    ) -> Result<&mut AppendState> {
        if !self.is_complete_for(session, cursor, projected) {
            self.states.remove(&session.generation);
        }
        let state = match self.states.entry(session.generation) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let leaf = tree::leaf(conn, session.row)?;
                new.insert(AppendState { cursor, since: projected.to, leaf, nodes: HashMap::new() })
            }
        };
        if projected.lag() == 0 {
            // The whole session is projected now.
            state.nodes.clear();
            state.since = projected.to;
        }
        Ok(state)
    }

    /// Returns the state of a session that was loaded in the same transaction.
    pub(super) fn loaded(&mut self, session: &NativeSession) -> Result<&mut AppendState> {
        self.states.get_mut(&session.generation).ok_or(Error::Vanished)
    }
}

/// A state to which a session can go back.
pub(super) struct Mark {
    cursor: u64,
    leaf: Option<Node>,
}

impl AppendState {
    /// Returns the state now.
    pub(super) fn mark(&self) -> Mark {
        Mark { cursor: self.cursor, leaf: self.leaf.clone() }
    }

    /// Goes back to an earlier state: the entries from `first` on were not stored.
    pub(super) fn undo(&mut self, mark: Mark, first: Seq) {
        self.cursor = mark.cursor;
        self.leaf = mark.leaf;
        self.nodes.retain(|_, node| node.entry.seq().is_none_or(|seq| seq.0 < first.0));
    }

    /// Adds an appended entry.
    pub(super) fn advance(
        &mut self,
        conn: &Connection,
        session: &NativeSession,
        new: AppendedEntry,
    ) -> Result<()> {
        self.cursor = new.cursor;
        match new.leaf_target {
            Some(None) => self.leaf = None,
            Some(Some(target)) => {
                let view = View { conn, session, state: Some(self) };
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
pub(super) struct AppendedEntry {
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
    pub(super) state: Option<&'a AppendState>,
}

impl<'a> View<'a> {
    /// Returns the view of a session that is fully projected.
    pub(super) fn projected(conn: &'a Connection, session: &'a NativeSession) -> View<'a> {
        View { conn, session, state: None }
    }

    /// Returns the session's leaf.
    pub(super) fn leaf(&self) -> Result<Option<Node>> {
        match self.state {
            Some(state) => Ok(state.leaf.clone()),
            None => tree::leaf(self.conn, self.session.row),
        }
    }

    /// Returns the entry with that id.
    pub(super) fn find(&self, id: &str) -> Result<Option<Node>> {
        match self.state.and_then(|state| state.nodes.get(id)) {
            Some(node) => Ok(Some(node.clone())),
            None => tree::find(self.conn, self.session.row, id),
        }
    }

    /// Returns whether the session has an entry with that id.
    pub(super) fn has(&self, id: &str) -> Result<bool> {
        let is_unprojected = self.state.is_some_and(|state| state.nodes.contains_key(id));
        Ok(is_unprojected || tree::has(self.conn, self.session.row, id)?)
    }

    /// Returns the entry with that id. Fails if it cannot be a parent.
    pub(super) fn find_on_path(&self, field: &str, id: &str) -> Result<Node> {
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
