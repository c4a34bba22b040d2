//! The parents of entries. A missing parent leaves a gap that closes when the parent comes, and a
//! cycle is cut at its earliest entry.
//!
//! Never recurses.

use foldhash::HashMap;
use quipu_transcript::problem::ProblemKind;
use rusqlite::{Connection, OptionalExtension};

use super::rows;
use crate::Result;
use crate::base::ids::{EntryId, PackedId, SessionRow};

/// The in-memory state of a session's entries.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    entries: HashMap<PackedId, KnownEntry>,
    /// The children that wait for a parent with that id.
    waiting: HashMap<PackedId, Vec<EntryId>>,
    /// Shortcuts towards the root, to detect cycles.
    towards_root: HashMap<EntryId, EntryId>,
    turns: HashMap<EntryId, Option<EntryId>>,
}

/// An entry that other entries can refer to by its id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownEntry {
    pub(crate) id: EntryId,
    pub(crate) content: i64,
    pub(crate) turn: Option<EntryId>,
}

/// The children that got their parent.
#[derive(Debug, Default)]
pub(crate) struct Adopted {
    /// Children that would have closed a cycle; they stay roots.
    pub(crate) cut: Vec<EntryId>,
    /// Children whose parent was reported as missing.
    pub(crate) repaired: Vec<EntryId>,
}

impl Tree {
    /// Returns the newest entry with that id in the session. If `is_complete`, only memory is
    /// searched.
    pub(crate) fn find(
        &mut self,
        conn: &Connection,
        session: SessionRow,
        is_complete: bool,
        uuid: &PackedId,
    ) -> Result<Option<KnownEntry>> {
        if let Some(known) = self.entries.get(uuid) {
            return Ok(Some(*known));
        }
        if is_complete {
            return Ok(None);
        }
        let known = conn
            .prepare_cached(
                "SELECT id, content, turn FROM entry_rows
                  WHERE session = ?1 AND uuid = ?2
                    AND superseded_by IS NULL
                  ORDER BY id DESC LIMIT 1",
            )?
            .query_row((session, uuid), |row| {
                Ok(KnownEntry { id: row.get(0)?, content: row.get(1)?, turn: row.get(2)? })
            })
            .optional()?;
        if let Some(known) = known {
            self.entries.insert(uuid.clone(), known);
        }
        Ok(known)
    }

    /// Returns the number of entries in memory.
    pub(crate) fn len(&self) -> usize {
        self.turns.len()
    }

    /// Stores an entry under its id.
    pub(crate) fn insert(&mut self, uuid: &PackedId, known: KnownEntry) {
        self.entries.insert(uuid.clone(), known);
    }

    /// Stores the turn of an entry.
    pub(crate) fn set_turn(&mut self, entry: EntryId, turn: Option<EntryId>) {
        self.turns.insert(entry, turn);
    }

    /// Returns the turn of an entry.
    pub(crate) fn turn_of(&mut self, conn: &Connection, entry: EntryId) -> Result<Option<EntryId>> {
        if let Some(turn) = self.turns.get(&entry) {
            return Ok(*turn);
        }
        let turn: Option<Option<EntryId>> = conn
            .prepare_cached("SELECT turn FROM entry_rows WHERE id = ?1")?
            .query_row([entry], |row| row.get(0))
            .optional()?;
        Ok(turn.flatten())
    }

    /// Stores that `child` waits for a parent with that id.
    pub(crate) fn wait(&mut self, uuid: &PackedId, child: EntryId) {
        self.waiting.entry(uuid.clone()).or_default().push(child);
    }

    /// Attaches the children that waited for `parent`, whose id is `uuid`.
    pub(crate) fn adopt(
        &mut self,
        conn: &Connection,
        session: SessionRow,
        is_complete: bool,
        uuid: &PackedId,
        parent: EntryId,
    ) -> Result<Adopted> {
        let in_memory = self.waiting.remove(uuid);
        let children: Vec<EntryId> = match (is_complete, in_memory) {
            (true, None) => return Ok(Adopted::default()),
            (true, Some(children)) => children,
            (false, _) => conn
                .prepare_cached(
                    "SELECT id FROM entry_rows WHERE session = ?1 AND parent_uuid = ?2 ORDER BY id",
                )?
                .query_map((session, uuid), |row| row.get(0))?
                .collect::<Result<_, _>>()?,
        };
        let mut adopted = Adopted::default();
        for child in children {
            let is_cycle = child == parent || self.root_of(conn, parent)? == child;
            let new_parent = (!is_cycle).then_some(parent);
            conn.prepare_cached(
                "UPDATE entry_rows SET parent = ?2, parent_uuid = NULL WHERE id = ?1",
            )?
            .execute((child, new_parent))?;
            if rows::forget_problem(conn, child, ProblemKind::MissingParent)? {
                adopted.repaired.push(child);
            }
            if is_cycle {
                adopted.cut.push(child);
            } else {
                self.towards_root.insert(child, parent);
            }
        }
        Ok(adopted)
    }

    /// Returns the root above an entry. Stores shortcuts for the visited entries, so that all calls
    /// together take linear time.
    fn root_of(&mut self, conn: &Connection, entry: EntryId) -> Result<EntryId> {
        let mut parent_of = conn.prepare_cached("SELECT parent FROM entry_rows WHERE id = ?1")?;
        let mut walked = Vec::new();
        let mut at = entry;
        loop {
            let up = match self.towards_root.get(&at) {
                Some(up) => Some(*up),
                None => parent_of.query_row([at], |row| row.get(0)).optional()?.flatten(),
            };
            match up {
                Some(up) => {
                    walked.push(at);
                    at = up;
                }
                None => break,
            }
        }
        for step in walked {
            self.towards_root.insert(step, at);
        }
        Ok(at)
    }
}
