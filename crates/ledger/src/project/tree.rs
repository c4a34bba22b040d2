//! Which entry hangs off which. Built leniently: a missing parent leaves a gap that closes when the
//! parent comes, a cycle is cut at its earliest entry, and nothing recurses.

use foldhash::HashMap;
use quipu_transcript::problem::ProblemKind;
use rusqlite::{Connection, OptionalExtension};

use super::rows;
use crate::Result;
use crate::base::ids::{EntryId, PackedId, SessionRow};

/// What is known in memory of a session's entries.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    entries: HashMap<PackedId, Known>,
    /// Children that wait for a parent of that id.
    waiting: HashMap<PackedId, Vec<EntryId>>,
    /// Shortcuts towards the root, for telling cycles.
    towards_root: HashMap<EntryId, EntryId>,
    turns: HashMap<EntryId, Option<EntryId>>,
}

/// An entry that others may refer to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) id: EntryId,
    pub(crate) content: i64,
    pub(crate) turn: Option<EntryId>,
}

/// What became of children that waited for their parent.
#[derive(Debug, Default)]
pub(crate) struct Adopted {
    /// Those that would have closed a cycle; they stay roots.
    pub(crate) cut: Vec<EntryId>,
    /// Those whose parent was noted as missing.
    pub(crate) mended: Vec<EntryId>,
}

impl Tree {
    /// The newest entry of that id in the session. `is_complete`: what is not in memory is nowhere.
    pub(crate) fn find(
        &mut self,
        conn: &Connection,
        session: SessionRow,
        is_complete: bool,
        uuid: &PackedId,
    ) -> Result<Option<Known>> {
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
                Ok(Known { id: row.get(0)?, content: row.get(1)?, turn: row.get(2)? })
            })
            .optional()?;
        if let Some(known) = known {
            self.entries.insert(uuid.clone(), known);
        }
        Ok(known)
    }

    /// How many entries are in memory.
    pub(crate) fn len(&self) -> usize {
        self.turns.len()
    }

    /// Makes an entry known under its id.
    pub(crate) fn insert(&mut self, uuid: &PackedId, known: Known) {
        self.entries.insert(uuid.clone(), known);
    }

    /// Remembers which turn an entry belongs to.
    pub(crate) fn set_turn(&mut self, entry: EntryId, turn: Option<EntryId>) {
        self.turns.insert(entry, turn);
    }

    /// The turn that an entry belongs to.
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

    /// `child` waits for a parent of that id.
    pub(crate) fn wait(&mut self, uuid: &PackedId, child: EntryId) {
        self.waiting.entry(uuid.clone()).or_default().push(child);
    }

    /// Hangs the children that waited for `parent` off it.
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
                adopted.mended.push(child);
            }
            if is_cycle {
                adopted.cut.push(child);
            } else {
                self.towards_root.insert(child, parent);
            }
        }
        Ok(adopted)
    }

    /// The root above an entry. Shortcuts what it walks, so that all walks together stay linear.
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
