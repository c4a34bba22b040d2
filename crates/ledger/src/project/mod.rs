//! The projection: everything that is derived from the records, as a fold over them in seq order.
//!
//! Each record changes the projection by its draft and by nothing else. A rebuild therefore creates
//! the same rows as collecting did, for any batch sizes. A row never holds the current time, only
//! times in records. Facts across sessions follow rules that do not depend on order (`usage`).

pub(crate) mod absent;
mod decoders;
pub(crate) mod draft;
pub(crate) mod entry;
pub(crate) mod family;
pub(crate) mod interned;
pub(crate) mod keys;
mod outputs;
pub mod rebuild;
mod row;
mod rows;
pub(crate) mod search;
pub(crate) mod senders;
pub(crate) mod session;
pub(crate) mod session_sources;
mod sessions;
mod source_state;
mod states;
pub(crate) mod tail;
mod threads;
pub(crate) mod tools;
mod tree;
mod turns;
pub(crate) mod usage;
pub(crate) mod usage_rollup;

use std::sync::Arc;
use std::thread;

use quipu_fts5::PendingPostings;
use quipu_transcript::format::{self, Format, Origin};
use quipu_transcript::problem::{Problem, ProblemKind};
use rusqlite::{OptionalExtension, Transaction};

use crate::Result;
use crate::base::ids::{EntryId, GenerationId, Seq, SessionRow, SourceId};
use crate::truth::journal::Event;
use crate::wire::SyncReport;
use draft::{Draft, Fact};
pub(crate) use rows::Inserts;
use session::Name;
use sessions::Sessions;

/// The position of a record.
#[derive(Clone, Copy)]
pub(crate) struct RecordPosition<'a> {
    pub(crate) format: &'static dyn Format,
    pub(crate) origin: &'a Origin,
    pub(crate) source: SourceId,
    pub(crate) generation: GenerationId,
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// True if the record is a row of a database.
    pub(crate) is_row: bool,
}

/// The fold, with the state that it keeps in memory between records.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    decoders: decoders::Decoders,
    sessions: Sessions,
    kinds: crate::project::interned::kinds::Kinds,
    turns: turns::Turns,
    models: usage::Models,
    tools: crate::project::interned::tools::Tools,
    targets: crate::project::interned::targets::Targets,
    source_states: source_state::SourceStates,
    /// The source of the last record, and the session in its path.
    named: Option<(SourceId, Arc<Name>)>,
    /// Words that are not in the search index yet.
    pub(crate) words: PendingPostings,
    /// The number of unsolved problems stored since counting began.
    pub(crate) problems: u64,
    /// The first record that is counted.
    pub(crate) since: Option<Seq>,
}

impl Fold {
    /// Returns a fold that continues the counts of a sync.
    pub(crate) fn after(report: &SyncReport) -> Fold {
        Fold { problems: report.problems, since: report.since, ..Fold::default() }
    }

    /// Projects a record of a transcript or document.
    pub(crate) fn record(
        &mut self,
        tx: &Transaction<'_>,
        inserts: &mut Inserts<'_>,
        position: &RecordPosition<'_>,
        seq: Seq,
        mut draft: Draft,
    ) -> Result<()> {
        self.since.get_or_insert(seq);
        self.decoders.note(tx, position.format)?;
        if position.is_row {
            let odd = row::problems(tx, position, seq, &mut draft)?;
            draft.problems.extend(odd);
        }
        let mut state = self.source_states.before(tx, position)?;
        let mut session = state.session;
        for (ordinal, entry) in draft.entries.into_iter().enumerate() {
            let id = EntryId::of(seq, ordinal);
            let same_as = draft.same_as.map(|holder| EntryId::of(holder, ordinal));
            session =
                self.entry(tx, inserts, position, &mut state, id, same_as, entry)?.or(session);
        }
        for problem in &draft.problems {
            self.problem(tx, EntryId::of(seq, 0), position.source, session, problem)?;
        }
        self.source_states.advance(position, state);
        Ok(())
    }

