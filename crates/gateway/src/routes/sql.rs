//! A read-only SQL query. One runs at a time, because it may use much memory.

use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use quipu_ledger::answer::SqlRow;
use quipu_ledger::freshness::{Reader, RefreshLimit};
use quipu_ledger::query::{self, SqlAnswer, SqlLimits};
use serde::Deserialize;

use crate::answer::{Answer, ListBuilder};
use crate::call::{Call, Page};
use crate::problem::Problem;

/// The time after which a query is ended. It is shorter than that of a request, so that the answer
/// has the reason.
const MAX_TIME: Duration = Duration::from_secs(25);

/// Held while a query runs.
static RUNNING: Mutex<()> = Mutex::new(());

/// Answers like `quipu sql --json`. `is_cut` is true if there are more rows.
pub(crate) fn sql(call: &Call<'_>) -> Result<Answer, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {
        q: String,
        limit: Option<usize>,
    }
    let Options { q, limit } = call.options()?;
    call.refuse_bound()?;
    let _running = match RUNNING.try_lock() {
        Ok(running) => running,
        Err(TryLockError::Poisoned(panicked)) => panicked.into_inner(),
        Err(TryLockError::WouldBlock) => return Err(Problem::busy("another SQL query runs")),
    };
    // The statement gets a connection of its own, which it may restrict.
    let mut reader = Reader::read_only(call.ledger.path())?;
    let freshness = reader.refresh(&[], "", RefreshLimit::None, &mut |_| {})?;
    let limits = SqlLimits { stop: Arc::default(), longest: Some(MAX_TIME) };
    let mut rows = ListBuilder::new(Page { limit, cursor: None }.limit());
    let (mut keys, mut is_cut, mut failed) = (Vec::new(), false, None);
    query::sql(reader.ledger, &q, &limits, &mut |answer| match answer {
        SqlAnswer::Columns(names) => {
            keys = SqlRow::keys(names);
            true
        }
        SqlAnswer::Row(values) => {
            match rows.add(&SqlRow { keys: &keys, values, freshness: None }) {
                Ok(is_added) => {
                    is_cut = !is_added;
                    is_added
                }
                Err(problem) => {
                    failed = Some(problem);
                    false
                }
            }
        }
    })?;
    match failed {
        Some(problem) => Err(problem),
        None => rows.finish_cut(is_cut, &freshness),
    }
}
