//! Compacts sessions: plans without a lock, has notes and a summary made, and appends one entry.
//!
//! No lock is held while a summary is made, so that no writer waits for a model. Entries that are
//! appended meanwhile stay in the context. Never deletes or changes an entry.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use quipu_transcript::compaction::{self as pure, Budget, NoPlan};
use quipu_transcript::context::{At, PathEntries, Reader};
use quipu_transcript::native::NewEntry;
use quipu_transcript::prices::plain_name;
use quipu_transcript::routing::settings::{Compaction, CompactionMode};
use rusqlite::OptionalExtension;
use serde_json::json;

use super::append::{Append, AppendRequest};
use super::events::{Phase, StoreEvent};
use super::flush::failed_in_cycle;
use super::session::Session;
use super::summarise::{Summaries, Summariser, summarise};
use super::{Fields, Store, fork, meta_of};
use crate::base::ids::{Seq, SessionRow};
use crate::file::ledger::Ledger;
use crate::read::query;
use crate::truth::chunks::RecordReader;
use crate::wire::{Appended, Compacted, Flush, Headroom, Reason, WindowFrom};
use crate::{Error, Result};

/// The settings of a compaction.
#[derive(Debug, Clone, Default)]
pub struct CompactionSettings {
    /// The tokens that are kept free, and the tokens of recent messages that a compaction keeps.
    pub rules: Compaction,
    /// The model's context window in tokens, which overrides everything else.
    pub window: Option<u64>,
    /// The context windows of models in tokens, by name.
    pub windows: BTreeMap<String, u64>,
    /// The workspaces of agents, where the memory flush stores notes. An agent that is not listed
    /// has `workspaces/<agent>` beside the ledger.
    pub workspaces: BTreeMap<String, PathBuf>,
    /// The time zone whose day names a file of notes; UTC if there is none.
    pub zone: Option<TimeZone>,
}

/// The request for a compaction.
#[derive(Debug, Clone, Copy, Default)]
pub struct Compact<'a> {
    /// The topic of the summary, in the words of a person.
    pub instructions: Option<&'a str>,
    /// The tokens of the context, as counted by the model that refused it.
    pub refused: Option<u64>,
    /// True if the compaction is made because the context exceeds its limit.
    pub is_due: bool,
}

impl Compact<'_> {
    fn reason(&self) -> Reason {
        match (self.refused, self.is_due) {
            (Some(_), _) => Reason::Overflow,
            (None, true) => Reason::Threshold,
            (None, false) => Reason::Manual,
        }
    }
}

/// A compaction that was planned for a session.
#[derive(Debug, Clone)]
pub struct CompactionPlan {
    /// The id of the session.
    pub session: String,
    /// The reason for the compaction.
    pub reason: Reason,
    /// The topic of the summary, in the words of a person.
    pub instructions: Option<String>,
    /// The method: in one go, or in pieces.
    pub mode: CompactionMode,
    /// The messages to summarise, and those that stay.
    pub plan: pure::Plan,
    /// The number of compactions that the session had, on all branches.
    compactions: u64,
}

