//! The session store as a runtime uses it: appends that are on disk, contexts, metadata, and a crowd
//! of writers.
//!
//! One process appends line by line and answers each, as `quipu session append` does for a script, so
//! what is measured is a call and not the start of a process.

mod append;
mod context;
mod crowd;
mod meta;
mod runtime;

use std::path::PathBuf;

use anyhow::Result;

use crate::measure::Workplace;
use crate::report::Report;

/// What to measure.
pub(crate) struct Plan {
    pub(crate) appends: usize,
    pub(crate) entries: usize,
    pub(crate) sessions: usize,
    pub(crate) writers: usize,
    /// pi's package, to open the same session with its own reader.
    pub(crate) pi: Option<PathBuf>,
    pub(crate) node: PathBuf,
}

pub(crate) fn run(plan: &Plan, place: &Workplace) -> Result<Report> {
    let mut report = Report::new("store");
    append::run(plan.appends, place, &mut report)?;
    crowd::run(plan.writers, place, &mut report)?;
    context::run(plan, place, &mut report)?;
    meta::run(plan.sessions, place, &mut report)?;
    Ok(report)
}
