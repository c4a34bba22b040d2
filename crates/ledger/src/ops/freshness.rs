//! Reads current data: a reader first collects new bytes, if this machine collects into the ledger,
//! for a short time only.
//!
//! A backup, a ledger of another machine and a file without write permission are read as they are.
//! The answer is read from one snapshot, and records missing from the projection are counted in
//! that snapshot: another process may begin a rebuild at any time.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::collect::{Progress, RootPath, count_pending, sweep};
use crate::file::ledger::{Hurry, Ledger};
use crate::file::owner::{adopt, collector, is_about_access};
use crate::project::rebuild;
use crate::{Error, Result, Trouble};

/// The time that a reader waits for the ledger to catch up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshLimit {
    /// No time: the ledger is read as it is.
    None,
    /// A short time: 300 ms for collecting and projecting. Collecting waits at most 50 ms of them
    /// for another writer.
    Short,
    /// No limit: everything is collected.
    Unlimited,
}

/// The time that a reader with a short limit waits for another writer before it gives up
/// collecting. For records that are missing from the projection, it waits until [`SHORT_SWEEP`] is
/// over.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// The time that a reader with a short limit collects and projects.
const SHORT_SWEEP: Duration = Duration::from_millis(300);

/// How current an answer is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Freshness {
    /// The answer holds everything written before this time, milliseconds UTC.
    pub fresh_as_of: i64,
    /// The number of new bytes in files that the answer lacks; `None` if that was not checked.
    pub pending_bytes: Option<u64>,
    /// The number of new or grown files that the answer lacks.
    pub pending_files: u64,
    /// The number of changed databases that the answer lacks.
    pub pending_databases: u64,
    /// The number of records that are not projected yet, during a rebuild or after an interrupted
    /// one.
    pub unprojected: u64,
    /// True if another process was writing the whole time.
    pub was_busy: bool,
    /// Files that cannot be read: the path and the reason.
    pub unreadable: Vec<(String, String)>,
}

impl Freshness {
    /// Returns whether the answer is known to lack new data.
    pub fn is_behind(&self) -> bool {
        self.was_busy || self.pending_files > 0 || self.pending_databases > 0
    }
}

/// The relation of a ledger to this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerKind {
    /// This machine collects into it.
    Own,
    /// A copy that `backup` made.
    Backup,
    /// Another machine collects into it.
    OtherMachine,
    /// It cannot be written to.
    ReadOnly,
    /// This machine would collect into it, but its disk is full.
    DiskFull,
}

/// A ledger that was opened for reading.
#[derive(Debug)]
pub struct Reader {
    /// The ledger.
    pub ledger: Ledger,
    /// Its relation to this machine. Only `Own` can catch up.
    pub kind: LedgerKind,
    /// Set if the answer has to be read through a connection that cannot write.
    pub needs_second_connection: bool,
}

/// Opens a ledger for reading. A ledger that `machine` collects into is opened for writing, and
/// created if there is none; any other is opened for reading only.
pub fn open_to_read(path: &Path, machine: &str) -> Result<Reader> {
    let (mut kind, is_there) = match Ledger::open_any_version(path) {
        Ok(ledger) => (kind_of(&ledger, machine)?, true),
        Err(Error::Absent { .. }) => (LedgerKind::Own, false),
        Err(error) => return Err(error),
    };
    if kind == LedgerKind::Own {
        kind = match Ledger::open(path) {
            Ok(ledger) => return Ok(Reader { ledger, kind, needs_second_connection: false }),
            Err(error) if is_there && error.trouble() == Trouble::DiskFull => LedgerKind::DiskFull,
            Err(error) if is_about_access(&error) => LedgerKind::ReadOnly,
            Err(error) => return Err(error),
        };
    }
    Ok(Reader { ledger: Ledger::open_read_only(path)?, kind, needs_second_connection: false })
}

fn kind_of(ledger: &Ledger, machine: &str) -> Result<LedgerKind> {
    // A backup has no write-ahead log.
    if !ledger.has_log() {
        return Ok(LedgerKind::Backup);
    }
    Ok(match collector(ledger)? {
        Some(collector) if collector != machine => LedgerKind::OtherMachine,
        _ => LedgerKind::Own,
    })
}

