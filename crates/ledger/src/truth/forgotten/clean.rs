//! Removes from the file the bytes that were deleted from its tables.
//!
//! SQLite keeps deleted bytes in unused pages, in gaps of used pages and in the write-ahead log.
//! Some come from earlier deletions, such as a pending line that was sealed or a superseded title,
//! so `secure_delete` is not enough: it only zeroes what one transaction deletes. The whole file is
//! therefore rewritten from its rows, while the projection is empty and the file at its smallest.
//! Then the log is truncated.

use std::time::Duration;

use crate::Result;
use crate::file::ledger::Ledger;
use crate::truth::forgotten;

/// The time that commands other than `forget` wait for readers that need old pages.
const OTHER_WAIT: Duration = Duration::from_millis(50);

/// Cleans the file if a session was forgotten since it was last clean. Returns false if another
/// process still reads the old pages.
pub(crate) fn clean(ledger: &mut Ledger, longest: Duration) -> Result<bool> {
    if !forgotten::needs_cleaning(ledger.conn())? {
        return Ok(true);
    }
    // A reader that blocks this now would also block it after the rewrite, so it is checked first.
    if !ledger.truncate_log(longest)? {
        return Ok(false);
    }
    ledger.vacuum()?;
    if !ledger.truncate_log(longest)? {
        return Ok(false);
    }
    ledger.write(|tx| forgotten::mark_cleaned(tx))?;
    Ok(true)
}

/// Continues an interrupted cleaning. An error does not fail the command: the next one tries again.
pub(crate) fn resume(ledger: &mut Ledger) {
    match clean(ledger, OTHER_WAIT) {
        Ok(true) => {}
        Ok(false) => tracing::info!("Another process keeps a forgotten session in the file."),
        Err(error) => tracing::warn!(%error, "Could not clean the file of a forgotten session."),
    }
}
