//! Queued prompts that the agent received later.
//!
//! A text that the human typed while the agent worked is stored twice: in the queue and in the
//! prompt that it became. Only the prompt is a hit. A text that never became a prompt is found in
//! the queue. The rules are those of the story (`query/story/queued`).

use foldhash::{HashMap, HashMapExt, HashSet};
use quipu_fts5::{Matches, RowIdSet};
use rusqlite::{Connection, OptionalExtension};

use super::FoundMatches;
use super::texts::Texts;
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::project::interned::kinds::KindId;
use crate::read::query::story::Queue;

/// The number of matches up to which every row is checked. For more, only the shown hits are
/// checked, which bounds the work. The total then includes queued texts that are not shown.
const MAX_FULL_CHECK: usize = 1000;

/// Finds queued texts among matches.
pub(super) struct Queued<'c> {
    conn: &'c Connection,
    kinds: Vec<KindId>,
    texts: Texts<'c>,
    sessions: HashMap<SessionRow, Queue>,
}

impl<'c> Queued<'c> {
    pub(super) fn new(conn: &'c Connection) -> Result<Queued<'c>> {
        let kinds = conn
            .prepare_cached(
                "SELECT id FROM kinds WHERE form = 'queue' AND folded = 'queued' AND id > 0",
            )?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        Ok(Queued { conn, kinds, texts: Texts::new(conn), sessions: HashMap::new() })
    }

    /// Removes queued texts whose prompt also matches.
    pub(super) fn remove(&mut self, matches: &mut Matches) -> Result<()> {
        if matches.len() > MAX_FULL_CHECK {
            return Ok(());
        }
        let repeated = self.find_repeated(matches.rowids().map(EntryId::from), &|entry| {
            matches.find(entry.into()).is_some()
        })?;
        if !repeated.is_empty() {
            matches.retain(|rowid, _| !repeated.contains(&rowid.into()));
        }
        Ok(())
    }

    /// Removes queued texts whose prompt is also in the set.
    pub(super) fn remove_from(&mut self, entries: &mut RowIdSet) -> Result<()> {
        if entries.len() > MAX_FULL_CHECK {
            return Ok(());
        }
        let repeated = self.find_repeated(entries.iter().map(EntryId::from), &|entry| {
            entries.contains(entry.into())
        })?;
        repeated.into_iter().for_each(|entry| entries.remove(entry.into()));
        Ok(())
    }

    /// Removes queued texts from the shown hits, if there are too many matches to check all.
    /// `is_found` returns whether an entry is among all matches.
    pub(super) fn remove_from_shown(
        &mut self,
        found: &mut FoundMatches,
        is_found: &dyn Fn(&Matches, EntryId) -> bool,
    ) -> Result<()> {
        if found.total <= MAX_FULL_CHECK {
            return Ok(());
        }
        let FoundMatches { matches, total, shown } = found;
        let entry = |at: usize| matches.list().get(at).map(|found| EntryId::from(found.rowid));
        let entries = shown.iter().filter_map(|(at, _)| entry(*at));
        let repeated = self.find_repeated(entries, &|entry| is_found(matches, entry))?;
        let before = shown.len();
        shown.retain(|(at, _)| entry(*at).is_none_or(|entry| !repeated.contains(&entry)));
        *total -= before - shown.len();
        Ok(())
    }

    fn find_repeated(
        &mut self,
        entries: impl Iterator<Item = EntryId>,
        is_found: &dyn Fn(EntryId) -> bool,
    ) -> Result<HashSet<EntryId>> {
        let mut repeated = HashSet::default();
        if self.kinds.is_empty() {
            return Ok(repeated);
        }
        for entry in entries {
            if self.is_repeated(entry, is_found)? {
                repeated.insert(entry);
            }
        }
        Ok(repeated)
    }

    fn is_repeated(&mut self, entry: EntryId, is_found: &dyn Fn(EntryId) -> bool) -> Result<bool> {
        let row: Option<(KindId, Option<SessionRow>)> = self
            .conn
            .prepare_cached("SELECT kind, session FROM entry_rows WHERE id = ?1")?
            .query_row([entry], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let session = row.filter(|row| self.kinds.contains(&row.0)).and_then(|row| row.1);
        let Some(session) = session else { return Ok(false) };
        let queue = match self.sessions.entry(session) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(vacant) => {
                vacant.insert(Queue::of(self.conn, session)?)
            }
        };
        let words = self.texts.of(entry)?.prose;
        let prompts = queue.repeated_in(entry, words.as_str()).unwrap_or_default();
        Ok(prompts.iter().any(|prompt| is_found(*prompt)))
    }
}