impl Reader {
    /// Opens a ledger for reading as it is. Never collects and never projects.
    pub fn read_only(path: &Path) -> Result<Reader> {
        let ledger = Ledger::open_read_only(path)?;
        Ok(Reader { ledger, kind: LedgerKind::ReadOnly, needs_second_connection: false })
    }

    /// Ends the snapshot, so that the reader can be kept for a later answer.
    pub fn release(&self) -> Result<()> {
        self.ledger.release_snapshot()
    }

    /// Returns whether the ledger's path leads to another file now, or to none.
    pub fn is_replaced(&self) -> bool {
        self.ledger.is_replaced()
    }

    /// Collects and catches up as far as `limit` allows. Returns how current the ledger is.
    /// From then on the ledger is read in one snapshot, until it is dropped or refreshed again.
    pub fn refresh(
        &mut self,
        roots: &[RootPath],
        machine: &str,
        limit: RefreshLimit,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Freshness> {
        self.ledger.release_snapshot()?;
        let short = (limit != RefreshLimit::Unlimited)
            .then(|| Hurry { wait: SHORT_WAIT, until: Instant::now() + SHORT_SWEEP });
        let mut freshness = self.collect_if_owned(roots, machine, limit, short, progress)?;
        freshness.unprojected = self.hold_snapshot(short)?;
        Ok(freshness)
    }

    /// Runs `wait`, which may take any time, without a snapshot, and holds another one after it.
    /// Fails with [`Error::Behind`] if that one lacks more records than `unprojected`.
    pub fn without_snapshot<T>(
        ledger: &Ledger,
        unprojected: u64,
        wait: impl FnOnce() -> T,
    ) -> Result<T> {
        ledger.release_snapshot()?;
        let waited = wait();
        ledger.hold_snapshot()?;
        if self::unprojected(ledger)? > unprojected {
            return Err(rebuild::behind_error(ledger)?);
        }
        Ok(waited)
    }

    /// Holds a snapshot whose projection has every record that existed at the call. If the
    /// projection does not catch up in time, holds the current snapshot. Returns the number of
    /// records that its projection lacks.
    fn hold_snapshot(&mut self, short: Option<Hurry>) -> Result<u64> {
        let mut writer = None;
        if self.needs_second_connection && self.ledger.is_writable() {
            let reader = Ledger::open_read_only(self.ledger.path())?;
            writer = Some(std::mem::replace(&mut self.ledger, reader));
        }
        let limit = Instant::now() + self.ledger.longest_catch_up();
        let mut last = None;
        let mut can_wait = self.kind == LedgerKind::Own;
        loop {
            self.ledger.hold_snapshot()?;
            let now = rebuild::projected(self.ledger.conn())?;
            // Stops at the record seen first, so that a busy appender cannot starve the reader.
            let last = *last.get_or_insert(rebuild::last_record(self.ledger.conn())?);
            if !can_wait || now.is_some_and(|now| now.to >= last) {
                return unprojected(&self.ledger);
            }
            self.ledger.release_snapshot()?;
            let writer = writer.as_mut().unwrap_or(&mut self.ledger);
            // The answer would lack known records, so this waits for another writer until the
            // limit.
            writer.set_hurry(short.map(|Hurry { until, .. }| Hurry {
                wait: until.saturating_duration_since(Instant::now()),
                until,
            }))?;
            let caught_up = rebuild::catch_up_until(writer, limit);
            writer.set_hurry(None)?;
            match caught_up {
                Err(error) if short.is_some() && is_busy_or_late(&error) => can_wait = false,
                Err(error) if error.trouble() == Trouble::DiskFull => can_wait = false,
                caught_up => caught_up?,
            }
        }
    }

    fn collect_if_owned(
        &mut self,
        roots: &[RootPath],
        machine: &str,
        limit: RefreshLimit,
        short: Option<Hurry>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Freshness> {
        if self.kind != LedgerKind::Own {
            return self.freshness_without_collecting();
        }
        match self.collect(roots, machine, limit, short, progress) {
            // A partial projection can be read; one of another version cannot.
            Err(error)
                if error.trouble() == Trouble::DiskFull
                    && rebuild::projected(self.ledger.conn())?.is_some() =>
            {
                self.kind = LedgerKind::DiskFull;
                self.freshness_without_collecting()
            }
            collected => collected,
        }
    }

    fn collect(
        &mut self,
        roots: &[RootPath],
        machine: &str,
        limit: RefreshLimit,
        short: Option<Hurry>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Freshness> {
        // A partial projection can be read; one of another version cannot.
        if rebuild::projected(self.ledger.conn())?.is_none() {
            rebuild::catch_up(&mut self.ledger, &mut |done, total| {
                progress(Progress::Rebuilding { done, total });
            })?;
        }
        if limit == RefreshLimit::None {
            return self.freshness_without_collecting();
        }
        self.ledger.set_hurry(short)?;
        let began = clock::now_ms();
        let swept = adopt(&mut self.ledger, machine)
            .and_then(|()| sweep(&mut self.ledger, roots, progress));
        self.ledger.set_hurry(None)?;
        match swept {
            Ok(swept) => Ok(Freshness {
                fresh_as_of: if swept.pending.is_none() {
                    began
                } else {
                    self.freshness_without_collecting()?.fresh_as_of
                },
                pending_bytes: Some(swept.pending.bytes),
                pending_files: swept.pending.files,
                pending_databases: swept.pending.databases,
                unprojected: 0,
                was_busy: false,
                unreadable: swept
                    .unreadable
                    .into_iter()
                    .map(|(path, why)| (path.display().to_string(), why))
                    .collect(),
            }),
            Err(error) if short.is_some() && is_busy_or_late(&error) => {
                // Records that the other process stores now are not in the answer either.
                let pending = count_pending(&self.ledger, roots)?;
                Ok(Freshness {
                    // A projection that is behind is counted in records.
                    was_busy: !matches!(error, Error::Behind { .. }),
                    pending_bytes: Some(pending.bytes),
                    pending_files: pending.files,
                    ..self.freshness_without_collecting()?
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns how current the ledger is, without collecting.
    fn freshness_without_collecting(&self) -> Result<Freshness> {
        Ok(Freshness { fresh_as_of: collected_at(&self.ledger)?, ..Freshness::default() })
    }
}

/// Returns whether another process keeps this one from writing, or the time limit was reached.
fn is_busy_or_late(error: &Error) -> bool {
    error.trouble() == Trouble::Busy
}

/// Returns the time when a ledger was last collected into, milliseconds UTC.
pub fn collected_at(ledger: &Ledger) -> Result<i64> {
    let sql = "SELECT coalesce(collected_at, created_at) FROM ledger";
    Ok(ledger.conn().query_row(sql, [], |row| row.get(0))?)
}

/// Returns the number of records that are not projected yet. The next sync, or any reader that may
/// write, projects them.
pub fn unprojected(ledger: &Ledger) -> Result<u64> {
    let sql = "SELECT projected_to FROM ledger";
    let to = ledger.conn().query_row(sql, [], |row| row.get(0))?;
    rebuild::count_after(ledger.conn(), to)
}

/// Returns a text that differs after every change of what can be read: new records, new rows of the
/// projection, a collected batch, a forgotten session, a restored backup.
pub fn state(ledger: &Ledger) -> Result<String> {
    Ok(ledger.conn().query_row(
        "SELECT epoch || ' ' || projection_version || ' ' || projected_to || ' '
                || coalesce(collected_at, 0) || ' '
                || (SELECT coalesce(max(seq), 0) FROM records) || ' '
                || (SELECT count(*) FROM forgotten)
           FROM ledger",
        [],
        |row| row.get(0),
    )?)
}

/// Fails with [`Error::Behind`] if sessions may be missing from the projection, so that an empty
/// answer may be wrong. Lines that were appended a moment ago do not count.
pub fn refuse_if_behind(ledger: &Ledger) -> Result<()> {
    match rebuild::has_all_sessions(ledger.conn())? {
        true => Ok(()),
        false => Err(rebuild::behind_error(ledger)?),
    }
}
