//! Which calls of a session have which id, and which of them wait for a result.
//!
//! Ids are whatever a transcript says: some agents begin anew with every message, and a hostile one
//! gives all its calls the same id. Whatever it does, every call is read from the ledger once, and a
//! lookup does not go through those that share an id.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use foldhash::{HashMap, HashSet};
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::project::interned::tools::CallId;

/// A call: its entry, and its place in there. In order of coming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) entry: EntryId,
    pub(super) ordinal: u32,
}

impl Ord for Place {
    fn cmp(&self, other: &Place) -> Ordering {
        // Numbers of welded entries are not in order; their records are.
        let key = |place: &Place| (place.entry.0 % (1 << 40), place.entry.0, place.ordinal);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Place) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What is known of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// No call has it.
    Free,
    /// The oldest call of those that wait.
    Waiting(Place),
    /// All calls that have it have their results.
    Answered,
}

/// Calls by their ids.
#[derive(Debug, Default)]
pub(super) struct Known {
    by_id: HashMap<Box<str>, Same>,
    /// How ids end whose calls were read from the ledger.
    loaded: HashSet<Box<str>>,
}

/// The calls that share an id.
#[derive(Debug)]
enum Same {
    /// Nearly always it is one, with its result if that has come.
    One(Place, Option<EntryId>),
    Many(Box<Many>),
}

#[derive(Debug, Default)]
struct Many {
    waiting: BTreeSet<Place>,
    /// By their results.
    answered: BTreeSet<(EntryId, Place)>,
}

impl Known {
    /// Reads the calls whose ids end like this one, unless they are here. Needed where memory does
    /// not hold all of a session, before anything is asked or told of the id.
    pub(super) fn load(&mut self, conn: &Connection, session: SessionRow, id: &str) -> Result<()> {
        let rest = CallId::of(id).rest;
        if !self.loaded.insert(end_of(rest).into()) {
            return Ok(());
        }
        let mut statement = conn.prepare_cached(
            "SELECT t.call_begins || c.call, c.entry, c.ordinal, c.result
               FROM tool_call_rows c CROSS JOIN tools t ON t.id = c.tool
              WHERE c.session = ?1 AND substr(c.call, -4) = substr(?2, -4) AND t.is_partial = 0",
        )?;
        let mut rows = statement.query((session, rest))?;
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

    /// The call that an entry answered.
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

    /// One more call has the id.
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

    /// A call has another result than before.
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

    /// A call is taken back.
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

/// What SQLite's `substr(…, -4)` gives: for it, a text ends at the first NUL.
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
        tx.execute("INSERT INTO tools VALUES (1, 'read', 'call_', 0)", []).unwrap();
        for (id, entry) in ids.iter().zip(1..) {
            tx.execute(
                "INSERT INTO tool_call_rows (entry, ordinal, session, tool, call, result)
                 VALUES (?1, 0, 1, 1, ?2, iif(?1 % 2 = 0, ?1 + 100, NULL))",
                (entry, id),
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
        // Whatever is asked from now on is known without the ledger.
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
        // A welded entry comes after the record before it, whatever its number.
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
