//! The thread that projects appended records, so that an append need not wait. It begins when
//! enough records wait or after a short delay. It also compresses pending records and writes the
//! log back.
//!
//! Never appends a record. Its commits need not wait for the disk, because the lines are on disk
//! already. A call that needs the projection earlier, or after a failure, projects by itself.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Result;
use crate::file::ledger::Ledger;
use crate::project::Fold;
use crate::project::rebuild::{self, CatchUpStep};
use crate::truth::chunks;

/// The number of waiting records at which the thread projects at once, so that the backlog stays
/// small.
const MAX_WAITING_RECORDS: i64 = 64;

/// The longest delay before a record is projected, so that readers are nearly current.
const MAX_DELAY: Duration = Duration::from_millis(50);

/// The longest time of one transaction, so that other writers wait only about 2 ms.
const MAX_TRANSACTION_TIME: Duration = Duration::from_millis(2);

/// The longest time that the thread waits for another writer. After that, the next call that needs
/// the projection does the work.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(2);

/// The projecting thread, started at the first append.
#[derive(Debug, Default)]
pub(super) struct Projector {
    running: Option<RunningThread>,
}

#[derive(Debug)]
struct RunningThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The time to begin; `None` if no record waits.
    due: Option<Instant>,
    is_over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave the state half changed, so a poisoned lock is safe to use.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Projector {
    /// Schedules the thread: the projection is now `lag` records behind.
    pub(super) fn schedule(&mut self, ledger: &Ledger, lag: i64) {
        let running = self.running.get_or_insert_with(|| RunningThread::start(ledger.path()));
        let mut state = running.shared.state();
        let now = Instant::now();
        let is_urgent = lag >= MAX_WAITING_RECORDS && state.due.is_none_or(|due| due > now);
        if is_urgent {
            state.due = Some(now);
        } else if state.due.is_none() {
            state.due = Some(now + MAX_DELAY);
        } else {
            return;
        }
        drop(state);
        running.shared.changed.notify_one();
    }
}

impl RunningThread {
    fn start(path: &Path) -> RunningThread {
        let shared = Arc::new(Shared::default());
        let (path, shared_with_thread) = (path.to_owned(), Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("projector".to_owned());
        // If no thread can be started, each reader projects by itself.
        let thread = thread.spawn(move || run(path, &shared_with_thread)).ok();
        RunningThread { shared, thread }
    }
}

impl Drop for RunningThread {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Projects records when they are due, until the store is closed.
fn run(path: PathBuf, shared: &Shared) {
    let mut open: Option<(Ledger, Fold)> = None;
    loop {
        let is_over = wait(shared);
        // After an error, the next append tries again; the records are on disk.
        let result = match &mut open {
            Some((ledger, fold)) => project_and_maintain(ledger, fold),
            none => Ledger::open(&path)
                .and_then(|mut ledger| {
                    ledger.set_longest_wait(MAX_LOCK_WAIT)?;
                    Ok(none.insert((ledger, Fold::default())))
                })
                .and_then(|(ledger, fold)| project_and_maintain(ledger, fold)),
        };
        if result.is_err() {
            open = None;
        }
        if is_over {
            return;
        }
    }
}

/// Waits until there is work. Returns true if the store is closing.
fn wait(shared: &Shared) -> bool {
    let mut state = shared.state();
    loop {
        if state.is_over {
            return true;
        }
        let now = Instant::now();
        let left = match state.due {
            Some(due) if due <= now => {
                state.due = None;
                return false;
            }
            Some(due) => due - now,
            None => Duration::MAX,
        };
        state = match left {
            Duration::MAX => shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            left => {
                let waited = shared.changed.wait_timeout(state, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

/// Projects the waiting records, compresses pending ones and writes the log back.
fn project_and_maintain(ledger: &mut Ledger, fold: &mut Fold) -> Result<()> {
    catch_up(ledger, fold)?;
    chunks::seal_if_wanted(ledger)?;
    ledger.write_back()
}

fn catch_up(ledger: &mut Ledger, fold: &mut Fold) -> Result<()> {
    loop {
        let step = ledger.write(|tx| {
            // Another connection may have projected records in the meantime.
            fold.drop_cache();
            rebuild::catch_up_step(tx, fold, MAX_TRANSACTION_TIME)
        })?;
        // In every other case, a call that needs the projection does the rest.
        if step != CatchUpStep::MoreAppended {
            return Ok(());
        }
    }
}
