//! The store: sessions that agent runtimes keep in the ledger.
//!
//! A native session is a source like any other, only that its lines come through [`Store::append`]
//! instead of a file; so everything that reads sessions reads these too. History is never edited:
//! a branch, a moved leaf, a label and a reset are appended lines, and what is noted about a key
//! (where it leads, its metadata) is a line in the journal.
//!
//! Whatever a call has returned is on disk (`synchronous = FULL`), in one transaction with all that
//! follows from it: readers never see half of it.

mod append;
mod context;
mod fork;
mod import;
mod look;
pub(crate) mod meta;
mod route;
pub mod senders;
pub(crate) mod sessions;
mod tree;
mod turn;
mod work;

use std::path::Path;
use std::time::Duration;

pub use append::{Append, Appended, Expect};
pub use fork::{Fork, Forked};
pub use look::{Label, branches, labels, leaf, meta};
pub use route::Routed;
pub(crate) use sessions::by_key;
pub use sessions::{NativeSession, NewSession};
pub use tree::{Branch, Node};

use crate::ids::SessionRow;
use crate::ledger::Ledger;
use crate::project::{Fold, rebuild};
use crate::{Result, chunks};
use context::Cache;
use work::Work;

/// A ledger that is open as a session store.
#[derive(Debug)]
pub struct Store {
    ledger: Ledger,
    fold: Fold,
    data_version: i64,
    cache: Cache,
}

impl Store {
    /// Opens the ledger at `path` as a store, creating it if there is none.
    pub fn open(path: &Path) -> Result<Store> {
        Store::of(Ledger::open(path)?)
    }

    /// Uses a ledger as a store.
    pub fn of(ledger: Ledger) -> Result<Store> {
        // What was acknowledged survives the machine's end, not only ours.
        ledger.conn().pragma_update(None, "synchronous", "FULL")?;
        ledger.conn().pragma_update(None, "fullfsync", true)?;
        Ok(Store { ledger, fold: Fold::default(), data_version: -1, cache: Cache::default() })
    }

    /// The ledger, for reading.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// How long a call waits for another writer before it fails; ten seconds if nothing is said.
    pub fn set_longest_wait(&mut self, longest: Duration) -> Result<()> {
        self.ledger.set_longest_wait(longest)
    }

    /// How many records of sessions were decoded for contexts so far.
    pub fn records_decoded(&self) -> u64 {
        self.cache.decoded()
    }

    /// Runs `work` in one durable transaction, on a projection that is up to date.
    fn write<T>(&mut self, work: &mut dyn FnMut(&mut Work<'_, '_>) -> Result<T>) -> Result<T> {
        loop {
            let (fold, known) = (&mut self.fold, &mut self.data_version);
            let done = self.ledger.write(|tx| {
                if rebuild::is_behind(tx)? {
                    return Ok(None);
                }
                let version: i64 =
                    tx.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
                if std::mem::replace(known, version) != version {
                    fold.let_go();
                }
                let mut open = Work::new(tx, fold)?;
                let value = work(&mut open)?;
                open.end()?;
                Ok(Some(value))
            });
            match done {
                Ok(Some(value)) => {
                    self.tidy()?;
                    return Ok(value);
                }
                // An older version's projection, or another process is deriving it again.
                Ok(None) => {
                    rebuild::catch_up(&mut self.ledger, &mut |_, _| {})?;
                }
                Err(error) => {
                    // What it remembers was not stored.
                    self.fold.let_go();
                    return Err(error);
                }
            }
        }
    }

    /// Compresses what has piled up. It is on disk already, so this need not wait for the disk.
    fn tidy(&mut self) -> Result<()> {
        if chunks::wants_sealing(self.ledger.conn())? {
            self.ledger.write(|tx| match chunks::wants_sealing(tx)? {
                true => chunks::seal(tx),
                false => Ok(()),
            })?;
        }
        Ok(())
    }

    /// The row of the session that is meant: by the key that leads to it now, its id, or the
    /// beginning of its id. The first two take the same time however many sessions there are.
    pub fn find(&self, name: &str) -> Result<SessionRow> {
        crate::query::find_session(&self.ledger, name)
    }
}
