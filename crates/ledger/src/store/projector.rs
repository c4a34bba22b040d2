//! What an append need not wait for: a thread of its own folds into the projection what a store has
//! appended, when enough has come together or a moment has passed, compresses what has piled up, and
//! writes the log back. Whoever needs the projection sooner brings it up before.
//!
//! The lines are on disk already, so this waits for no disk; and if it fails, or the process ends
//! before, the next one to need the projection does the rest.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Result;
use crate::file::ledger::Ledger;
use crate::project::Fold;
use crate::project::rebuild::{self, Followed};
use crate::truth::chunks;

/// So many records are not left waiting, …
const ENOUGH: i64 = 64;

/// … and none for longer than this.
const MOMENT: Duration = Duration::from_millis(50);

/// Others who want to write wait about so long.
const SLICE: Duration = Duration::from_millis(2);

/// For another writer. Who is slower leaves the rest to the next one.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The thread, once there is something to do.
#[derive(Debug, Default)]
pub(super) struct Follower {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
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
    /// When to begin, if there is something to do.
    due: Option<Instant>,
    is_over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is done under the lock that could leave it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    /// The projection is that many records behind now.
    pub(super) fn notice(&mut self, ledger: &Ledger, lag: i64) {
        let running = self.running.get_or_insert_with(|| Running::start(ledger.path()));
        let mut state = running.shared.state();
        let now = Instant::now();
        let is_enough = lag >= ENOUGH && state.due.is_none_or(|due| due > now);
        if is_enough {
            state.due = Some(now);
        } else if state.due.is_none() {
            state.due = Some(now + MOMENT);
        } else {
            return;
        }
        drop(state);
        running.shared.changed.notify_one();
    }
}

impl Running {
    fn start(path: &Path) -> Running {
        let shared = Arc::new(Shared::default());
        let (path, theirs) = (path.to_owned(), Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("follow".to_owned());
        // Without it, whoever reads brings the projection up.
        let thread = thread.spawn(move || run(path, &theirs)).ok();
        Running { shared, thread }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(path: PathBuf, shared: &Shared) {
    let mut open: Option<(Ledger, Fold)> = None;
    loop {
        let is_over = wait(shared);
        // Who fails here tries again at the next append; nothing is lost meanwhile.
        let tended = match &mut open {
            Some((ledger, fold)) => tend(ledger, fold),
            none => Ledger::open(&path)
                .and_then(|mut ledger| {
                    ledger.set_longest_wait(LONGEST_WAIT)?;
                    Ok(none.insert((ledger, Fold::default())))
                })
                .and_then(|(ledger, fold)| tend(ledger, fold)),
        };
        if tended.is_err() {
            open = None;
        }
        if is_over {
            return;
        }
    }
}

/// Waits until there is something to do. True if it is the last time.
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

fn tend(ledger: &mut Ledger, fold: &mut Fold) -> Result<()> {
    follow(ledger, fold)?;
    chunks::seal_if_wanted(ledger)?;
    ledger.write_back()
}

fn follow(ledger: &mut Ledger, fold: &mut Fold) -> Result<()> {
    loop {
        let followed = ledger.write(|tx| {
            // Others may have folded in something meanwhile.
            fold.let_go();
            rebuild::follow(tx, fold, SLICE)
        })?;
        // Anything else is for those who need it, and who say that they are waiting.
        if followed != Followed::Partly {
            return Ok(());
        }
    }
}
