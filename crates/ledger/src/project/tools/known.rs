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

/// A call: its entry, and its place in that entry. Ordered by time of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) entry: EntryId,
    pub(super) ordinal: u32,
}

impl Ord for Place {
    fn cmp(&self, other: &Place) -> Ordering {
        // Entries of a line with several records have numbers out of order; the numbers of their
        // records are in order.
        let key = |place: &Place| (place.entry.0 % (1 << 40), place.entry.0, place.ordinal);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Place) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The state of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// No call has the id.
    Free,
    /// The oldest waiting call with the id.
    Waiting(Place),
    /// All calls with the id have their results.
    Answered,
}

/// Calls by their ids.
#[derive(Debug, Default)]
pub(super) struct Known {
    by_id: HashMap<Box<str>, Same>,
    /// The endings of the ids whose calls were read from the ledger.
    loaded: HashSet<Box<str>>,
}

/// The calls that share an id.
#[derive(Debug)]
enum Same {
    /// One call, the usual case, with its result if that has come.
    One(Place, Option<EntryId>),
    Many(Box<Many>),
}

#[derive(Debug, Default)]
struct Many {
    waiting: BTreeSet<Place>,
    /// Calls with a result, sorted by the result.
    answered: BTreeSet<(EntryId, Place)>,
}

impl Known {
    /// Reads the calls whose ids have the same ending, unless they were read already. Must come
    /// before any use of the id if memory does not hold the whole session.
    pub(super) fn load(&mut self, conn: &Connection, session: SessionRow, id: &str) -> Result<()> {
        if !self.loaded.insert(end_of(id).into()) {
            return Ok(());
        }
        let mut statement = conn.prepare_cached(
            "SELECT c.call, c.entry, c.ordinal, c.result
               FROM tool_call_rows c CROSS JOIN tools t ON t.id = c.tool
              WHERE c.session = ?1 AND substr(c.call, -4) = substr(?2, -4) AND t.is_partial = 0",
        )?;
        let mut rows = statement.query((session, id))?;
        while let Some(row) = rows.next()? {
            let place = Place { entry: row.get(1)?, ordinal: row.get(2)? };
            self.add(&row.get::<_, Box<str>>(0)?, place, row.get(3)?);
        }
        Ok(())
    }

    pub(super) fn state(&self, id: &str) -> State {
        match self.by_id.get(id) {
            None => State::Free,
            Some(Same::One(place, None)) => State::Waiting(*place),
            Some(Same::One(_, Some(_))) => State::Answered,
            Some(Same::Many(many)) => match many.waiting.first() {
                Some(place) => State::Waiting(*place),
                None => State::Answered,
            },
        }
    }

    /// Returns the call that an entry answered.
    pub(super) fn answered_by(&self, id: &str, result: EntryId) -> Option<Place> {
        match self.by_id.get(id)? {
            Same::One(place, answer) => (*answer == Some(result)).then_some(*place),
            Same::Many(many) => {
                let from = (result, Place { entry: EntryId(1 - (1 << 40)), ordinal: 0 });
                let (entry, place) = many.answered.range(from..).next()?;
                (*entry == result).then_some(*place)
            }
        }
    }

    /// Adds a call with the id.
    pub(super) fn add(&mut self, id: &str, place: Place, result: Option<EntryId>) {
        match self.by_id.get_mut(id) {
            None => {
                self.by_id.insert(id.into(), Same::One(place, result));
            }
            Some(Same::Many(many)) => many.put(place, result),
            Some(one) => {
                let mut many = Box::<Many>::default();
                if let Same::One(place, result) = *one {
                    many.put(place, result);
                }
                many.put(place, result);
                *one = Same::Many(many);
            }
        }
    }

    /// Replaces the result of a call.
    pub(super) fn answer(
        &mut self,
        id: &str,
        place: Place,
        before: Option<EntryId>,
        result: EntryId,
    ) {
        match self.by_id.get_mut(id) {
            None => {}
            Some(Same::One(_, answer)) => *answer = Some(result),
            Some(Same::Many(many)) => {
                many.take(place, before);
                many.put(place, Some(result));
            }
        }
    }