impl Session {
    /// Returns how much of the model's window is used, and when a compaction is due.
    ///
    /// ```
    /// use quipu_ledger::store::CompactionSettings;
    /// use quipu_ledger::{Entry, Store};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let store = Store::open(folder.path().join("ledger.db"))?;
    /// let session = store.session_or_new("agent:main:main")?;
    /// session.append(Entry::user("hello"))?;
    /// let settings = CompactionSettings { window: Some(200_000), ..Default::default() };
    /// let headroom = session.headroom(&settings)?;
    /// assert_eq!((headroom.context_tokens, headroom.limit_tokens), (2, Some(176_000)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn headroom(&self, settings: &CompactionSettings) -> Result<Headroom> {
        let entries = self.store.core().path_entries(&self.native)?;
        Ok(headroom(&entries, settings, &self.meta_fields()?))
    }

    /// Plans a compaction. `None` if there is nothing to summarise.
    ///
    /// Fails with [`Error::TooLong`] if a model refused the context and not even its last message
    /// fits.
    pub fn plan_compaction(
        &self,
        settings: &CompactionSettings,
        wanted: &Compact<'_>,
    ) -> Result<Option<CompactionPlan>> {
        let entries = self.store.core().path_entries(&self.native)?;
        plan(&self.native.id, entries, settings, &self.meta_fields()?, wanted)
    }

    /// Lets the summariser make a summary, and appends the compaction to the current leaf.
    ///
    /// If the leaf no longer comes after the planned one, or if the session was compacted or reset
    /// meanwhile, nothing is written ([`Error::Conflict`]). The same plan is stored once: a repeated
    /// call makes no summary and returns the first entry. If there is no usable summary, nothing is
    /// written ([`Error::Summary`]).
    ///
    /// ```
    /// use quipu_ledger::store::{Compact, CompactionSettings, Digest};
    /// use quipu_ledger::{Entry, Store};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let store = Store::open(folder.path().join("ledger.db"))?;
    /// let session = store.session_or_new("agent:main:main")?;
    /// for _ in 0..9 {
    ///     session.append(Entry::user(&"Count the knots. ".repeat(1000)))?;
    ///     session.append(Entry::assistant("There are 7."))?;
    /// }
    /// let plan = session.plan_compaction(&CompactionSettings::default(), &Compact::default())?;
    /// let compacted = session.compact(&plan.ok_or("nothing to compact")?, &Digest)?;
    /// assert_eq!(compacted.tokens_before, 38_277);
    /// assert_eq!(session.context()?.messages[0].role(), "compactionSummary");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compact(&self, plan: &CompactionPlan, summariser: &dyn Summariser) -> Result<Compacted> {
        let key = plan.key();
        if plan.session != self.native.id {
            return Err(Error::refused("the plan was made for another session"));
        }
        if let Some(before) = self.entry_of_key(&key)? {
            return Ok(plan.compacted(before, None));
        }
        self.emit_compaction(plan, Phase::Start, None);
        let compacted =
            plan.summary(summariser).and_then(|made| self.append_summary(plan, &key, made));
        match &compacted {
            Ok(compacted) => self.emit_compaction(plan, Phase::End, Some(compacted)),
            Err(_) => self.emit_compaction(plan, Phase::Failed, None),
        }
        compacted
    }

    pub(super) fn emit_compaction(
        &self,
        plan: &CompactionPlan,
        phase: Phase,
        entry: Option<&Compacted>,
    ) {
        self.store.listeners.emit(&StoreEvent::Compaction {
            session_id: self.native.id.clone(),
            phase,
            reason: plan.reason,
            tokens_before: plan.plan.tokens_before,
            tokens_after: entry.and_then(|entry| entry.tokens_after),
            entry_id: entry.map(|entry| entry.appended.id.clone()),
        });
    }

    /// Appends the compaction of a plan with its summary.
    pub(super) fn append_summary(
        &self,
        plan: &CompactionPlan,
        key: &str,
        (summary, made): (String, Summaries),
    ) -> Result<Compacted> {
        let note = json!({
            "reason": plan.reason,
            "summariser": made.summariser,
            "chunks": made.chunks,
            "tries": made.tries,
        });
        let entry = NewEntry::read(&plan.plan.entry(&summary, &note))?;
        let request = AppendRequest {
            entry: &entry,
            conditions: Append { key: Some(key), ..Append::default() },
            begins_turn: false,
            continues: Some(&plan.plan.leaf),
        };
        let appended = self.store.core().append_unprojected(&self.native, &request);
        match appended {
            // Another process has stored the same plan, with another summary.
            Err(Error::KeyUsed { .. }) => match self.entry_of_key(key)? {
                Some(before) => Ok(plan.compacted(before, None)),
                None => Err(Error::damaged("a key without its record")),
            },
            Err(error) => Err(error),
            Ok(appended) => {
                let after = (!appended.repeated).then(|| plan.plan.tokens_after(&summary));
                let compacted = plan.compacted(appended, after);
                Ok(Compacted { digest_reason: made.digest_because, ..compacted })
            }
        }
    }

    /// Plans a compaction and makes it. `None` if there is nothing to summarise.
    ///
    /// Before that, the model is asked for notes ([`Session::flush`]) if the settings ask for it and
    /// it was not asked since the last compaction. A flush that fails does not stop the compaction.
    ///
    /// If a model refused the context and the summary does not fit either, half as much is kept and
    /// the compaction is tried again, until it fits or nothing is kept.
    pub fn compact_now(
        &self,
        settings: &CompactionSettings,
        wanted: &Compact<'_>,
        summariser: &dyn Summariser,
    ) -> Result<Option<Compacted>> {
        let mut settings = settings.clone();
        let mut memory_flush = None;
        loop {
            let Some(plan) = self.plan_compaction(&settings, wanted)? else { return Ok(None) };
            if memory_flush.is_none() && self.flushes_before(&settings, wanted)? {
                let flush = self.flush(&settings, summariser);
                let failed = |error: Error| Flush::Failed { reason: error.to_string() };
                memory_flush = Some(flush.unwrap_or_else(failed));
            }
            match self.compact(&plan, summariser) {
                Err(Error::SummaryTooLong { .. }) if plan.plan.budget.keep > 0 => {
                    settings.rules.keep_recent_tokens = Some(plan.plan.budget.keep / 2);
                }
                Err(error) => return Err(error),
                Ok(compacted) => return Ok(Some(Compacted { memory_flush, ..compacted })),
            }
        }
    }

    /// Returns whether notes are asked for before a compaction. An append that has already waited for
    /// a flush that failed does not wait for a second one.
    fn flushes_before(&self, settings: &CompactionSettings, wanted: &Compact<'_>) -> Result<bool> {
        let is_on = pure::flushes(&settings.rules);
        Ok(is_on && !(wanted.is_due && failed_in_cycle(&self.meta_fields()?)))
    }

    pub(super) fn meta_fields(&self) -> Result<Fields> {
        let row = self.native.row;
        self.store.read_caught_up(&mut |ledger| meta_of(ledger, row))
    }

    /// Returns the entry that was appended with an idempotency key.
    fn entry_of_key(&self, key: &str) -> Result<Option<Appended>> {
        let generation = self.native.generation;
        self.store.read_caught_up(&mut |ledger| {
            let conn = ledger.conn();
            let seq: Option<Seq> = conn
                .prepare_cached("SELECT seq FROM records WHERE generation = ?1 AND key = ?2")?
                .query_row((generation, key), |row| row.get(0))
                .optional()?;
            let Some(seq) = seq else { return Ok(None) };
            let line = RecordReader::new(conn).read(seq)?;
            let id = quipu_transcript::native::id_in(&String::from_utf8_lossy(&line));
            let leaf = super::tree::leaf(conn, self.native.row)?.map(|leaf| leaf.id);
            let id = id.unwrap_or_default();
            Ok(Some(Appended { repeated: true, ..Appended::new(id, seq, leaf) }))
        })
    }
}

