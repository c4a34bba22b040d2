//! The memory flush: before older messages leave the context, a model may store notes about them in
//! a file of the agent's workspace.
//!
//! It is made once between two compactions. No lock is held while the model answers. A flush that
//! fails is counted in the metadata, and stops nothing else.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use quipu_transcript::compaction::{self as pure, Budget, Notes, Question};
use quipu_transcript::context::PathEntries;
use serde_json::json;

use super::compact::{CompactionSettings, entries_of, window};
use super::events::StoreEvent;
use super::session::Session;
use super::sessions::{bind, key_of};
use super::summarise::Summariser;
use super::{Fields, meta, meta_of, sessions};
use crate::Result;
use crate::base::clock;
use crate::base::ids::SessionRow;
use crate::base::target::Target;
use crate::file::ledger::Ledger;
use crate::wire::Flush;

/// A memory flush that was not made yet.
#[derive(Debug)]
pub struct FlushPlan {
    /// The file that notes are appended to.
    pub file: PathBuf,
    /// The day in its name.
    pub day: String,
    /// The prompt, as configured.
    pub prompt: String,
    /// True if it was made before, since the last compaction.
    pub is_done: bool,
    /// The tokens of the context.
    pub tokens: u64,
    /// The tokens at which it becomes due; `None` if the model's window is not known.
    pub limit: Option<u64>,
    /// The tokens that the messages may have in the question.
    max_tokens: Option<u64>,
    entries: PathEntries,
    place: Place,
}

impl FlushPlan {
    /// Returns the number of messages that the question is about.
    pub fn messages(&self) -> usize {
        pure::messages(&self.entries).len()
    }

    /// Returns the question for the model.
    pub fn question(&self) -> Question<'_> {
        Question {
            messages: pure::messages(&self.entries),
            prompt: &self.prompt,
            day: &self.day,
            max_tokens: self.max_tokens,
        }
    }
}

/// Plans the memory flush of a session. A collected session has none ([`crate::Error::Collected`]).
pub fn plan_flush_of(
    ledger: &Ledger,
    session: SessionRow,
    settings: &CompactionSettings,
) -> Result<FlushPlan> {
    let agent = sessions::by_row(ledger.conn(), session)?.agent;
    let fields = meta_of(ledger, session)?;
    let entries = entries_of(ledger, session)?;
    plan(entries, &fields, &agent, ledger.path(), settings, clock::now_ms())
}

/// Plans the question for the notes of a fork that is made later. Its file is not known yet.
pub(super) fn plan_flush_of_fork(
    entries: PathEntries,
    fields: &Fields,
    ledger: &Path,
    settings: &CompactionSettings,
    now_ms: i64,
) -> Result<FlushPlan> {
    plan(entries, fields, sessions::MAIN, ledger, settings, now_ms)
}

fn plan(
    entries: PathEntries,
    fields: &Fields,
    agent: &str,
    ledger: &Path,
    settings: &CompactionSettings,
    now_ms: i64,
) -> Result<FlushPlan> {
    let window = window(&entries, settings, fields).map(|(window, _)| window);
    let budget = Budget::new(&settings.rules, window);
    let day = day(now_ms, settings.zone.clone().unwrap_or(TimeZone::UTC));
    let place = Place::of(agent, ledger, settings, &day);
    Ok(FlushPlan {
        file: place.folder.join(&place.path),
        day,
        prompt: pure::flush_prompt(&settings.rules).to_owned(),
        is_done: was_flushed(fields),
        tokens: pure::estimate(&entries).tokens,
        limit: pure::flush_limit(&settings.rules, &budget),
        max_tokens: budget.limit(),
        entries,
        place,
    })
}

