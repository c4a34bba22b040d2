//! Finds the calls of a session by their ids.
//!
//! The database has an index on the last four characters of ids. All calls with the same last
//! characters are read once, so a transcript whose ids all end alike costs no more than any other.
//! Inputs and outputs are never read.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use foldhash::{HashMap, HashSet};
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::project::tools::id_ending;

/// The calls of a session by id.
pub(super) struct Calls<'c> {
    conn: &'c Connection,
    session: SessionRow,
    /// The calls by a hash of the id. The hash is seeded at random, so a transcript cannot cause
    /// collisions. A call takes about 50 bytes for an id of any length.
    by_id: HashMap<u64, Call>,
    hasher: RandomState,
    /// The ends of ids whose calls were read.
    loaded: HashSet<Box<str>>,
}

/// The calls with one id.
#[derive(Debug, Clone, Copy)]
struct Call {
    /// The entry of the first call, and its ordinal in that entry.
    first: (EntryId, u32),
    /// The first call with an output file: its entry, and the entry of the file.
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

    /// Returns the first call with this id: its entry, and its ordinal in that entry.
    pub(super) fn first(&mut self, id: &str) -> Result<Option<(EntryId, u32)>> {
        Ok(self.get(id)?.map(|call| call.first))
    }

    /// Returns the entry of the output file of the first call that has this id and such a file.
    pub(super) fn output(&mut self, id: &str) -> Result<Option<EntryId>> {
        Ok(self.get(id)?.and_then(|call| call.output).map(|(_, file)| file))
    }

    fn get(&mut self, id: &str) -> Result<Option<Call>> {
        if self.loaded.insert(id_ending(id).into()) {
            self.load(id)?;
        }
        Ok(self.by_id.get(&self.hasher.hash_one(id)).copied())
    }

    fn load(&mut self, id: &str) -> Result<()> {
        let mut statement = self.conn.prepare_cached(
            "SELECT call, entry, ordinal, output FROM tool_call_rows
              WHERE session = ?1 AND substr(call, -4) = substr(?2, -4)",
        )?;
        let mut rows = statement.query((self.session, id))?;
        while let Some(row) = rows.next()? {
            let id = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
            let first = (row.get(1)?, row.get(2)?);
            let output: Option<EntryId> = row.get(3)?;
            let output = output.map(|file| (first.0, file));
            let hash = self.hasher.hash_one(id);
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