    /// Projects a record of the journal.
    pub(crate) fn event(&mut self, tx: &Transaction<'_>, seq: Seq, event: &Event) -> Result<()> {
        let Some(source) = event.source() else { return senders::project_event(tx, seq, event) };
        if crate::truth::forgotten::is_forgotten(tx, source)? {
            return Ok(());
        }
        self.decoders.note_source(tx, source)?;
        match event {
            Event::Key { key, session, parent_key, is_subagent, fields, .. } => {
                self.sessions.save(tx)?;
                let event = keys::KeyEvent {
                    key,
                    session: session.as_deref(),
                    parent_key: parent_key.as_deref(),
                    is_subagent: *is_subagent,
                    fields,
                };
                return keys::project_event(tx, seq, source, &event);
            }
            Event::Native { key, session, patch, .. } => {
                self.sessions.save(tx)?;
                return keys::patch(tx, seq, source, key, session, patch);
            }
            Event::IndexProblems { problems, .. } => {
                for (kind, detail) in problems {
                    let known = ProblemKind::ALL.iter().find(|known| known.as_str() == kind);
                    if let Some(kind) = known {
                        let problem = Problem::new(*kind, detail.as_str());
                        self.problem(tx, EntryId::of(seq, 0), source, None, &problem)?;
                    }
                }
                return Ok(());
            }
            _ => {}
        }
        if let Event::Generation { copy_of: Some(original), .. } = event {
            self.add_copied_session(tx, seq, source, SourceId(*original))?;
        }
        self.sessions.save(tx)?;
        self.sessions.mark_source_changed(tx, source)?;
        let problem = match event {
            Event::Generation { number, began, .. } => {
                let kind = match began.as_str() {
                    "truncated" => ProblemKind::SourceTruncated,
                    "replaced" => ProblemKind::SourceReplaced,
                    "rewritten" => ProblemKind::SourceRewritten,
                    _ => return Ok(()),
                };
                Problem::new(kind, format!("generation {number} began"))
            }
            Event::Damaged { what, .. } => Problem::new(ProblemKind::DamagedArchive, what),
            _ => return Ok(()),
        };
        let session: Option<SessionRow> = tx
            .prepare_cached("SELECT min(session) FROM session_sources WHERE source = ?1")?
            .query_row([source], |row| row.get(0))?;
        self.problem(tx, EntryId::of(seq, 0), source, session, &problem)
    }

    /// Writes the rows of sessions, so that statements of the same transaction see them.
    pub(crate) fn save_sessions(&mut self, tx: &Transaction<'_>) -> Result<()> {
        self.sessions.save(tx)?;
        self.sessions.save_states(tx)
    }

    /// Writes everything that is only in memory. Must be called before every commit.
    pub(crate) fn save(&mut self, tx: &Transaction<'_>) -> Result<()> {
        let page_size = match self.words.is_empty() {
            true => 0,
            false => quipu_fts5::page_size(tx)?,
        };
        let (words, sessions, turns) = (&self.words, &mut self.sessions, &mut self.turns);
        // Another thread merges the words in the meantime.
        let pages = thread::scope(|scope| {
            let merging = words.is_worth_a_thread().then(|| scope.spawn(|| words.merge(page_size)));
            sessions.save(tx)?;
            sessions.save_states(tx)?;
            turns.save(tx)?;
            sessions.recount(tx)?;
            match merging.map(thread::ScopedJoinHandle::join) {
                Some(Ok(merged)) => merged,
                // If that thread panicked, this one meets the same error.
                Some(Err(_)) | None => words.merge(page_size),
            }
            .map_err(crate::Error::from)
        })?;
        search::merge(tx)?;
        self.words.write(tx, &pages)?;
        self.source_states.save(tx)
    }

    /// Drops the state in memory, because another connection may have changed the ledger.
    pub(crate) fn drop_cache(&mut self) {
        *self = Fold { problems: self.problems, since: self.since, ..Fold::default() };
    }

    /// Adds the session of a source that is a copy of another. The copy has no new records.
    fn add_copied_session(
        &mut self,
        tx: &Transaction<'_>,
        seq: Seq,
        source: SourceId,
        original: SourceId,
    ) -> Result<()> {
        let (format, path): (String, Vec<u8>) = tx
            .prepare_cached("SELECT format, first_path FROM sources WHERE id = ?1")?
            .query_row([source], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some(format) = format::by_name(&format) else { return Ok(()) };
        let origin = format.origin(&path);
        let Some(name) = Name::of(format, &origin) else { return Ok(()) };
        // The original's session is looked up by its row.
        self.sessions.save(tx)?;
        let name = self.copied_name(tx, format, &origin, original, name)?;
        let session = self.sessions.get(tx, &name, SessionRow(seq.0))?;
        session.add_source(tx, source, &origin)?;
        let original_id: Option<String> = tx
            .prepare_cached(
                "SELECT s.session_id FROM session_sources ss JOIN sessions s ON s.id = ss.session
                  WHERE ss.source = ?1 AND s.id <> ?2 ORDER BY s.id LIMIT 1",
            )?
            .query_row((original, session.row), |row| row.get(0))
            .optional()?;
        if let Some(id) = original_id {
            session.set_fact(&Fact::ForkOf(id.into()));
        }
        Ok(())
    }

    /// Subtracts the solved problems of these entries. Problems from before counting began are not
    /// part of the count.
    fn subtract_problems(&mut self, entries: &[EntryId]) {
        let is_ours = |entry: &&EntryId| entry.seq() >= self.since;
        let ours = entries.iter().filter(is_ours).count();
        self.problems = self.problems.saturating_sub(ours as u64);
    }

    fn problem(
        &mut self,
        tx: &Transaction<'_>,
        entry: EntryId,
        source: SourceId,
        session: Option<SessionRow>,
        problem: &Problem,
    ) -> Result<()> {
        self.problems += u64::from(rows::note_problem(tx, entry, source, session, problem)?);
        Ok(())
    }
}