impl CompactionPlan {
    /// Returns the number of pieces that are summarised one after the other.
    pub fn chunks(&self) -> usize {
        let most = match self.mode {
            CompactionMode::Default => u64::MAX,
            CompactionMode::Safeguard => self.plan.chunk_tokens(),
        };
        let requests = self.plan.requests(None);
        requests.iter().map(|request| pure::chunks(request.messages, most).len()).sum()
    }

    /// Lets the summariser make the summary. If a model refused the context, it has to fit with the
    /// summary.
    pub(super) fn summary(&self, summariser: &dyn Summariser) -> Result<(String, Summaries)> {
        let made = summarise(self, summariser)?;
        let summary = self.plan.summary(&made.parts);
        if self.reason == Reason::Overflow && !self.plan.fits(&summary) {
            let tokens = self.plan.counted_after(&summary);
            let limit = self.plan.budget.limit().unwrap_or_default();
            return Err(Error::SummaryTooLong { summariser: made.summariser, tokens, limit });
        }
        Ok((summary, made))
    }

    /// Returns the idempotency key: the same for the same entries and the same instructions.
    ///
    /// The number of compactions is part of it. Otherwise a session whose leaf was moved back before
    /// its compaction could not be compacted there again.
    pub(super) fn key(&self) -> String {
        let plan = &self.plan;
        let compactions = self.compactions.to_string();
        let parts = [
            &*self.session,
            &plan.leaf,
            &plan.first_kept,
            self.instructions.as_deref().unwrap_or(""),
            &compactions,
        ];
        let mut hash = blake3::Hasher::new();
        for part in parts {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        format!("quipu.compaction:{}", hash.finalize().to_hex())
    }

    fn compacted(&self, appended: Appended, tokens_after: Option<u64>) -> Compacted {
        Compacted {
            appended,
            first_kept_entry_id: self.plan.first_kept.clone(),
            compacted_messages: self.plan.compacted_count,
            tokens_before: self.plan.tokens_before,
            tokens_after,
            digest_reason: None,
            memory_flush: None,
        }
    }
}

/// Returns how much of the model's window a session uses. The session may be a collected one.
pub fn headroom_of(
    ledger: &Ledger,
    session: SessionRow,
    settings: &CompactionSettings,
) -> Result<Headroom> {
    Ok(headroom(&entries_of(ledger, session)?, settings, &meta_of(ledger, session)?))
}

/// Plans the compaction of a session. A collected one can be planned, but has to be forked before
/// it is compacted.
pub fn plan_compaction_of(
    ledger: &Ledger,
    session: SessionRow,
    settings: &CompactionSettings,
    wanted: &Compact<'_>,
) -> Result<Option<CompactionPlan>> {
    let entries = entries_of(ledger, session)?;
    let fields = meta_of(ledger, session)?;
    let id = fields.get("sessionId").and_then(|id| id.as_str().map(str::to_owned));
    plan(&id.unwrap_or_default(), entries, settings, &fields, wanted)
}

/// Returns the entries of a session's context. If the lines of its format are not native ones,
/// returns the entries that a fork would have.
pub(super) fn entries_of(ledger: &Ledger, session: SessionRow) -> Result<PathEntries> {
    if let Some(entries) = query::context::path_entries(ledger, session)? {
        return Ok(entries);
    }
    Ok(entries_of_fork(&fork::lines_of_fork(ledger, session)?))
}

/// Returns the entries of a fork with these lines.
pub(super) fn entries_of_fork(lines: &[String]) -> PathEntries {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    let mut read = quipu_transcript::context::Session::new(Reader::OPENCLAW);
    read.extend(&lines);
    let plan = read.path_plan(At::Leaf);
    plan.map(|plan| plan.fill(&|number| lines.get(number).copied())).unwrap_or_default()
}

pub(super) fn plan(
    session: &str,
    entries: PathEntries,
    settings: &CompactionSettings,
    fields: &Fields,
    wanted: &Compact<'_>,
) -> Result<Option<CompactionPlan>> {
    let (window, _) = window(&entries, settings, fields).unzip();
    // The window is less than the context that was refused, whatever was known of it.
    let window = window.into_iter().chain(wanted.refused).min();
    let budget = Budget::new(&settings.rules, window);
    match pure::Plan::new(entries, budget, wanted.refused) {
        Ok(plan) => Ok(Some(CompactionPlan {
            session: session.to_owned(),
            reason: wanted.reason(),
            instructions: wanted.instructions.map(str::to_owned),
            mode: settings.rules.mode.unwrap_or(CompactionMode::Default),
            plan,
            compactions: fields.get("compactionCount").and_then(|it| it.as_u64()).unwrap_or(0),
        })),
        Err(NoPlan::Nothing) => Ok(None),
        Err(NoPlan::TooLong { tokens, limit }) => Err(Error::TooLong { tokens, limit }),
    }
}

fn headroom(entries: &PathEntries, settings: &CompactionSettings, fields: &Fields) -> Headroom {
    let (window, window_from) = window(entries, settings, fields).unzip();
    let budget = Budget::new(&settings.rules, window);
    let estimate = pure::estimate(entries);
    let limit = budget.limit();
    let model = entries.model();
    Headroom {
        context_tokens: estimate.tokens,
        counted_tokens: estimate.counted,
        messages: entries.message_count(),
        model: model.and_then(|model| model.model_id.clone()),
        provider: model.and_then(|model| model.provider.clone()),
        window_tokens: budget.window,
        reserve_tokens: budget.reserve,
        keep_tokens: budget.keep,
        window_from,
        limit_tokens: limit,
        left_tokens: limit.map(|limit| limit.saturating_sub(estimate.tokens)),
        is_due: budget.is_due(estimate.tokens),
    }
}

/// Returns the context window of the session's model, in tokens.
pub(super) fn window(
    entries: &PathEntries,
    settings: &CompactionSettings,
    fields: &Fields,
) -> Option<(u64, WindowFrom)> {
    let is_some = |window: &u64| *window > 0;
    if let Some(window) = settings.window.filter(is_some) {
        return Some((window, WindowFrom::Call));
    }
    let of_session = fields.get("contextTokens").and_then(|tokens| tokens.as_u64());
    if let Some(window) = of_session.filter(is_some) {
        return Some((window, WindowFrom::Session));
    }
    let model = entries.model()?.model_id.as_deref()?;
    let configured = settings.windows.get(model);
    let configured = configured.or_else(|| settings.windows.get(&plain_name(model)));
    if let Some(window) = configured.copied().filter(is_some) {
        return Some((window, WindowFrom::Configuration));
    }
    pure::window_of(model).map(|window| (window, WindowFrom::List))
}

impl Store {
    /// Sets the limits by which appends report that a compaction is due
    /// ([`Appended::compaction_due`]). Without limits, they never do.
    pub fn set_compaction(&self, settings: Option<CompactionSettings>) {
        self.core().sizes.set(settings);
    }

    /// Returns the number of times that a whole context was counted for these reports. Usually a
    /// session is counted once, and each append adds its own size.
    pub fn contexts_counted(&self) -> u64 {
        self.core().sizes.counted()
    }
}
