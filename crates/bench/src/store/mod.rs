//! Measures the session store as a runtime uses it: durable appends, contexts, metadata, and
//! concurrent writers.
//!
//! An append is measured twice: in this process through the library, and through a pipe to one
//! running `quipu session append`. So the start of a process is never part of a measurement.

mod append;
mod context;
mod crowd;
mod meta;
mod runtime;

use std::path::PathBuf;

use anyhow::Result;

use crate::measure::Workplace;
use crate::report::Report;

/// The parameters of the measurement.
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
