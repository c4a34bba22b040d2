//! Finds the places where a conversation went back, and the entry that it continued from.
//!
//! A prompt may descend from an entry before the last text. The entries in between are then
//! abandoned. Only a prompt, the summary of an abandoned branch, or another answer can go back:
//! parallel calls also fork the tree. Entries of one response never abandon each other. No entry is
//! hidden here.

use std::cell::RefCell;
use std::rc::Rc;

use foldhash::HashSet;
use quipu_transcript::entry::Role;
use quipu_transcript::story::{Folded, ItemKind, Piece, Rewind, StoryItem};
use rusqlite::{Connection, OptionalExtension};

use super::learn::{self, Learned};
use super::rows::Row;
use crate::Result;
use crate::base::ids::EntryId;
use crate::read::query::story::ancestors::{Met, Ways};

pub(super) struct Rewinds<'c> {
    conn: &'c Connection,
    ways: Ways<'c>,
    /// The last text: a prompt or an answer.
    spoken: Option<EntryId>,
    /// True if the history was compacted since the last text. A new root is then no rewind.
    is_fresh: bool,
    /// The current answer.
    answer: Answer,
    /// The answer of the last text, if that text is the agent's.
    spoken_in: Answer,
    /// True if an answer was shown since the last prompt.
    is_answered: bool,
}

/// The entries of one response. Copies of an answer share the set: a response may have any number
/// of entries, and each of them may be the last text.
#[derive(Clone, Default)]
struct Answer {
    response: Option<String>,
    entries: Rc<RefCell<HashSet<EntryId>>>,
}

impl Answer {
    fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    fn holds(&self, entry: EntryId) -> bool {
        self.entries.borrow().contains(&entry)
    }

    fn push(&self, entry: EntryId) {
        self.entries.borrow_mut().insert(entry);
    }
}

impl<'c> Rewinds<'c> {
    pub(super) fn new(conn: &'c Connection) -> Rewinds<'c> {
        Rewinds {
            conn,
            ways: Ways::new(conn),
            spoken: None,
            is_fresh: false,
            answer: Answer::default(),
            spoken_in: Answer::default(),
            is_answered: false,
        }
    }

    /// Records an item that is shown. Returns the place that it goes back to, if it does.
    pub(super) fn notice(
        &mut self,
        row: &Row,
        item: &StoryItem<'_>,
        response: Option<&str>,
        learned: &Learned<'_>,
    ) -> Result<Option<Rewind>> {
        if item.is_prompt && row.turn.is_none() {
            // A prompt of a list has no parent, so the abandoned entries are unknown.
            return Ok(None);
        }
        // An answer without a response id is a separate answer.
        let is_other_answer = is_answer(item)
            && !self.spoken_in.is_empty()
            && (response.is_none() || response != self.spoken_in.response.as_deref());
        let is_first_answer = item.role == Some(Role::Assistant)
            && self.spoken.is_some()
            && self.spoken_in.is_empty()
            && (!self.is_answered || is_answer(item));
        let is_beside = is_beside(row, item);
        let may_go_back = !is_beside
            && row.id.seq().is_some()
            && (item.is_prompt
                || is_other_answer
                || is_first_answer
                || matches!(item.kind, ItemKind::BranchSummary { .. }));
        let rewind = match self.spoken {
            Some(spoken) if may_go_back => self.way_back(row, spoken, learned)?,
            _ => None,
        };
        let rewind = rewind
            .filter(|(_, at)| !is_other_answer || at.is_some_and(|at| !self.spoken_in.holds(at)));
        let rewind = rewind.map(|(rewind, _)| Rewind {
            is_within_turn: is_other_answer && rewind.to_turn == item.turn,
            ..rewind
        });
        self.pass(row, item, response);
        if rewind.is_some() {
            self.spoken = Some(row.id);
            if is_first_answer {
                self.spoken_in = self.answer.clone();
            }
        }
        self.is_answered |= is_first_answer && !is_beside;
        Ok(rewind)
    }

    /// Records an item that is not shown.
    pub(super) fn pass(&mut self, row: &Row, item: &StoryItem<'_>, response: Option<&str>) {
        if is_beside(row, item) {
            return;
        }
        if matches!(item.kind, ItemKind::Compaction(_) | ItemKind::Reset { .. }) {
            self.is_fresh = true;
        }
        if item.role == Some(Role::Assistant) {
            if response.is_none() || response != self.answer.response.as_deref() {
                self.answer = Answer { response: response.map(str::to_owned), ..Answer::default() };
            }
            self.answer.push(row.id);
            if response.is_some() && response == self.spoken_in.response.as_deref() {
                self.spoken_in.push(row.id);
            }
        }
        if item.is_prompt || is_answer(item) {
            self.spoken = Some(row.id);
            self.spoken_in = if item.is_prompt { Answer::default() } else { self.answer.clone() };
            self.is_fresh = false;
            self.is_answered &= !item.is_prompt;
        }
    }

    /// Returns the place that an entry goes back to, and the entry that it continues from.
    fn way_back(
        &mut self,
        row: &Row,
        spoken: EntryId,
        learned: &Learned<'_>,
    ) -> Result<Option<(Rewind, Option<EntryId>)>> {
        match self.ways.meets(learned.plan, row.id, spoken)? {
            Met::Told(told) if told == spoken => Ok(None),
            Met::Told(told) => {
                let turn: Option<EntryId> = self
                    .conn
                    .prepare_cached("SELECT turn FROM entry_rows WHERE id = ?1")?
                    .query_row([told], |row| row.get(0))
                    .optional()?
                    .flatten();
                let rewind = Rewind {
                    to_turn: turn.and_then(|turn| learned.turn(turn)),
                    to: Some(learn::name_of(self.conn, told)?),
                    is_within_turn: false,
                };
                Ok(Some((rewind, Some(told))))
            }
            Met::Root(root) => {
                let is_new_start = !self.is_fresh && self.is_beginning(root)?;
                Ok(is_new_start.then(|| (Rewind::default(), None)))
            }
            Met::Nowhere => Ok(None),
        }
    }

    /// Returns whether a root begins a conversation. The root of a compacted history does not.
    fn is_beginning(&self, root: EntryId) -> Result<bool> {
        Ok(!self.conn.prepare_cached("SELECT 1 FROM compactions WHERE id = ?1")?.exists([root])?)
    }
}

/// Returns whether the entry is a sub-agent's, which has separate branches.
fn is_beside(row: &Row, item: &StoryItem<'_>) -> bool {
    row.is_sidechain || item.folded == Some(Folded::Sidechain)
}

/// Returns whether the item is a text of the agent.
fn is_answer(item: &StoryItem<'_>) -> bool {
    item.role == Some(Role::Assistant)
        && item.pieces.iter().any(|piece| matches!(piece, Piece::Words(_)))
}
