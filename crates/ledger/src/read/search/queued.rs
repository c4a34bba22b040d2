//! Prompts that are stored twice.
//!
//! A text that the human typed while the agent worked is in the queue and in the prompt that it
//! became. Only the prompt is a hit. A text that never became a prompt is found in the queue. The
//! rules are those of the story (`query/story/queued`).
//!
//! The agent's list of prompts repeats prompts of the transcripts. Of two hits with the same text in
//! the same session, only the one of the transcript stays.

use foldhash::{HashMap, HashMapExt, HashSet};
use quipu_fts5::{Matches, RowIdSet};
use rusqlite::{Connection, OptionalExtension};

use super::FoundMatches;
use super::texts::Texts;
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};
use crate::project::interned::kinds::KindId;
use crate::read::query::story::{Queue, Typed};

/// The number of matches up to which every row is checked. For more, only the shown hits are
/// checked, which bounds the work. The total then includes queued texts that are not shown.
const MAX_FULL_CHECK: usize = 1000;

/// Finds queued texts and listed prompts among matches.
pub(super) struct Queued<'c> {
    conn: &'c Connection,
    kinds: Vec<KindId>,
    /// The kinds of prompts in a list.
    listed: Vec<KindId>,
    texts: Texts<'c>,
    sessions: HashMap<SessionRow, Queue>,
}

impl<'c> Queued<'c> {
    pub(super) fn new(conn: &'c Connection) -> Result<Queued<'c>> {
        let kinds = |condition: &str| -> Result<Vec<KindId>> {
            let sql = format!("SELECT id FROM kinds WHERE {condition} AND id > 0");
            let mut statement = conn.prepare_cached(&sql)?;
            let kinds = statement.query_map([], |row| row.get(0))?;
            Ok(kinds.collect::<Result<_, _>>()?)
        };
        Ok(Queued {
            conn,
            kinds: kinds("form = 'queue' AND folded = 'queued'")?,
            listed: kinds("form = 'prompt'")?,
            texts: Texts::new(conn),
            sessions: HashMap::new(),
        })
    }

    /// Removes queued and listed texts whose prompt also matches.
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

    /// Removes queued and listed texts whose prompt is also in the set.
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

    /// Removes these texts from the shown hits, if there are too many matches to check all.
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
        if self.kinds.is_empty() && self.listed.is_empty() {
            return Ok(repeated);
        }
        let mut listed = Vec::new();
        let mut others = Vec::new();
        for entry in entries {
            let row: Option<(KindId, Option<SessionRow>)> = self
                .conn
                .prepare_cached("SELECT kind, session FROM entry_rows WHERE id = ?1")?
                .query_row([entry], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some((kind, Some(session))) = row else { continue };
            if self.listed.contains(&kind) {
                listed.push((session, entry));
            } else if !self.kinds.contains(&kind) {
                others.push((session, entry));
            } else if self.is_repeated(session, entry, is_found)? {
                repeated.insert(entry);
            }
        }
        repeated.extend(self.find_listed(&listed, &others)?);
        Ok(repeated)
    }

    /// Returns the prompts of a list whose text is also that of another match in the same session.
    fn find_listed(
        &self,
        listed: &[(SessionRow, EntryId)],
        others: &[(SessionRow, EntryId)],
    ) -> Result<Vec<EntryId>> {
        let mut text_of = self.conn.prepare_cached(
            "SELECT text FROM message_texts WHERE id = ?1
              UNION ALL SELECT text FROM prompts WHERE id = ?1",
        )?;
        let mut text = |entry: EntryId| -> Result<String> {
            let text: Option<String> = text_of.query_row([entry], |row| row.get(0)).optional()?;
            Ok(text.unwrap_or_default())
        };
        let mut texts: HashMap<SessionRow, Vec<String>> =
            listed.iter().map(|(session, _)| (*session, Vec::new())).collect();
        for (session, entry) in others {
            if let Some(texts) = texts.get_mut(session) {
                texts.push(text(*entry)?);
            }
        }
        let typed: HashMap<SessionRow, Typed> =
            texts.iter().map(|(session, texts)| (*session, Typed::of(texts))).collect();
        let mut repeated = Vec::new();
        for (session, entry) in listed {
            let prompt = text(*entry)?;
            if typed.get(session).is_some_and(|typed| typed.repeats(&prompt)) {
                repeated.push(*entry);
            }
        }
        Ok(repeated)
    }

    fn is_repeated(
        &mut self,
        session: SessionRow,
        entry: EntryId,
        is_found: &dyn Fn(EntryId) -> bool,
    ) -> Result<bool> {
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
