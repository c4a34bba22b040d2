//! Reads one snapshot of the ledger in which the projection has every session.
//!
//! During a rebuild by another process, and after an interrupted rebuild, sessions and keys are
//! missing from the projection. A query would then miss a session, or follow a key to the session
//! that it led to before. A read-only ledger never catches up here.

use std::time::Instant;

use rusqlite::Connection;

use crate::file::ledger::Ledger;
use crate::file::snapshot::Snapshot;
use crate::project::rebuild;
use crate::{Error, Result};

/// Runs `read` in one snapshot that has every session.
///
/// If the ledger was opened for writing, the projection catches up first.
/// [`Error::Behind`] is returned if that takes too long. Otherwise, and in a snapshot of the
/// caller, `read` gets the projection as it is, and a missing session is reported as
/// [`Error::Behind`].
pub(crate) fn complete<T>(
    ledger: &Ledger,
    read: &mut dyn FnMut(&Connection) -> Result<T>,
) -> Result<T> {
    let conn = ledger.conn();
    let until = Instant::now() + ledger.longest_catch_up();
    loop {
        let snapshot = Snapshot::of(conn)?;
        if rebuild::has_all_sessions(conn)? {
            return read(conn);
        }
        // The caller's transaction has already fixed the snapshot.
        if snapshot.is_none() || !ledger.is_writable() {
            return match read(conn) {
                Err(Error::NoMatch { what: "session", .. }) => Err(rebuild::behind_error(ledger)?),
                read => read,
            };
        }
        drop(snapshot);
        if ledger.is_replaced() {
            return Err(Error::Replaced { path: ledger.path().to_owned() });
        }
        // This connection may be reading, so another connection writes.
        let mut writer = Ledger::open(ledger.path())?;
        rebuild::catch_up_until(&mut writer, until)?;
        if Instant::now() >= until {
            return Err(rebuild::behind_error(ledger)?);
        }
    }
}
