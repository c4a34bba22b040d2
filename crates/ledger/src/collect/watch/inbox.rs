//! Hints that were not handled yet. Other threads put them in, the watch takes them out.
//!
//! Bounded: too many hints become a single `All`. A waiting watch is woken by the first hint of a
//! kind, not by each one.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The number of files above which one walk replaces single looks.
const MAX_FILE_HINTS: usize = 256;

/// A handle that ends a watch from any thread.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    pub(super) inbox: Arc<Inbox>,
}

impl Stop {
    /// Creates a handle for a watch that is not stopped.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Ends the watch, between two transactions if it is writing.
    pub fn stop(&self) {
        self.inbox.is_stopped.store(true, Ordering::Relaxed);
        // Taking the lock ensures that the watch either sees the flag before it waits or is woken.
        drop(self.inbox.state());
        self.inbox.woken.notify_all();
    }
}

/// A hint about a file that a format claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hint {
    /// This file may have changed.
    File(PathBuf),
    /// Any file may have changed.
    All,
}

/// The kinds of hints in the inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HintKinds {
    pub(super) files: bool,
    pub(super) all: bool,
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    woken: Condvar,
    is_stopped: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct State {
    files: HashSet<PathBuf>,
    all: bool,
}

impl State {
    fn hint_kinds(&self) -> HintKinds {
        HintKinds { files: !self.files.is_empty(), all: self.all }
    }
}

impl Inbox {
    /// Adds a hint.
    pub(super) fn put(&self, hint: Hint) {
        let mut state = self.state();
        let before = state.hint_kinds();
        match hint {
            Hint::File(path) if state.files.len() < MAX_FILE_HINTS => {
                state.files.insert(path);
            }
            Hint::File(path) => state.all |= !state.files.contains(&path),
            Hint::All => state.all = true,
        }
        if state.hint_kinds() != before {
            self.woken.notify_all();
        }
    }

    /// Waits until the kinds of hints differ from `seen`, for at most `longest`.
    pub(super) fn wait(&self, seen: HintKinds, longest: Duration) -> HintKinds {
        let unchanged = |state: &mut State| state.hint_kinds() == seen && !self.is_stopped();
        let waited = self.woken.wait_timeout_while(self.state(), longest, unchanged);
        waited
            .map_or_else(|error| error.into_inner().0.hint_kinds(), |(state, _)| state.hint_kinds())
    }

    /// Takes all hints out: the files, and whether any other file may have changed.
    pub(super) fn take(&self) -> (HashSet<PathBuf>, bool) {
        let mut state = self.state();
        (std::mem::take(&mut state.files), std::mem::take(&mut state.all))
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Returns the flag that is set once the watch has to end.
    pub(super) fn stopped(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_stopped)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another thread leaves the hints intact.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_hints_become_one() {
        let inbox = Inbox::default();
        for number in 0..MAX_FILE_HINTS + 1 {
            assert!(!inbox.state().all, "{number}");
            inbox.put(Hint::File(PathBuf::from(number.to_string())));
        }
        let (files, all) = inbox.take();
        assert_eq!((files.len(), all), (MAX_FILE_HINTS, true));
        assert_eq!(inbox.take(), (HashSet::new(), false));
    }

    #[test]
    fn hints_of_a_seen_kind_do_not_wake() {
        let inbox = Inbox::default();
        inbox.put(Hint::File("a".into()));
        let seen = inbox.wait(HintKinds::default(), Duration::from_secs(60));
        assert_eq!(seen, HintKinds { files: true, all: false });
        inbox.put(Hint::File("b".into()));
        assert_eq!(inbox.wait(seen, Duration::from_millis(1)), seen);
        inbox.put(Hint::All);
        assert!(inbox.wait(seen, Duration::from_secs(60)).all);
    }

    #[test]
    fn stopping_ends_waiting() {
        let stop = Stop::new();
        stop.stop();
        stop.inbox.wait(HintKinds::default(), Duration::from_secs(60));
        assert!(stop.inbox.is_stopped());
    }
}
