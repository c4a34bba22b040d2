//! Compacts forks: makes the summary of a session first, and only then the fork.
//!
//! If there is no summary, there is no fork either, so that a call that fails leaves nothing behind.

use quipu_transcript::compaction as pure;
use quipu_transcript::context::PathEntries;

use super::compact::{
    Compact, CompactionPlan, CompactionSettings, entries_of, entries_of_fork, plan,
};
use super::events::Phase;
use super::flush::{ask, plan_flush_of_fork};
use super::fork::{self, Fork, Forked, NewLine};
use super::summarise::Summariser;
use super::{Store, meta_of};
use crate::base::clock;
use crate::base::ids::SessionRow;
use crate::file::ledger::Ledger;
use crate::read::query;
use crate::wire::{Compacted, Flush};
use crate::{Error, Result};

/// A fork that was not made yet.
struct PlannedFork {
    lines: Vec<NewLine>,
    unmapped: u64,
    plan: CompactionPlan,
}

impl Store {
    /// Forks a session and compacts the fork, in one call: the way to continue a long collected
    /// session. `None` if there is nothing to summarise; then nothing is forked.
    ///
    /// The fork is made after the summary, with the entries that were summarised: nothing is forked
    /// without a summary.
    pub fn compact_fork(
        &self,
        name: &str,
        fork: &Fork<'_>,
        settings: &CompactionSettings,
        wanted: &Compact<'_>,
        summariser: &dyn Summariser,
    ) -> Result<Option<(Forked, Compacted)>> {
        let from = query::find_session(&self.core().ledger, name)?;
        let now_ms = clock::now_ms();
        let mut settings = settings.clone();
        let mut asked = None;
        let (planned, made) = loop {
            let planned = self.read_caught_up(&mut |ledger| {
                PlannedFork::of(ledger, from, fork, &settings, wanted)
            })?;
            let Some(planned) = planned else { return Ok(None) };
            if asked.is_none() && pure::flushes(&settings.rules) {
                let question = self.read_caught_up(&mut |ledger| {
                    let entries = entries(ledger, from, fork)?;
                    let fields = meta_of(ledger, from)?;
                    plan_flush_of_fork(entries, &fields, ledger.path(), &settings, now_ms)
                })?;
                asked = Some(ask(&question, summariser));
            }
            match planned.plan.summary(summariser) {
                Err(Error::SummaryTooLong { .. }) if planned.plan.plan.budget.keep > 0 => {
                    settings.rules.keep_recent_tokens = Some(planned.plan.plan.budget.keep / 2);
                }
                made => break (planned, made?),
            }
        };
        let PlannedFork { lines, unmapped, mut plan } = planned;
        let native = self.write(&mut |work| fork::create(work, from, fork, &lines))?;
        let session = self.open_session(native);
        plan.session = session.id().to_owned();
        // The last entry of the session may be a label, which a fork has at another place.
        plan.plan.leaf = session.leaf()?.map(|leaf| leaf.id).unwrap_or_default();
        let memory_flush = asked.map(|asked| {
            let stored = session
                .flush_plan(&settings, now_ms)
                .and_then(|flush| session.store_notes(&flush, asked, now_ms));
            stored.unwrap_or_else(|error| Flush::Failed { reason: error.to_string() })
        });
        session.emit_compaction(&plan, Phase::Start, None);
        let compacted = session.append_summary(&plan, &plan.key(), made).inspect_err(|_| {
            session.emit_compaction(&plan, Phase::Failed, None);
        })?;
        session.emit_compaction(&plan, Phase::End, Some(&compacted));
        let compacted = Compacted { memory_flush, ..compacted };
        Ok(Some((Forked { session, unmapped }, compacted)))
    }
}

impl PlannedFork {
    fn of(
        ledger: &Ledger,
        from: SessionRow,
        fork: &Fork<'_>,
        settings: &CompactionSettings,
        wanted: &Compact<'_>,
    ) -> Result<Option<PlannedFork>> {
        let entries = entries(ledger, from, fork)?;
        let Some(plan) = plan("", entries, settings, &meta_of(ledger, from)?, wanted)? else {
            return Ok(None);
        };
        let (lines, unmapped) = fork::path(ledger, from, fork.at)?;
        Ok(Some(PlannedFork { lines, unmapped, plan }))
    }
}

/// Returns the entries that the context of a fork would have.
fn entries(ledger: &Ledger, from: SessionRow, fork: &Fork<'_>) -> Result<PathEntries> {
    match fork.at {
        None => entries_of(ledger, from),
        Some(_) => {
            let (lines, _) = fork::path(ledger, from, fork.at)?;
            let lines: Vec<String> = lines.into_iter().map(|line| line.text).collect();
            Ok(entries_of_fork(&lines))
        }
    }
}
