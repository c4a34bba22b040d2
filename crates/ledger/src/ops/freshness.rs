//! Reading what is there now: a reader brings the ledger up to date first, if it is this machine's
//! to collect into, and keeps nobody waiting for that.
//!
//! A backup, a ledger of another machine and a file that cannot be written to are read as they are.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::base::clock;
use crate::collect::{Progress, RootPath, foresee, sweep};
use crate::file::ledger::{Hurry, Ledger};
use crate::file::owner::{adopt, collector, is_about_access};
use crate::project::rebuild;
use crate::{Error, Result, Trouble};

/// How long a reader waits for the ledger to be brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Not at all: what is in the ledger is good enough.
    None,
    /// As long as nobody notices: for another writer 50 ms, for collecting 300 ms.
    Short,
    /// Until everything is collected.
    Long,
}

/// For another writer.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// For collecting.
const SHORT_SWEEP: Duration = Duration::from_millis(300);

/// What an answer is worth.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Freshness {
    /// Everything that was written before this moment (milliseconds UTC) is in the answer.
    pub fresh_as_of: i64,
    /// New bytes in files that are not in the answer; `None` where nobody looked.
    pub pending_bytes: Option<u64>,
    /// Files that are new or have grown and are not in the answer yet.
    #[serde(skip)]
    pub pending_files: u64,
    /// Databases with something new in them that is not in the answer yet.
    #[serde(skip)]
    pub pending_databases: u64,
    /// Records that nothing was derived from yet: a rebuild was interrupted.
    #[serde(skip)]
    pub unprojected: u64,
    /// Another process was writing all the time.
    #[serde(skip)]
    pub was_busy: bool,
    /// What should have been read and cannot be: where, and why.
    #[serde(skip)]
    pub unreadable: Vec<(String, String)>,
}

impl Freshness {
    /// True if something new is known to be missing from the answer.
    pub fn is_behind(&self) -> bool {
        self.was_busy || self.pending_files > 0 || self.pending_databases > 0
    }
}

/// Whose ledger it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// This machine collects into it.
    Ours,
    /// A copy that `backup` made.
    Backup,
    /// Another machine collects into it.
    Foreign,
    /// It cannot be written to.
    ReadOnly,
    /// This machine would collect into it, but its disk is full.
    NoRoom,
}

/// A ledger that was opened to be read.
#[derive(Debug)]
pub struct Reader {
    /// The ledger.
    pub ledger: Ledger,
    /// Whose it is. Only ours can be brought up to date.
    pub whose: Whose,
}

/// Opens a ledger to read from it. One that `machine` collects into can be written to, and is
/// created if there is none; any other is opened for reading only.
pub fn open_to_read(path: &Path, machine: &str) -> Result<Reader> {
    let (mut whose, is_there) = match Ledger::look_into(path) {
        Ok((ledger, has_log)) => (whose(&ledger, has_log, machine)?, true),
        Err(Error::Absent { .. }) => (Whose::Ours, false),
        Err(error) => return Err(error),
    };
    if whose == Whose::Ours {
        whose = match Ledger::open(path) {
            Ok(ledger) => return Ok(Reader { ledger, whose }),
            Err(error) if is_there && error.trouble() == Trouble::DiskFull => Whose::NoRoom,
            Err(error) if is_about_access(&error) => Whose::ReadOnly,
            Err(error) => return Err(error),
        };
    }
    Ok(Reader { ledger: Ledger::open_read_only(path)?, whose })
}

fn whose(ledger: &Ledger, has_log: bool, machine: &str) -> Result<Whose> {
    // A copy has no write-ahead log.
    if !has_log {
        return Ok(Whose::Backup);
    }
    Ok(match collector(ledger)? {
        Some(collector) if collector != machine => Whose::Foreign,
        _ => Whose::Ours,
    })
}

impl Reader {
    /// Brings the ledger up to date as far as patience allows, and says how far that was.
    pub fn refresh(
        &mut self,
        roots: &[RootPath],
        machine: &str,
        patience: Patience,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Freshness> {
        if self.whose != Whose::Ours {
            return self.as_collected();
        }
        match self.collect(roots, machine, patience, progress) {
            // Half of a projection can be read; one of another version cannot.
            Err(error)
                if error.trouble() == Trouble::DiskFull
                    && rebuild::projected(self.ledger.conn())?.is_some() =>
            {
                self.whose = Whose::NoRoom;
                self.as_collected()
            }
            collected => collected,
        }
    }

    fn collect(
        &mut self,
        roots: &[RootPath],
        machine: &str,
        patience: Patience,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Freshness> {
        // Answers from a projection that is not there would be wrong, not old.
        rebuild::bring_up(&mut self.ledger, &mut |done, total| {
            progress(Progress::Rebuilding { done, total });
        })?;
        if patience == Patience::None {
            return self.as_collected();
        }
        let now = Instant::now();
        let hurry = Hurry { wait: SHORT_WAIT, until: now + SHORT_SWEEP };
        self.ledger.set_hurry((patience == Patience::Short).then_some(hurry))?;
        let began = clock::now_ms();
        let swept = adopt(&mut self.ledger, machine)
            .and_then(|()| sweep(&mut self.ledger, roots, progress));
        self.ledger.set_hurry(None)?;
        match swept {
            Ok(swept) => Ok(Freshness {
                fresh_as_of: if swept.pending.is_none() {
                    began
                } else {
                    self.as_collected()?.fresh_as_of
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
            Err(error) if patience == Patience::Short && error.trouble() == Trouble::Busy => {
                // What the other one has stored meanwhile is not in the answer either.
                let pending = foresee(&self.ledger, roots)?;
                Ok(Freshness {
                    was_busy: true,
                    pending_bytes: Some(pending.bytes),
                    pending_files: pending.files,
                    ..self.as_collected()?
                })
            }
            Err(error) => Err(error),
        }
    }

    /// What an answer is worth that comes from the ledger alone.
    fn as_collected(&self) -> Result<Freshness> {
        let fresh_as_of = "SELECT coalesce(collected_at, created_at) FROM ledger";
        let fresh_as_of = self.ledger.conn().query_row(fresh_as_of, [], |row| row.get(0))?;
        let unprojected = unprojected(&self.ledger)?;
        Ok(Freshness { fresh_as_of, unprojected, ..Freshness::default() })
    }
}

/// How many records nothing was derived from yet. The next sync, or any reader that may write, goes
/// on with it.
pub fn unprojected(ledger: &Ledger) -> Result<u64> {
    let sql = "SELECT count(*) FROM records WHERE seq > (SELECT projected_to FROM ledger)";
    Ok(ledger.conn().query_row(sql, [], |row| row.get::<_, i64>(0))?.cast_unsigned())
}
