//! Builds the contexts of open sessions from cached lines.
//!
//! Reads and decodes each line once while the session is cached. Sees the lines that other
//! processes append at the next call. Never appends a record.

use std::collections::HashMap;

use quipu_transcript::context::{At, Context, PathEntries, Reader, Session, pairing};
use rusqlite::Connection;

use super::core::Core;
use super::session;
use super::sessions::NativeSession;
use crate::base::ids::{GenerationId, Seq};
use crate::file::snapshot::Snapshot;
use crate::read::query;
use crate::truth::chunks::RecordReader;
use crate::{Error, Result};

/// The largest number of bytes of cached lines, for all open sessions together. It bounds the
/// memory of a store.
const MAX_CACHED_BYTES: usize = 64 << 20;

/// The cached lines of open sessions.
#[derive(Debug, Default)]
pub(super) struct Cache {
    cached: HashMap<GenerationId, CachedSession>,
    bytes: usize,
    decoded: u64,
}

#[derive(Debug)]
struct CachedSession {
    session: Session,
    lines: Vec<Box<str>>,
    /// The offset up to which the session was read, in bytes.
    read_to: i64,
    bytes: usize,
}

impl Cache {
    pub(super) fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Returns the session with everything appended to it; `None` if it is too long for the cache.
    fn current_session(
        &mut self,
        conn: &Connection,
        generation: GenerationId,
    ) -> Result<Option<&CachedSession>> {
        let cursor: i64 = conn
            .prepare_cached("SELECT cursor FROM generations WHERE id = ?1")?
            .query_row([generation], |row| row.get(0))?;
        let known = self.cached.get(&generation).map_or(0, |cached| cached.read_to);
        if usize::try_from(cursor).unwrap_or(usize::MAX) > MAX_CACHED_BYTES {
            return Ok(None);
        }
        let growth = usize::try_from(cursor.saturating_sub(known)).unwrap_or(0);
        if self.bytes + growth > MAX_CACHED_BYTES {
            self.cached.clear();
            self.bytes = 0;
        }
        let cached = self.cached.entry(generation).or_insert_with(|| CachedSession {
            session: Session::new(Reader::OPENCLAW),
            lines: Vec::new(),
            read_to: 0,
            bytes: 0,
        });
        if cached.read_to < cursor {
            let before = (cached.bytes, cached.lines.len());
            cached.read(conn, generation, cursor)?;
            self.bytes += cached.bytes - before.0;
            self.decoded += (cached.lines.len() - before.1) as u64;
        }
        Ok(Some(cached))
    }
}

impl CachedSession {
    /// Reads the records up to `cursor`.
    fn read(&mut self, conn: &Connection, generation: GenerationId, cursor: i64) -> Result<()> {
        let mut spans = conn.prepare_cached(
            "SELECT first_seq, last_seq FROM spans
              WHERE generation = ?1 AND start + length > ?2 AND start < ?3 ORDER BY start",
        )?;
        let mut start_of = conn.prepare_cached("SELECT start FROM records WHERE seq = ?1")?;
        let mut reader = RecordReader::new(conn);
        let mut rows = spans.query((generation, self.read_to, cursor))?;
        while let Some(row) = rows.next()? {
            let (first, last): (i64, i64) = (row.get(0)?, row.get(1)?);
            for seq in (first..=last).map(Seq) {
                let start: i64 = start_of.query_row([seq], |row| row.get(0))?;
                if start < self.read_to {
                    continue;
                }
                let line = reader.read(seq)?;
                self.read_to = start + line.len() as i64;
                let line = String::from_utf8_lossy(&line);
                let line = line.strip_suffix('\n').unwrap_or(&line);
                let short = query::context::shortened(line);
                let line = short.as_deref().unwrap_or(line);
                self.session.push(line);
                self.bytes += line.len();
                self.lines.push(line.into());
            }
        }
        Ok(())
    }
}

impl session::Session {
    /// Returns the context that a model should see at the leaf.
    ///
    /// ```
    /// use quipu_ledger::{Entry, Store};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let store = Store::open(folder.path().join("ledger.db"))?;
    /// let session = store.session_or_new("agent:main:main")?;
    /// session.append(Entry::user("hello"))?;
    /// for message in session.context()?.messages {
    ///     assert_eq!(message.role(), "user");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn context(&self) -> Result<Context> {
        self.store.core().context(&self.native, None)
    }

    /// Returns the context that a model should see at an entry.
    pub fn context_at(&self, entry: &str) -> Result<Context> {
        self.store.core().context(&self.native, Some(entry))
    }
}

impl Core {
    /// Returns the context that a model should see at `leaf`, or at the session's own leaf.
    fn context(&mut self, session: &NativeSession, leaf: Option<&str>) -> Result<Context> {
        let snapshot = Snapshot::of(self.ledger.conn())?;
        let Some(cached) = self.cache.current_session(self.ledger.conn(), session.generation)?
        else {
            drop(snapshot);
            return self.read_caught_up(&mut |ledger| {
                Ok(query::context_of(ledger, session.row, leaf)?.context)
            });
        };
        let at = leaf.map_or(At::Leaf, At::Entry);
        let plan = cached.session.plan(at).ok_or_else(|| Error::NoMatch {
            what: "entry of the session",
            name: leaf.unwrap_or_default().to_owned(),
        })?;
        let line = |number: usize| cached.lines.get(number).map(AsRef::as_ref);
        let Context { messages, leaf, model, thinking_level } = plan.fill(&line);
        let (messages, _) = pairing::pair(messages);
        Ok(Context { leaf, model, thinking_level, messages })
    }

    /// Returns the entries that the context of the session's leaf comes from.
    pub(super) fn path_entries(&mut self, session: &NativeSession) -> Result<PathEntries> {
        let snapshot = Snapshot::of(self.ledger.conn())?;
        let Some(cached) = self.cache.current_session(self.ledger.conn(), session.generation)?
        else {
            drop(snapshot);
            let read = &mut |ledger: &_| query::context::path_entries(ledger, session.row);
            return Ok(self.read_caught_up(read)?.unwrap_or_default());
        };
        let line = |number: usize| cached.lines.get(number).map(AsRef::as_ref);
        let plan = cached.session.path_plan(At::Leaf);
        Ok(plan.map(|plan| plan.fill(&line)).unwrap_or_default())
    }
}
