//! Forgetting a session: the one destructive act.
//!
//! ```text
//! scope    what belongs to it                        (scope, shared)
//! remove   out of truth, and a mark that stays       (remove, repack, marks)   one transaction,
//! empty    the projection                                                      all or nothing
//! clean    write the file anew, cut the log off      (clean)
//! rebuild  the projection, from what is left
//! ```
//!
//! Whoever is killed after the transaction leaves the rest to the next command that writes. The marks
//! are obeyed in every source: files are not opened ([`Forgotten::claims`]), lines of shared files are
//! blanks before anything is compared or stored (`truth::forgotten::shared_lines`).

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
use crate::project::rebuild::{self, Followed};
use crate::read::query::complete::complete;
use crate::truth::forgotten::Forgotten;
use crate::truth::journal::{self, Event};
use crate::wire::{ForgetReport, ForgottenSession};
use describe::{backups, describe, forgotten_before};

/// What runtimes have appended a moment ago is folded in first, for about so long.
const LONGEST_FOLLOW: Duration = Duration::from_millis(500);

/// Says what [`forget`] would remove. Removes nothing.
pub fn foresee(ledger: &mut Ledger, name: &str) -> Result<ForgetReport> {
    rebuild::bring_up(ledger, &mut |_, _| {})?;
    if let Some(report) = forgotten_before(ledger, name)? {
        return Ok(report);
    }
    let mut report = complete(ledger, &mut |conn| {
        let (rows, sessions) = scope::sessions(conn, name)?;
        describe(conn, &scope::scope(conn, rows, sessions)?)
    })?;
    report.backups = backups(ledger)?;
    Ok(report)
}

/// Removes a session, its sub-agents and everything that was derived from them, for good, and marks
/// them so that they are not collected again. `name` is an unambiguous beginning of its id. On a
/// session that is forgotten already, it finishes what was interrupted.
///
/// The projection is derived again; `progress` is told how many of how many records are done.
pub fn forget(
    ledger: &mut Ledger,
    name: &str,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ForgetReport> {
    let mut report = loop {
        rebuild::bring_up(ledger, progress)?;
        if let Some(report) = forgotten_before(ledger, name)? {
            break report;
        }
        // Another process may have begun to derive the projection again.
        if let Some(report) = ledger.write(|tx| remove(tx, name))? {
            break report;
        }
    };
    report.forgotten = true;
    let cleaned =
        crate::truth::forgotten::clean::clean(ledger, crate::truth::forgotten::clean::PATIENT);
    rebuild::catch_up(ledger, progress)?;
    ledger.checkpoint()?;
    report.cleaned = cleaned?;
    report.backups = backups(ledger)?;
    Ok(report)
}

/// The transaction. `None` if the projection cannot tell which sessions there are.
fn remove(tx: &Transaction<'_>, name: &str) -> Result<Option<ForgetReport>> {
    if rebuild::follow(tx, &mut Fold::default(), LONGEST_FOLLOW)? != Followed::Wholly {
        return Ok(None);
    }
    let (rows, sessions) = scope::sessions(tx, name)?;
    for ForgottenSession { format, agent, session_id, .. } in &sessions {
        let event = Event::Forgotten {
            at: clock::now_ms(),
            format: format.clone(),
            agent: agent.clone(),
            session_id: session_id.clone(),
        };
        let told_by = journal::append(tx, &event)?;
        crate::truth::forgotten::mark(tx, format, agent, session_id, told_by)?;
    }
    let scope = scope::scope(tx, rows, sessions)?;
    let report = describe(tx, &scope)?;
    remove::remove(tx, &scope)?;
    rebuild::empty(tx)?;
    Ok(Some(report))
}

/// Returns the marks of these sessions.
fn marks_of(sessions: &[ForgottenSession]) -> Forgotten {
    Forgotten::of(sessions.iter().map(|session| {
        [session.format.as_str(), session.agent.as_str(), session.session_id.as_str()]
    }))
}
