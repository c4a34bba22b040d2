//! The store: sessions that agent runtimes keep in the ledger.
//!
//! A native session is a source like any other, only that its lines come through [`Store::append`]
//! instead of a file; so everything that reads sessions reads these too. History is never edited:
//! a branch, a moved leaf, a label and a reset are appended lines, and what is noted about a key
//! (where it leads, its metadata) is a line in the journal.
//!
//! Whatever a call has returned is on disk (`synchronous = FULL`). Of an append that is the line and
//! its key; what follows from it for the projection comes behind (`follow`), within a moment, and
//! whoever needs it sooner brings it up first. Everything else is one transaction with all that
//! follows from it.

mod append;
mod context;
mod fork;
mod import;
mod look;
pub(crate) mod meta;
pub(crate) mod openclaw_names;
mod projector;
#[cfg(test)]
mod recent_tests;
mod route;
pub mod senders;
pub(crate) mod sessions;
mod tree;
mod turn;
mod unprojected;
mod work;

use std::path::Path;
use std::time::{Duration, Instant};

pub use crate::truth::fields::Fields;
pub use append::{Append, Appended, Expect};
pub use fork::{Fork, Forked};
pub use look::{Label, branches, labels, leaf, meta, open, open_for_lines};
pub use route::Routed;
pub use sessions::{NativeSession, NewSession};
pub use tree::{Branch, Node};

use crate::Result;
use crate::base::ids::SessionRow;
use crate::file::ledger::Ledger;
use crate::file::snapshot::Snapshot;
use crate::project::Fold;
use crate::project::rebuild::{self, Followed};
use crate::truth::chunks;
use context::Cache;
use projector::Follower;
use rusqlite::Transaction;
use unprojected::Ahead;
use work::Work;

/// A transaction folds in for so long what others have appended before; then it is their turn.
const LONGEST_FOLLOW: Duration = Duration::from_millis(100);

/// A ledger that is open as a session store.
#[derive(Debug)]
pub struct Store {
    ledger: Ledger,
    fold: Fold,
    data_version: i64,
    cache: Cache,
    ahead: Ahead,
    follower: Follower,
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
        Ok(Store {
            ledger,
            fold: Fold::default(),
            data_version: -1,
            cache: Cache::default(),
            ahead: Ahead::default(),
            follower: Follower::default(),
        })
    }

    /// The ledger, for reading: with everything that was appended.
    pub fn ledger(&mut self) -> Result<&Ledger> {
        self.settle()?;
        Ok(&self.ledger)
    }

    /// Brings the projection up to what was appended, so that readers who cannot do that themselves
    /// find it there.
    pub fn settle(&mut self) -> Result<()> {
        self.settle_until(self.limit()).map(|_| ())
    }

    /// Returns when a call that begins now stops waiting for the projection.
    fn limit(&self) -> Instant {
        Instant::now() + self.ledger.longest_catch_up()
    }

    /// Brings the projection up to the records that there are now. Returns the last of them.
    fn settle_until(&mut self, limit: Instant) -> Result<i64> {
        let last = rebuild::last(self.ledger.conn())?;
        self.follow_to(last, limit)?;
        Ok(last)
    }

    /// Brings the projection up to a record. Stops there, so that a busy appender cannot starve the
    /// caller.
    fn follow_to(&mut self, last: i64, limit: Instant) -> Result<()> {
        while rebuild::projected(self.ledger.conn())?.is_none_or(|now| now.to < last) {
            let (fold, known) = (&mut self.fold, &mut self.data_version);
            let followed = self.ledger.write(|tx| {
                refresh(tx, fold, known)?;
                rebuild::follow(tx, fold, LONGEST_FOLLOW)
            });
            match followed {
                Ok(Followed::Not) => self.catch_up(limit)?,
                Ok(Followed::Partly | Followed::Wholly) => {}
                Err(error) => {
                    self.let_go();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Derives the projection together with the process that rebuilds it, or instead of one that was
    /// interrupted.
    fn catch_up(&mut self, limit: Instant) -> Result<()> {
        // Through the same connection, so the data version would not change.
        self.let_go();
        rebuild::catch_up_until(&mut self.ledger, Some(limit), &mut |_, _| {})?;
        Ok(())
    }

    /// Runs `read` in one snapshot whose projection has everything that was appended before the call.
    fn settled<T>(&mut self, read: &mut dyn FnMut(&Ledger) -> Result<T>) -> Result<T> {
        let limit = self.limit();
        let last = self.settle_until(limit)?;
        loop {
            let snapshot = Snapshot::of(self.ledger.conn())?;
            // Another process may have begun to rebuild it meanwhile.
            if rebuild::projected(self.ledger.conn())?.is_some_and(|now| now.to >= last) {
                return read(&self.ledger);
            }
            drop(snapshot);
            self.follow_to(last, limit)?;
        }
    }

    /// Sets how long a call waits for a projection that another process rebuilds, or that a rebuild
    /// has left behind; ten minutes by default. After that it fails with [`crate::Error::Behind`].
    pub fn set_longest_catch_up(&mut self, longest: Duration) {
        self.ledger.set_longest_catch_up(longest);
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
        let limit = self.limit();
        loop {
            let (fold, known) = (&mut self.fold, &mut self.data_version);
            let done = self.ledger.write(|tx| {
                refresh(tx, fold, known)?;
                if rebuild::follow(tx, fold, LONGEST_FOLLOW)? != Followed::Wholly {
                    return Ok(None);
                }
                let mut open = Work::new(tx, fold)?;
                let value = work(&mut open)?;
                open.end()?;
                Ok(Some(value))
            });
            match done {
                Ok(Some(value)) => {
                    self.ahead.let_go();
                    chunks::seal_if_wanted(&mut self.ledger)?;
                    return Ok(value);
                }
                Ok(None) => drop(self.settle_until(limit)?),
                Err(error) => {
                    self.let_go();
                    return Err(error);
                }
            }
        }
    }

    /// Drops what is remembered: it was not stored.
    fn let_go(&mut self) {
        self.fold.let_go();
        self.ahead.let_go();
    }

    /// The row of the session that is meant: by the key that leads to it now, its id, or the
    /// beginning of its id. The first two take the same time however many sessions there are, unless
    /// the ledger is being rebuilt: that is waited for.
    pub fn find(&self, name: &str) -> Result<SessionRow> {
        crate::read::query::find_session(&self.ledger, name)
    }
}

/// Lets the fold forget what it remembers if others have written since.
fn refresh(tx: &Transaction<'_>, fold: &mut Fold, known: &mut i64) -> Result<()> {
    let version: i64 = tx.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
    if std::mem::replace(known, version) != version {
        fold.let_go();
    }
    Ok(())
}