    /// Removes a call.
    pub(super) fn remove(&mut self, id: &str, place: Place, result: Option<EntryId>) {
        let is_last = match self.by_id.get_mut(id) {
            None => false,
            Some(Same::One(known, _)) => *known == place,
            Some(Same::Many(many)) => {
                many.take(place, result);
                many.waiting.is_empty() && many.answered.is_empty()
            }
        };
        if is_last {
            self.by_id.remove(id);
        }
    }
}

impl Many {
    fn put(&mut self, place: Place, result: Option<EntryId>) {
        match result {
            None => self.waiting.insert(place),
            Some(result) => self.answered.insert((result, place)),
        };
    }

    fn take(&mut self, place: Place, result: Option<EntryId>) {
        match result {
            None => self.waiting.remove(&place),
            Some(result) => self.answered.remove(&(result, place)),
        };
    }
}

/// Returns the same text as SQLite's `substr(…, -4)`, for which a text ends at the first NUL.
pub(crate) fn end_of(rest: &str) -> &str {
    let text = rest.split('\0').next().unwrap_or_default();
    let start = text.char_indices().rev().nth(3).map_or(0, |(at, _)| at);
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(entry: i64) -> Place {
        Place { entry: EntryId(entry), ordinal: 0 }
    }

    fn ledger(ids: &[&str]) -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
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
    fn ids_that_end_alike_are_read_once() {
        let conn = ledger(&["0_exec", "0_exec", "0_exec", "1_exec", "other"]);
        let mut known = Known::default();
        known.load(&conn, SessionRow(1), "call_0_exec").unwrap();
        // Without the tables, every answer must come from memory.
        conn.execute_batch("DROP VIEW tool_calls; DROP TABLE tool_call_rows").unwrap();
        for id in ["call_0_exec", "call_1_exec", "2_exec", "exec"] {
            known.load(&conn, SessionRow(1), id).unwrap();
        }
        assert_eq!(known.state("call_0_exec"), State::Waiting(place(1)));
        assert_eq!(known.state("call_1_exec"), State::Answered);
        assert_eq!(known.state("2_exec"), State::Free);
        assert!(known.load(&conn, SessionRow(1), "call_other").is_err());
    }

    #[test]
    fn the_oldest_that_waits_is_answered_first() {
        let mut known = Known::default();
        // The record of this entry comes first, although the entry has the largest number.
        let welded = place((1 << 40) + 1);
        for call in [place(3), welded, place(2)] {
            known.add("a", call, None);
        }
        for (call, result) in [(welded, 11), (place(2), 12), (place(3), 13)] {
            assert_eq!(known.state("a"), State::Waiting(call));
            known.answer("a", call, None, EntryId(result));
            assert_eq!(known.answered_by("a", EntryId(result)), Some(call));
        }
        assert_eq!(known.state("a"), State::Answered);
        // A newer version of a result answers the same call.
        known.answer("a", place(2), Some(EntryId(12)), EntryId(14));
        assert_eq!(known.answered_by("a", EntryId(12)), None);
        assert_eq!(known.answered_by("a", EntryId(14)), Some(place(2)));
        for (call, result) in [(welded, 11), (place(2), 14), (place(3), 13)] {
            assert_eq!(known.state("a"), State::Answered);
            known.remove("a", call, Some(EntryId(result)));
        }
        assert_eq!(known.state("a"), State::Free);
    }

    #[test]
    fn ends_are_those_that_sqlite_sees() {
        let conn = Connection::open_in_memory().unwrap();
        for id in ["", "a", "abcd", "abcdefgh", "näßé\u{1f469}x", "ab\0cdefgh", "\0"] {
            let end: String =
                conn.query_row("SELECT substr(?1, -4)", [id], |row| row.get(0)).unwrap();
            assert_eq!(end_of(id), end, "{id:?}");
        }
    }
}
