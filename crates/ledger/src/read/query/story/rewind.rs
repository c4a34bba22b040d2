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

use super::learn::{self, ItemFields};
use super::rows::Row;
use crate::Result;
use crate::base::ids::EntryId;
use crate::read::query::story::ancestors::{Ancestors, NearestShown};

/// The state of the conversation at the current item of a story.
pub(super) struct Rewinds<'c> {
    conn: &'c Connection,
    ancestors: Ancestors<'c>,
    /// The last text: a prompt or an answer.
    last_text: Option<EntryId>,
    /// True if the history was compacted since the last text. A new root is then no rewind.
    is_compacted: bool,
    /// The current answer.
    answer: Answer,
    /// The answer of the last text, if that text is the agent's.
    last_text_answer: Answer,
    /// True if an answer was shown since the last prompt.
    is_answered: bool,
    /// The last turn so far.
    last_turn: Option<u64>,
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
            ancestors: Ancestors::new(conn),
            last_text: None,
            is_compacted: false,
            answer: Answer::default(),
            last_text_answer: Answer::default(),
            is_answered: false,
            last_turn: None,
        }
    }

    /// Records an item that is shown. Returns the place that it goes back to, if it does.
    pub(super) fn record_shown(
        &mut self,
        row: &Row,
        item: &StoryItem<'_>,
        response: Option<&str>,
        fields: &ItemFields<'_>,
    ) -> Result<Option<Rewind>> {
        if item.is_prompt && row.turn.is_none() {
            // A prompt of a list has no parent, so the abandoned entries are unknown.
            return Ok(None);
        }
        // An answer without a response id is a separate answer.
        let is_other_answer = is_answer(item)
            && !self.last_text_answer.is_empty()
            && (response.is_none() || response != self.last_text_answer.response.as_deref());
        let is_first_answer = item.role == Some(Role::Assistant)
            && self.last_text.is_some()
            && self.last_text_answer.is_empty()
            && (!self.is_answered || is_answer(item));
        let is_sidechain = is_sidechain(row, item);
        let may_go_back = !is_sidechain
            && row.id.seq().is_some()
            && (item.is_prompt
                || is_other_answer
                || is_first_answer
                || matches!(item.kind, ItemKind::BranchSummary { .. }));
        let rewind = match self.last_text {
            Some(last_text) if may_go_back => self.find_rewind(row, last_text, fields)?,
            _ => None,
        };
        let rewind = rewind.filter(|(_, at)| {
            !is_other_answer || at.is_some_and(|at| !self.last_text_answer.holds(at))
        });
        let rewind = rewind.map(|(rewind, _)| Rewind {
            is_within_turn: is_other_answer && rewind.to_turn == item.turn,
            last_turn: self.last_turn,
            ..rewind
        });
        self.record_hidden(row, item, response);
        if rewind.is_some() {
            self.last_text = Some(row.id);
            if is_first_answer {
                self.last_text_answer = self.answer.clone();
            }
        }
        self.is_answered |= is_first_answer && !is_sidechain;
        Ok(rewind)
    }

    /// Records an item that is not shown.
    pub(super) fn record_hidden(
        &mut self,
        row: &Row,
        item: &StoryItem<'_>,
        response: Option<&str>,
    ) {
        if is_sidechain(row, item) {
            return;
        }
        if matches!(item.kind, ItemKind::Compaction(_) | ItemKind::Reset { .. }) {
            self.is_compacted = true;
        }
        if item.role == Some(Role::Assistant) {
            if response.is_none() || response != self.answer.response.as_deref() {
                self.answer = Answer { response: response.map(str::to_owned), ..Answer::default() };
            }
            self.answer.push(row.id);
            if response.is_some() && response == self.last_text_answer.response.as_deref() {
                self.last_text_answer.push(row.id);
            }
        }
        if item.is_prompt {
            self.last_turn = self.last_turn.max(item.turn);
        }
        if item.is_prompt || is_answer(item) {
            self.last_text = Some(row.id);
            self.last_text_answer =
                if item.is_prompt { Answer::default() } else { self.answer.clone() };
            self.is_compacted = false;
            self.is_answered &= !item.is_prompt;
        }
    }

    /// Returns the place that an entry goes back to, and the entry that it continues from.
    fn find_rewind(
        &mut self,
        row: &Row,
        last_text: EntryId,
        fields: &ItemFields<'_>,
    ) -> Result<Option<(Rewind, Option<EntryId>)>> {
        match self.ancestors.nearest_shown(fields.plan, row.id, last_text)? {
            NearestShown::Shown(shown) if shown == last_text => Ok(None),
            NearestShown::Shown(shown) => {
                let turn: Option<EntryId> = self
                    .conn
                    .prepare_cached("SELECT turn FROM entry_rows WHERE id = ?1")?
                    .query_row([shown], |row| row.get(0))
                    .optional()?
                    .flatten();
                let rewind = Rewind {
                    to_turn: turn.and_then(|turn| fields.turn(turn)),
                    to: Some(learn::name_of(self.conn, shown)?),
                    ..Rewind::default()
                };
                Ok(Some((rewind, Some(shown))))
            }
            NearestShown::Root(root) => {
                let is_new_start = !self.is_compacted && self.begins_conversation(root)?;
                Ok(is_new_start.then(|| (Rewind::default(), None)))
            }
            NearestShown::Unknown => Ok(None),
        }
    }

    /// Returns whether a root begins a conversation. The root of a compacted history does not.
    fn begins_conversation(&self, root: EntryId) -> Result<bool> {
        Ok(!self.conn.prepare_cached("SELECT 1 FROM compactions WHERE id = ?1")?.exists([root])?)
    }
}

/// Returns whether the entry is a sub-agent's, which has separate branches.
fn is_sidechain(row: &Row, item: &StoryItem<'_>) -> bool {
    row.is_sidechain || item.folded == Some(Folded::Sidechain)
}

/// Returns whether the item is a text of the agent.
fn is_answer(item: &StoryItem<'_>) -> bool {
    item.role == Some(Role::Assistant)
        && item.pieces.iter().any(|piece| matches!(piece, Piece::Words(_)))
}
