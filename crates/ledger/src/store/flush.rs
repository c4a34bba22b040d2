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
use super::summarise::Summariser;
use super::{Fields, meta_of, sessions};
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
    let number = |name| fields.get(name).and_then(|value| value.as_i64());
    number("memoryFlushCompactionCount")
        .is_some_and(|count| count == number("compactionCount").unwrap_or_default())
}

/// Returns whether the last flush failed. Then the next one waits for the compaction, so that not
/// every append waits for a summariser that cannot answer.
pub(super) fn has_failed(fields: &Fields) -> bool {
    failures(fields) > 0
}

fn failures(fields: &Fields) -> i64 {
    let failures = fields.get("memoryFlushFailureCount").and_then(|count| count.as_i64());
    failures.unwrap_or_default()
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
            plan => self.ask_and_store(&plan, summariser, now_ms)?,
        };
        self.store.core().sizes.flushed(&self.native);
        Ok(flush)
    }

    fn flush_plan(&self, settings: &CompactionSettings, now_ms: i64) -> Result<FlushPlan> {
        let entries = self.store.core().path_entries(&self.native)?;
        let ledger = self.store.core().ledger.path().to_owned();
        plan(entries, &self.meta_fields()?, &self.native.agent, &ledger, settings, now_ms)
    }

    fn ask_and_store(
        &self,
        plan: &FlushPlan,
        summariser: &dyn Summariser,
        now_ms: i64,
    ) -> Result<Flush> {
        let Some(answer) = summariser.answer(&plan.question()) else {
            return Ok(Flush::Skipped { summariser: summariser.name().to_owned() });
        };
        let failed = |why: &str| Flush::Failed {
            reason: format!("the summariser `{}` failed: {why}", summariser.name()),
        };
        let flush = match answer.as_deref().map(pure::notes) {
            Err(why) => failed(why),
            Ok(Notes::Unusable(why)) => failed(why),
            Ok(Notes::Nothing) => Flush::Nothing,
            // Another process has made it while the model answered.
            Ok(Notes::Text(_)) if was_flushed(&self.meta_fields()?) => return Ok(Flush::Done),
            Ok(Notes::Text(notes)) => match plan.place.append(&notes) {
                Ok(bytes) => Flush::Stored { path: plan.file.display().to_string(), bytes },
                Err(reason) => Flush::Failed { reason },
            },
        };
        self.note_flush(&flush, now_ms)?;
        let (session_id, noted) = (self.native.id.clone(), flush.clone());
        self.store.listeners.emit(&StoreEvent::MemoryFlush { session_id, flush: noted });
        Ok(flush)
    }

    /// Records a flush in the metadata. A session to which no key leads has no metadata.
    fn note_flush(&self, flush: &Flush, now_ms: i64) -> Result<()> {
        if self.key()?.is_none() {
            return Ok(());
        }
        let fields = self.meta_fields()?;
        let patch = match flush {
            Flush::Failed { .. } => json!({
                "memoryFlushFailureCount": failures(&fields).saturating_add(1),
                "memoryFlushLastFailedAt": now_ms,
            }),
            _ => json!({
                "memoryFlushAt": now_ms,
                "memoryFlushCompactionCount":
                    fields.get("compactionCount").and_then(|count| count.as_i64()).unwrap_or(0),
                "memoryFlushFailureCount": null,
                "memoryFlushLastFailedAt": null,
            }),
        };
        match patch {
            serde_json::Value::Object(patch) => self.patch_meta(&patch).map(drop),
            _ => Ok(()),
        }
    }
}
