//! Measures the HTTP server as runtimes use it: durable appends of one client and of many at once,
//! compared with the same appends through the library; and many subscribers to its events.

mod append;
mod server;
mod subscribers;

use anyhow::Result;

use crate::measure::Workplace;
use crate::report::Report;

/// The sizes of the measurements.
pub(crate) struct Plan {
    /// The number of appends of one client; 0 leaves appends out.
    pub(crate) appends: usize,
    /// The number of clients that append at the same time.
    pub(crate) clients: usize,
    /// The number of seconds for which those clients append.
    pub(crate) seconds: u64,
    /// The milliseconds by which strace delays each sync of the disk, for a second measurement; 0
    /// leaves that out.
    pub(crate) fsync_ms: u64,
    /// The number of subscribers to the events; 0 leaves subscribers out.
    pub(crate) subscribers: usize,
}

/// Runs all measurements of the server.
pub(crate) fn run(plan: &Plan, place: &Workplace) -> Result<Report> {
    let mut report = Report::new("gateway");
    if plan.appends > 0 {
        append::run(plan, place, &mut report)?;
    }
    if plan.subscribers > 0 {
        subscribers::run(plan, place, &mut report)?;
    }
    Ok(report)
}
