//! The ledger of a store, with the state that is cached between calls.
//!
//! One call at a time uses it. A failed transaction leaves no cached state behind.

use std::time::{Duration, Instant};

use rusqlite::Transaction;

use super::context::Cache;
use super::due::Sizes;
use super::projector::Projector;
use super::unprojected::Unprojected;
use super::work::Work;
use crate::Result;
use crate::file::ledger::Ledger;
use crate::file::snapshot::Snapshot;
use crate::project::Fold;
use crate::project::rebuild::{self, CatchUpStep};
use crate::truth::chunks;

/// The longest time that one transaction projects records of earlier appends. A longer backlog is
/// projected in several transactions, so that other processes can write in between.
const MAX_CATCH_UP_STEP: Duration = Duration::from_millis(100);

/// An open ledger with its cached state.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) ledger: Ledger,
    pub(super) fold: Fold,
    pub(super) data_version: i64,
    pub(super) cache: Cache,
    pub(super) sizes: Sizes,
    pub(super) unprojected: Unprojected,
    pub(super) projector: Projector,
}

impl Core {
    /// Returns a store's core for an open ledger.
    pub(super) fn of(ledger: Ledger) -> Result<Core> {
        // An acknowledged write survives a power loss, not only the end of the process.
        ledger.conn().pragma_update(None, "synchronous", "FULL")?;
        ledger.conn().pragma_update(None, "fullfsync", true)?;
        Ok(Core {
            ledger,
            fold: Fold::default(),
            data_version: -1,
            cache: Cache::default(),
            sizes: Sizes::default(),
            unprojected: Unprojected::default(),
            projector: Projector::default(),
        })
    }

    /// Projects everything that was appended, for readers that cannot project.
    pub(super) fn catch_up(&mut self) -> Result<()> {
        self.catch_up_until(self.limit()).map(|_| ())
    }

    /// Returns the time at which a call that begins now stops waiting for the projection.
    pub(super) fn limit(&self) -> Instant {
        Instant::now() + self.ledger.longest_catch_up()
    }

    /// Projects all records that exist now. Returns the last of them.
    pub(super) fn catch_up_until(&mut self, limit: Instant) -> Result<i64> {
        let last = rebuild::last_record(self.ledger.conn())?;
        self.catch_up_to(last, limit)?;
        Ok(last)
    }

    /// Projects records up to `last`. Stops there, so that a busy appender cannot starve the
    /// caller.
    fn catch_up_to(&mut self, last: i64, limit: Instant) -> Result<()> {
        while rebuild::projected(self.ledger.conn())?.is_none_or(|now| now.to < last) {
            let (fold, known) = (&mut self.fold, &mut self.data_version);
            let step = self.ledger.write(|tx| {
                refresh(tx, fold, known)?;
                rebuild::catch_up_step(tx, fold, MAX_CATCH_UP_STEP)
            });
            match step {
                Ok(CatchUpStep::SlicesNeeded) => self.catch_up_in_slices(limit)?,
                Ok(CatchUpStep::MoreAppended | CatchUpStep::UpToDate) => {}
                Err(error) => {
                    self.drop_cached();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Projects together with the process that rebuilds, or in place of one that was interrupted.
    fn catch_up_in_slices(&mut self, limit: Instant) -> Result<()> {
        // The rebuild uses this connection, so the data version does not change.
        self.drop_cached();
        rebuild::catch_up_in_slices_until(&mut self.ledger, Some(limit), &mut |_, _| {})?;
        Ok(())
    }

    /// Runs `read` in one snapshot whose projection has everything appended before the call.
    pub(super) fn read_caught_up<T>(
        &mut self,
        read: &mut dyn FnMut(&Ledger) -> Result<T>,
    ) -> Result<T> {
        let limit = self.limit();
        let last = self.catch_up_until(limit)?;
        loop {
            let snapshot = Snapshot::of(self.ledger.conn())?;
            // Another process may have begun a rebuild in the meantime.
            if rebuild::projected(self.ledger.conn())?.is_some_and(|now| now.to >= last) {
                return read(&self.ledger);
            }
            drop(snapshot);
            self.catch_up_to(last, limit)?;
        }
    }

    /// Runs `work` in one durable transaction, on a projection that is up to date.
    pub(super) fn write<T>(
        &mut self,
        work: &mut dyn FnMut(&mut Work<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        let limit = self.limit();
        loop {
            let (fold, known) = (&mut self.fold, &mut self.data_version);
            let done = self.ledger.write(|tx| {
                refresh(tx, fold, known)?;
                if rebuild::catch_up_step(tx, fold, MAX_CATCH_UP_STEP)? != CatchUpStep::UpToDate {
                    return Ok(None);
                }
                let mut open = Work::new(tx, fold)?;
                let value = work(&mut open)?;
                open.end()?;
                Ok(Some(value))
            });
            match done {
                Ok(Some(value)) => {
                    self.unprojected.drop_cached();
                    chunks::seal_if_wanted(&mut self.ledger)?;
                    return Ok(value);
                }
                Ok(None) => drop(self.catch_up_until(limit)?),
                Err(error) => {
                    self.drop_cached();
                    return Err(error);
                }
            }
        }
    }

    /// Drops the cached state of a transaction that was not stored.
    pub(super) fn drop_cached(&mut self) {
        self.fold.drop_cache();
        self.unprojected.drop_cached();
        self.sizes.drop_cached();
    }
}

/// Drops the cached state of the projection if another connection has written since.
pub(super) fn refresh(tx: &Transaction<'_>, fold: &mut Fold, known: &mut i64) -> Result<()> {
    let version: i64 = tx.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
    if std::mem::replace(known, version) != version {
        fold.drop_cache();
    }
    Ok(())
}
