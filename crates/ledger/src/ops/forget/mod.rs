//! Forgets a session: the only destructive operation.
//!
//! ```text
//! scope    find what belongs to it                   (scope)
//! remove   out of truth, and add a mark that stays   (remove, repack)   one transaction,
//! empty    the projection                                               all or nothing
//! clean    rewrite the file, truncate the log        (truth::forgotten::clean)
//! rebuild  the projection, from what is left
//! ```
//!
//! If the process is killed after the transaction, the next command that writes does the rest.
//! Every source obeys the marks: files are not opened (`Forgotten::claims`), and lines of shared
//! files are blanked before anything is compared or stored (`truth::forgotten::shared_lines`).

mod describe;
mod ranges;
mod remove;
mod repack;
mod scope;

use std::time::Duration;

use rusqlite::Transaction;

use crate::Result;
use crate::base::clock;
use crate::file::ledger::Ledger;
use crate::project::Fold;
use crate::project::rebuild::{self, CatchUpStep};
use crate::read::query::complete::complete;
use crate::truth::forgotten::Forgotten;
use crate::truth::journal::{self, Event};
use crate::wire::ForgetReport;
use describe::{backups, describe, forgotten_before};

/// The longest time spent on projecting records that runtimes appended just before.
const MAX_CATCH_UP_STEP: Duration = Duration::from_millis(500);

/// The time that [`forget`] waits for readers that need old pages.
const FORGET_WAIT: Duration = Duration::from_secs(5);

/// Describes what [`forget`] would remove. Removes nothing, and writes nothing to a ledger that was
/// opened for reading.
pub fn preview(ledger: &Ledger, name: &str) -> Result<ForgetReport> {
    if let Some(report) = forgotten_before(ledger, name)? {
        return Ok(report);
    }
    let mut report = complete(ledger, &mut |conn| {
        let (rows, sessions) = scope::sessions(conn, name)?;
        describe(conn, &scope::scope(conn, rows, sessions)?)
    })?;
    report.backup_paths = backups(ledger)?;
    Ok(report)
}

/// Removes a session, its sub-agents and everything derived from them for good, and marks them so
/// that they are never collected again. `name` is an unambiguous prefix of its id. For a session
/// that is forgotten already, finishes an interrupted cleaning.
///
/// The projection is rebuilt; `progress` gets the number of projected records and of all records.
pub fn forget(
    ledger: &mut Ledger,
    name: &str,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ForgetReport> {
    forget_waiting(ledger, name, FORGET_WAIT, progress)
}

/// Removes a session like [`forget`], and waits at most `longest` for readers that need old pages.
pub fn forget_waiting(
    ledger: &mut Ledger,
    name: &str,
    longest: Duration,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ForgetReport> {
    let mut report = loop {
        rebuild::catch_up(ledger, progress)?;
        if let Some(report) = forgotten_before(ledger, name)? {
            break report;
        }
        // Another process may have begun to rebuild the projection.
        if let Some(report) = ledger.write(|tx| remove(tx, name))? {
            break report;
        }
    };
    report.is_forgotten = true;
    let cleaned = crate::truth::forgotten::clean::clean(ledger, longest);
    rebuild::catch_up_in_slices(ledger, progress)?;
    ledger.checkpoint()?;
    report.is_cleaned = cleaned?;
    report.backup_paths = backups(ledger)?;
    Ok(report)
}

/// Runs the transaction. Returns `None` if the projection is incomplete, so that sessions may be
/// missing.
fn remove(tx: &Transaction<'_>, name: &str) -> Result<Option<ForgetReport>> {
    if rebuild::catch_up_step(tx, &mut Fold::default(), MAX_CATCH_UP_STEP)? != CatchUpStep::UpToDate
    {
        return Ok(None);
    }
    let (rows, sessions) = scope::sessions(tx, name)?;
    let scope = scope::scope(tx, rows, sessions)?;
    for [format, agent, session_id] in &scope.names {
        let event = Event::Forgotten {
            at: clock::now_ms(),
            format: format.clone(),
            agent: agent.clone(),
            session_id: session_id.clone(),
        };
        let event_seq = journal::append(tx, &event)?;
        crate::truth::forgotten::mark(tx, format, agent, session_id, event_seq)?;
    }
    let report = describe(tx, &scope)?;
    remove::remove(tx, &scope)?;
    rebuild::clear(tx)?;
    Ok(Some(report))
}

/// Returns the marks of these names.
fn marks_of(names: &[[String; 3]]) -> Forgotten {
    Forgotten::of(names.iter().map(|name| name.each_ref().map(String::as_str)))
}
