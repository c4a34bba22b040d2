//! Finds the calls of a session by their ids. Those whose ids end alike are read from the ledger
//! once, so that a transcript whose ids all do is told in the time of any other.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use foldhash::{HashMap, HashSet};
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::project::interned::tools::CallId;
use crate::project::tools::end_of;

/// Calls by their ids.
pub(super) struct Calls<'c> {
    conn: &'c Connection,
    session: SessionRow,
    /// By a hash of the id, which nobody can foresee: about 50 bytes a call, however long ids are.
    by_id: HashMap<u64, Call>,
    hasher: RandomState,
    /// How ids end whose calls were read.
    loaded: HashSet<Box<str>>,
}

/// What the calls of an id have.
#[derive(Debug, Clone, Copy)]
struct Call {
    /// The entry of the first of them, and its place in there.
    first: (EntryId, u32),
    /// The file with the output of the first that has one, and the entry of that call.
    output: Option<(EntryId, EntryId)>,
}

impl<'c> Calls<'c> {
    pub(super) fn new(conn: &'c Connection, session: SessionRow) -> Calls<'c> {
        Calls {
            conn,
            session,
            by_id: HashMap::default(),
            hasher: RandomState::default(),
            loaded: HashSet::default(),
        }
    }

    /// The first call that has an id: its entry, and its place in there.
    pub(super) fn first(&mut self, id: &str) -> Result<Option<(EntryId, u32)>> {
        Ok(self.get(id)?.map(|call| call.first))
    }

    /// The entry of the file that holds the output of the first call that has an id and such a file.
    pub(super) fn output(&mut self, id: &str) -> Result<Option<EntryId>> {
        Ok(self.get(id)?.and_then(|call| call.output).map(|(_, file)| file))
    }

    fn get(&mut self, id: &str) -> Result<Option<Call>> {
        let id = CallId::of(id);
        if self.loaded.insert(end_of(id.rest).into()) {
            self.load(id.rest)?;
        }
        let hash = self.hasher.hash_one((id.beginning, id.rest));
        Ok(self.by_id.get(&hash).copied())
    }

    fn load(&mut self, rest: &str) -> Result<()> {
        let mut statement = self.conn.prepare_cached(
            "SELECT t.call_begins, c.call, c.entry, c.ordinal, c.output
               FROM tool_call_rows c CROSS JOIN tools t ON t.id = c.tool
              WHERE c.session = ?1 AND substr(c.call, -4) = substr(?2, -4)",
        )?;
        let mut rows = statement.query((self.session, rest))?;
        while let Some(row) = rows.next()? {
            let beginning = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
            let rest = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
            let first = (row.get(2)?, row.get(3)?);
            let output: Option<EntryId> = row.get(4)?;
            let output = output.map(|file| (first.0, file));
            let hash = self.hasher.hash_one((beginning, rest));
            let call = self.by_id.entry(hash).or_insert(Call { first, output });
            call.first = call.first.min(first);
            call.output = match (call.output, output) {
                (Some(known), Some(other)) => Some(known.min(other)),
                (known, other) => known.or(other),
            };
        }
        Ok(())
    }
}
