//! Reads one state of the ledger in which the projection knows every session.
//!
//! While another process rebuilds the ledger, and after a rebuild that was interrupted, sessions and
//! keys are missing from the projection. Asked then, it would say that a session is not there, or
//! lead a key to the session that it led to before.

use std::time::Instant;

use rusqlite::Connection;

use crate::file::ledger::Ledger;
use crate::file::snapshot::Snapshot;
use crate::project::rebuild;
use crate::{Error, Result};

/// Runs `read` in one snapshot that knows every session. If the ledger was opened for writing, the
/// projection is brought up first; [`Error::Behind`] if that takes too long. Otherwise `read` gets
/// what is there, and a session that it does not find is reported as [`Error::Behind`].
pub(crate) fn complete<T>(
    ledger: &Ledger,
    read: &mut dyn FnMut(&Connection) -> Result<T>,
) -> Result<T> {
    let conn = ledger.conn();
    let until = Instant::now() + ledger.longest_catch_up();
    loop {
        let snapshot = Snapshot::of(conn)?;
        // The caller's transaction has chosen its state already.
        if snapshot.is_none() || rebuild::knows_sessions(conn)? {
            return read(conn);
        }
        if !ledger.is_writable() {
            return match read(conn) {
                Err(Error::NoMatch { what: "session", .. }) => Err(rebuild::behind(ledger)?),
                read => read,
            };
        }
        drop(snapshot);
        if ledger.is_replaced() {
            return Err(Error::Replaced { path: ledger.path().to_owned() });
        }
        // This connection may be in use for reading; another one writes.
        let mut writer = Ledger::open(ledger.path())?;
        rebuild::bring_up_until(&mut writer, until)?;
        if Instant::now() >= until {
            return Err(rebuild::behind(ledger)?);
        }
    }
}
