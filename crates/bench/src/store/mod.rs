//! Measures the session store as a runtime uses it: durable appends, contexts, metadata, and
//! concurrent writers.
//!
//! An append is measured twice: in this process through the library, and through a pipe to one
//! running `quipu session append`. So the start of a process is never part of a measurement.

pub(crate) mod append;
pub(crate) mod context;
mod crowd;
mod meta;
pub(crate) mod runtime;

use std::path::PathBuf;

use anyhow::Result;

use crate::measure::Workplace;
use crate::report::Report;

/// The sizes of the measurements.
pub(crate) struct Plan {
    /// The number of appends of one client.
    pub(crate) appends: usize,
    /// The number of entries of the session whose context is built.
    pub(crate) entries: usize,
    /// The number of sessions of the ledger in which metadata is changed.
    pub(crate) sessions: usize,
    /// The number of processes that append at the same time.
    pub(crate) writers: usize,
    /// The folder of pi's package. Its reader is timed on the same session.
    pub(crate) pi: Option<PathBuf>,
    /// The node binary that runs pi.
    pub(crate) node: PathBuf,
}

/// Runs all measurements of the store.
pub(crate) fn run(plan: &Plan, place: &Workplace) -> Result<Report> {
    let mut report = Report::new("store");
    append::run(plan.appends, place, &mut report)?;
    crowd::run(plan.writers, place, &mut report)?;
    context::run(plan, place, &mut report)?;
    meta::run(plan.sessions, place, &mut report)?;
    Ok(report)
}
