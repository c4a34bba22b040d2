//! Ledgers of an older version that cannot be brought up to date where they are: backups, and files
//! that may not be written to.
//!
//! They are read all the same: a copy is brought up to date, in a temporary file that has no name and
//! is gone with the process. That costs a rebuild for every command; restoring the backup costs one.

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, TransactionBehavior};

use std::path::Path;

use crate::file::ledger::{LONGEST_WAIT, Ledger, set_up};
use crate::file::ledger_path::inspect;
use crate::file::open_files::Opened;
use crate::file::{read_only, schema};
use crate::project::rebuild;
use crate::{Error, Result};

/// Pages that are copied at once.
const STEP: i32 = 1024;

impl Ledger {
    /// Opens an existing ledger for reading only. One of an older version that others may bring up to
    /// date is refused; of one that stays as it is, a copy is brought up to date.
    pub fn open_read_only(path: &Path) -> Result<Ledger> {
        match Ledger::open_up_to_date(path) {
            Err(Error::Older { .. }) if stays_as_it_is(path)? => bring_up_copy(path),
            opened => opened,
        }
    }

    /// True if it is a copy of an older ledger, brought up to date to be read.
    pub fn is_copy(&self) -> bool {
        self.conn().path().is_none_or(str::is_empty)
    }
}

/// Whether nothing that we could do would bring the file at `path` up to date.
fn stays_as_it_is(path: &Path) -> Result<bool> {
    Ok(read_only::is_closed(path) || read_only::is_backup(path, &inspect(path)?))
}

fn bring_up_copy(path: &Path) -> Result<Ledger> {
    let old = Ledger::open_as_it_is(path)?;
    // Without a name, SQLite makes a temporary file that nothing else finds.
    let mut conn = Connection::open("")?;
    copy(old.conn(), &mut conn, path)?;
    drop(old);
    set_up(&conn)?;
    conn.pragma_update(None, "synchronous", "OFF")?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    schema::migrate_truth(&tx)?;
    rebuild::empty(&tx)?;
    tx.commit()?;
    let mut ledger = Ledger::of(path.to_owned(), conn, Opened::at(path)?);
    rebuild::catch_up(&mut ledger, &mut |_, _| {})?;
    ledger.conn().pragma_update(None, "query_only", true)?;
    Ok(ledger)
}

fn copy(from: &Connection, to: &mut Connection, path: &Path) -> Result<()> {
    let backup = Backup::new(from, to)?;
    loop {
        match backup.step(STEP)? {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            _ => {
                let seconds = LONGEST_WAIT.as_secs();
                return Err(Error::Busy { path: path.to_owned(), seconds });
            }
        }
    }
}
