//! The calls of a session by their id, and those that wait for a result.
//!
//! Ids are arbitrary: some agents restart their numbers with every message, and a hostile one may
//! give all calls the same id. Every call is still read from the ledger only once, and a lookup
//! never scans the calls that share an id.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use foldhash::{HashMap, HashSet};
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::{EntryId, SessionRow};

/// A call: its entry, and its position in that entry. Ordered by line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallPosition {
    pub(super) entry: EntryId,
    pub(super) ordinal: u32,
}

impl Ord for CallPosition {
    fn cmp(&self, other: &CallPosition) -> Ordering {
        // The ids of entries are not in the order of lines if a line holds several records.
        let key = |position: &CallPosition| (position.entry.by_line(), position.ordinal);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for CallPosition {
    fn partial_cmp(&self, other: &CallPosition) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The state of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdState {
    /// No call has the id.
    Free,
    /// The oldest waiting call with the id.
    Waiting(CallPosition),
    /// All calls with the id have their results.
    Answered,
}

/// Calls by their ids.
#[derive(Debug, Default)]
pub(super) struct CallsById {
    by_id: HashMap<Box<str>, CallsWithId>,
    /// The endings of the ids whose calls were read from the ledger.
    loaded: HashSet<Box<str>>,
}

/// The calls that share an id.
#[derive(Debug)]
enum CallsWithId {
    /// One call, the usual case, with its result if that has come.
    One(CallPosition, Option<EntryId>),
    Many(Box<Many>),
}

/// Several calls that share an id.
#[derive(Debug, Default)]
struct Many {
    waiting: BTreeSet<CallPosition>,
    /// Calls with a result, sorted by the result.
    answered: BTreeSet<(EntryId, CallPosition)>,
}

impl CallsById {
    /// Reads the calls whose ids have the same ending, unless they were read already. Must come
    /// before any use of the id if memory does not hold the whole session.
    pub(super) fn load(&mut self, conn: &Connection, session: SessionRow, id: &str) -> Result<()> {
        if !self.loaded.insert(id_ending(id).into()) {
            return Ok(());
        }
        let mut statement = conn.prepare_cached(
            "SELECT c.call, c.entry, c.ordinal, c.result
               FROM tool_call_rows c CROSS JOIN tools t ON t.id = c.tool
              WHERE c.session = ?1 AND substr(c.call, -4) = substr(?2, -4) AND t.is_partial = 0",
        )?;
        let mut rows = statement.query((session, id))?;
        while let Some(row) = rows.next()? {
            let position = CallPosition { entry: row.get(1)?, ordinal: row.get(2)? };
            self.add(&row.get::<_, Box<str>>(0)?, position, row.get(3)?);
        }
        Ok(())
    }

    /// Returns whether calls have the id, and the oldest of them that waits for a result.
    pub(super) fn state(&self, id: &str) -> IdState {
        match self.by_id.get(id) {
            None => IdState::Free,
            Some(CallsWithId::One(position, None)) => IdState::Waiting(*position),
            Some(CallsWithId::One(_, Some(_))) => IdState::Answered,
            Some(CallsWithId::Many(many)) => match many.waiting.first() {
                Some(position) => IdState::Waiting(*position),
                None => IdState::Answered,
            },
        }
    }

    /// Returns the call that an entry answered.
    pub(super) fn call_answered_by(&self, id: &str, result: EntryId) -> Option<CallPosition> {
        match self.by_id.get(id)? {
            CallsWithId::One(position, answer) => (*answer == Some(result)).then_some(*position),
            CallsWithId::Many(many) => {
                let from = (result, CallPosition { entry: EntryId::LOWEST_BY_LINE, ordinal: 0 });
                let (entry, position) = many.answered.range(from..).next()?;
                (*entry == result).then_some(*position)
            }
        }
    }

    /// Adds a call with the id.
    pub(super) fn add(&mut self, id: &str, position: CallPosition, result: Option<EntryId>) {
        match self.by_id.get_mut(id) {
            None => {
                self.by_id.insert(id.into(), CallsWithId::One(position, result));
            }
            Some(CallsWithId::Many(many)) => many.insert(position, result),
            Some(one) => {
                let mut many = Box::<Many>::default();
                if let CallsWithId::One(position, result) = *one {
                    many.insert(position, result);
                }
                many.insert(position, result);
                *one = CallsWithId::Many(many);
            }
        }
    }

    /// Replaces the result of a call.
    pub(super) fn answer(
        &mut self,
        id: &str,
        position: CallPosition,
        before: Option<EntryId>,
        result: EntryId,
    ) {
        match self.by_id.get_mut(id) {
            None => {}
            Some(CallsWithId::One(_, answer)) => *answer = Some(result),
            Some(CallsWithId::Many(many)) => {
                many.take(position, before);
                many.insert(position, Some(result));
            }
        }
    }

    /// Removes a call.
    pub(super) fn remove(&mut self, id: &str, position: CallPosition, result: Option<EntryId>) {
        let is_last = match self.by_id.get_mut(id) {
            None => false,
            Some(CallsWithId::One(known, _)) => *known == position,
            Some(CallsWithId::Many(many)) => {
                many.take(position, result);
                many.waiting.is_empty() && many.answered.is_empty()
            }
        };
        if is_last {
            self.by_id.remove(id);
        }
    }
}

impl Many {
    fn insert(&mut self, position: CallPosition, result: Option<EntryId>) {
        match result {
            None => self.waiting.insert(position),
            Some(result) => self.answered.insert((result, position)),
        };
    }

    fn take(&mut self, position: CallPosition, result: Option<EntryId>) {
        match result {
            None => self.waiting.remove(&position),
            Some(result) => self.answered.remove(&(result, position)),
        };
    }
}

/// Returns the same text as SQLite's `substr(…, -4)`, for which a text ends at the first NUL.
pub(crate) fn id_ending(id: &str) -> &str {
    let text = id.split('\0').next().unwrap_or_default();
    let start = text.char_indices().rev().nth(3).map_or(0, |(at, _)| at);
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(entry: i64) -> CallPosition {
        CallPosition { entry: EntryId(entry), ordinal: 0 }
    }

    fn ledger(ids: &[&str]) -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
        crate::file::ledger::set_up(&conn).unwrap();
        let tx = conn.transaction().unwrap();
        crate::file::schema::create_projection(&tx).unwrap();
        tx.execute("INSERT INTO tools VALUES (1, 'read', 0)", []).unwrap();
        for (id, entry) in ids.iter().zip(1..) {
            tx.execute(
                "INSERT INTO tool_call_rows (entry, ordinal, session, tool, call, result)
                 VALUES (?1, 0, 1, 1, ?2, iif(?1 % 2 = 0, ?1 + 100, NULL))",
                (entry, format!("call_{id}")),
            )
            .unwrap();
        }
        tx.commit().unwrap();
        conn
    }

    #[test]
    fn calls_whose_ids_end_alike_are_read_once() {
        let conn = ledger(&["0_exec", "0_exec", "0_exec", "1_exec", "other"]);
        let mut known = CallsById::default();
        known.load(&conn, SessionRow(1), "call_0_exec").unwrap();
        // Without the tables, every answer must come from memory.
        conn.execute_batch("DROP VIEW tool_calls; DROP TABLE tool_call_rows").unwrap();
        for id in ["call_0_exec", "call_1_exec", "2_exec", "exec"] {
            known.load(&conn, SessionRow(1), id).unwrap();
        }
        assert_eq!(known.state("call_0_exec"), IdState::Waiting(position(1)));
        assert_eq!(known.state("call_1_exec"), IdState::Answered);
        assert_eq!(known.state("2_exec"), IdState::Free);
        assert!(known.load(&conn, SessionRow(1), "call_other").is_err());
    }

    #[test]
    fn the_oldest_waiting_call_is_answered_first() {
        let mut known = CallsById::default();
        // The record of this entry comes first, although the entry has the largest number.
        let shares_line = position(EntryId::of(crate::base::ids::Seq(1), 1).0);
        for call in [position(3), shares_line, position(2)] {
            known.add("a", call, None);
        }
        for (call, result) in [(shares_line, 11), (position(2), 12), (position(3), 13)] {
            assert_eq!(known.state("a"), IdState::Waiting(call));
            known.answer("a", call, None, EntryId(result));
            assert_eq!(known.call_answered_by("a", EntryId(result)), Some(call));
        }
        assert_eq!(known.state("a"), IdState::Answered);
        // A newer version of a result answers the same call.
        known.answer("a", position(2), Some(EntryId(12)), EntryId(14));
        assert_eq!(known.call_answered_by("a", EntryId(12)), None);
        assert_eq!(known.call_answered_by("a", EntryId(14)), Some(position(2)));
        for (call, result) in [(shares_line, 11), (position(2), 14), (position(3), 13)] {
            assert_eq!(known.state("a"), IdState::Answered);
            known.remove("a", call, Some(EntryId(result)));
        }
        assert_eq!(known.state("a"), IdState::Free);
    }

    #[test]
    fn id_endings_agree_with_sqlite() {
        let conn = Connection::open_in_memory().unwrap();
        for id in ["", "a", "abcd", "abcdefgh", "näßé\u{1f469}x", "ab\0cdefgh", "\0"] {
            let end: String =
                conn.query_row("SELECT substr(?1, -4)", [id], |row| row.get(0)).unwrap();
            assert_eq!(id_ending(id), end, "{id:?}");
        }
    }
}
