//! Removes from the file what was removed from its tables.
//!
//! SQLite keeps deleted bytes: in unused pages, in the gaps of used ones, also from deletions long
//! before (a line that waited to be packed, a superseded title), and in the write-ahead log. Zeroing
//! what one transaction deletes would leave those. So the whole file is written anew, from its rows,
//! while the projection is empty and the file at its smallest; then the log is cut off.

use std::time::Duration;

use crate::Result;
use crate::file::ledger::Ledger;
use crate::truth::forgotten;

/// How long `forget` waits for readers that hold on to old pages.
pub(crate) const PATIENT: Duration = Duration::from_secs(5);

/// How long other commands wait.
const HASTY: Duration = Duration::from_millis(50);

/// Cleans the file if something was forgotten since it was last clean. Returns whether it is clean;
/// it is not as long as another process reads what was there before.
pub(crate) fn clean(ledger: &mut Ledger, longest: Duration) -> Result<bool> {
    if !forgotten::is_unsettled(ledger.conn())? {
        return Ok(true);
    }
    // Whoever is in the way now would be in the way after writing everything anew.
    if !ledger.cut_log(longest)? {
        return Ok(false);
    }
    ledger.write_anew()?;
    if !ledger.cut_log(longest)? {
        return Ok(false);
    }
    ledger.write(|tx| forgotten::settle(tx))?;
    Ok(true)
}

/// Goes on with cleaning that was interrupted. A command that has other things to do is not stopped
/// by it: the next one tries again.
pub(crate) fn go_on(ledger: &mut Ledger) {
    match clean(ledger, HASTY) {
        Ok(true) => {}
        Ok(false) => tracing::info!("Another process keeps a forgotten session in the file."),
        Err(error) => tracing::warn!(%error, "Could not clean the file of a forgotten session."),
    }
}
