//! Ledgers of an older version, opened for reading: reading never migrates the file itself.
//!
//! A copy is migrated in a temporary file that has no name and ends with the process. That costs a
//! rebuild for every command. Opening the ledger for writing migrates it once, and so does
//! restoring a backup.

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, TransactionBehavior};

use std::path::Path;

use crate::file::ledger::{Ledger, MAX_LOCK_WAIT, set_up};
use crate::file::open_files::OpenFile;
use crate::file::schema;
use crate::project::rebuild;
use crate::{Error, Result};

/// The number of pages that are copied at once.
const PAGES_PER_STEP: i32 = 1024;

impl Ledger {
    /// Opens an existing ledger for reading only. Of a ledger of an older version, a migrated copy
    /// is opened.
    pub fn open_read_only(path: &Path) -> Result<Ledger> {
        match Ledger::open_up_to_date(path) {
            Err(Error::Older { .. }) => migrated_copy(path),
            opened => opened,
        }
    }

    /// Returns whether this is the migrated copy of an older ledger.
    pub fn is_copy(&self) -> bool {
        self.conn().path().is_none_or(str::is_empty)
    }
}

fn migrated_copy(path: &Path) -> Result<Ledger> {
    let old = Ledger::open_any_version(path)?;
    // Without a name, SQLite creates a temporary file that no other process can find.
    let mut conn = Connection::open("")?;
    copy(old.conn(), &mut conn, path)?;
    drop(old);
    set_up(&conn)?;
    conn.pragma_update(None, "synchronous", "OFF")?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    schema::migrate_truth(&tx)?;
    rebuild::clear(&tx)?;
    tx.commit()?;
    let mut ledger = Ledger::of(path.to_owned(), conn, OpenFile::at(path)?);
    rebuild::catch_up_in_slices(&mut ledger, &mut |_, _| {})?;
    ledger.conn().pragma_update(None, "query_only", true)?;
    Ok(ledger)
}

fn copy(from: &Connection, to: &mut Connection, path: &Path) -> Result<()> {
    let backup = Backup::new(from, to)?;
    loop {
        match backup.step(PAGES_PER_STEP)? {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            _ => {
                let (path, waited) = (path.to_owned(), MAX_LOCK_WAIT);
                return Err(Error::Busy { path, waited, holder: None });
            }
        }
    }
}