/// Returns the day of a time in a zone.
fn day(now_ms: i64, zone: TimeZone) -> String {
    let now = Timestamp::from_millisecond(now_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    now.to_zoned(zone).date().to_string()
}

/// The place of a file of notes.
#[derive(Debug)]
struct Place {
    /// The folder that is opened by its path. Beneath it, no link is followed.
    folder: PathBuf,
    path: PathBuf,
}

impl Place {
    fn of(agent: &str, ledger: &Path, settings: &CompactionSettings, day: &str) -> Place {
        let path = Path::new("memory").join(format!("{day}.md"));
        let Some(workspace) = settings.workspaces.get(agent) else {
            let folder = ledger.parent().unwrap_or(Path::new("")).to_owned();
            return Place { folder, path: Path::new("workspaces").join(agent).join(path) };
        };
        // The workspace itself must not be a link either.
        match (workspace.parent(), workspace.file_name()) {
            (Some(folder), Some(name)) => {
                Place { folder: folder.to_owned(), path: Path::new(name).join(path) }
            }
            _ => Place { folder: workspace.clone(), path },
        }
    }

    fn append(&self, notes: &str) -> Result<usize, String> {
        let failed = |error: std::io::Error| {
            format!("cannot write {}: {error}", self.folder.join(&self.path).display())
        };
        let target = Target::open(&self.folder).map_err(failed)?;
        target.append_line(&self.path, notes).map_err(failed)
    }
}

/// Returns whether a memory flush was made since the last compaction.
pub(super) fn was_flushed(fields: &Fields) -> bool {
    number(fields, "memoryFlushCompactionCount") == Some(compactions(fields))
}

/// Returns whether a memory flush failed since the last compaction. Then a compaction that is due
/// does not ask again, so that an append waits for one answer at most.
pub(super) fn failed_in_cycle(fields: &Fields) -> bool {
    number(fields, "memoryFlushFailedCompactionCount") == Some(compactions(fields))
}

fn compactions(fields: &Fields) -> i64 {
    number(fields, "compactionCount").unwrap_or_default()
}

fn number(fields: &Fields, name: &str) -> Option<i64> {
    fields.get(name).and_then(|value| value.as_i64())
}

/// Returns whether the last flush failed. Then the next one waits for the compaction, so that not
/// every append waits for a summariser that cannot answer.
pub(super) fn has_failed(fields: &Fields) -> bool {
    failures(fields) > 0
}

fn failures(fields: &Fields) -> i64 {
    number(fields, "memoryFlushFailureCount").unwrap_or_default()
}

impl Session {
    /// Asks the summariser's model for notes about the session, and appends them to
    /// `memory/YYYY-MM-DD.md` of the agent's workspace.
    ///
    /// This is done once between two compactions. An answer of `NO_REPLY` stores nothing. If the
    /// summariser or the workspace fails, this call returns [`Flush::Failed`] and counts the
    /// failure in the metadata.
    pub fn flush(
        &self,
        settings: &CompactionSettings,
        summariser: &dyn Summariser,
    ) -> Result<Flush> {
        self.flush_at(settings, summariser, clock::now_ms())
    }

    /// Makes a flush at the given time. The file is the one that the model was asked about, even if
    /// the model answers after midnight.
    pub(super) fn flush_at(
        &self,
        settings: &CompactionSettings,
        summariser: &dyn Summariser,
        now_ms: i64,
    ) -> Result<Flush> {
        let flush = match self.flush_plan(settings, now_ms)? {
            plan if plan.is_done => Flush::Done,
            plan if plan.messages() == 0 => Flush::Nothing,
            plan => self.store_notes(&plan, ask(&plan, summariser), now_ms)?,
        };
        self.store.core().sizes.flushed(&self.native);
        Ok(flush)
    }

    pub(super) fn flush_plan(
        &self,
        settings: &CompactionSettings,
        now_ms: i64,
    ) -> Result<FlushPlan> {
        let entries = self.store.core().path_entries(&self.native)?;
        let ledger = self.store.core().ledger.path().to_owned();
        plan(entries, &self.meta_fields()?, &self.native.agent, &ledger, settings, now_ms)
    }

    /// Stores the notes of an answer, unless those of another one were stored meanwhile.
    ///
    /// The flush is recorded first: of several calls at once, only one stores notes. If the process
    /// ends in between, the notes are lost, and the model is asked again in the next cycle.
    pub(super) fn store_notes(
        &self,
        plan: &FlushPlan,
        asked: Result<Notes, Flush>,
        now_ms: i64,
    ) -> Result<Flush> {
        let earlier = failures(&self.meta_fields()?);
        let flush = match asked {
            Err(skipped @ Flush::Skipped { .. }) => return Ok(skipped),
            Err(failed) => {
                self.note_failure(earlier, now_ms, json!({}))?;
                failed
            }
            Ok(_) if !self.claim_flush(now_ms)? => return Ok(Flush::Done),
            Ok(Notes::Text(notes)) => match plan.place.append(&notes) {
                Ok(bytes) => Flush::Stored { path: plan.file.display().to_string(), bytes },
                Err(reason) => {
                    let unclaim =
                        json!({"memoryFlushAt": null, "memoryFlushCompactionCount": null});
                    self.note_failure(earlier, now_ms, unclaim)?;
                    Flush::Failed { reason }
                }
            },
            Ok(_) => Flush::Nothing,
        };
        let (session_id, noted) = (self.native.id.clone(), flush.clone());
        self.store.listeners.emit(&StoreEvent::MemoryFlush { session_id, flush: noted });
        Ok(flush)
    }

    /// Records in the metadata that the flush of this cycle is made. Returns false if it was made
    /// before. A session to which no key leads has no metadata, so each of its flushes is made.
    fn claim_flush(&self, now_ms: i64) -> Result<bool> {
        let session = &self.native;
        let is_first = self.store.write(&mut |work| {
            super::append::check_not_forgotten(work.tx, session)?;
            let Some(key) = key_of(work.tx, session)? else { return Ok(true) };
            let fields = meta::of(work.tx, session)?;
            if was_flushed(&fields) {
                return Ok(false);
            }
            let claim = json!({
                "memoryFlushAt": now_ms,
                "memoryFlushCompactionCount": compactions(&fields),
                "memoryFlushFailureCount": null,
                "memoryFlushLastFailedAt": null,
                "memoryFlushFailedCompactionCount": null,
            });
            bind(work, session, &key, claim.as_object().cloned().unwrap_or_default().into())?;
            Ok(true)
        })?;
        self.store.core().sizes.drop_cached();
        Ok(is_first)
    }

    /// Counts a flush that failed after `earlier` ones, and changes the metadata by `more`.
    fn note_failure(&self, earlier: i64, now_ms: i64, mut more: serde_json::Value) -> Result<()> {
        if self.key()?.is_none() {
            return Ok(());
        }
        let fields = self.meta_fields()?;
        more["memoryFlushFailureCount"] = earlier.saturating_add(1).into();
        more["memoryFlushLastFailedAt"] = now_ms.into();
        more["memoryFlushFailedCompactionCount"] = compactions(&fields).into();
        self.patch_meta(&more.as_object().cloned().unwrap_or_default()).map(drop)
    }
}

/// Asks the summariser's model. Returns its notes, or the reason why there are none.
pub(super) fn ask(plan: &FlushPlan, summariser: &dyn Summariser) -> Result<Notes, Flush> {
    let name = summariser.name();
    let failed =
        |why: &str| Flush::Failed { reason: format!("the summariser `{name}` failed: {why}") };
    match summariser.answer(&plan.question()) {
        None => Err(Flush::Skipped { summariser: name.to_owned() }),
        Some(Err(why)) => Err(failed(&why)),
        Some(Ok(answer)) => match pure::notes(&answer) {
            Notes::Unusable(why) => Err(failed(why)),
            notes => Ok(notes),
        },
    }
}
