//! What has happened and was not looked at yet. Threads put hints in, the watch takes them out.
//!
//! Bounded: a storm of hints becomes one that says "anything". Whoever waits is woken by the first
//! hint of its kind, not by each.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// More files than this are looked for with one walk.
const MOST_FILES: usize = 256;

/// Ends a watch, from any thread.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    pub(super) inbox: Arc<Inbox>,
}

impl Stop {
    /// A watch that nobody has stopped.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Ends it, between two transactions if it is writing.
    pub fn stop(&self) {
        self.inbox.is_stopped.store(true, Ordering::Relaxed);
        // Whoever waits either sees it before it sleeps or is woken.
        drop(self.inbox.state());
        self.inbox.woken.notify_all();
    }
}

/// What a format's file may have gone through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hint {
    /// This file.
    File(PathBuf),
    /// Anything.
    All,
}

/// Which kinds of hints there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Noticed {
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
    fn noticed(&self) -> Noticed {
        Noticed { files: !self.files.is_empty(), all: self.all }
    }
}

impl Inbox {
    /// Puts a hint in.
    pub(super) fn put(&self, hint: Hint) {
        let mut state = self.state();
        let before = state.noticed();
        match hint {
            Hint::File(path) if state.files.len() < MOST_FILES => {
                state.files.insert(path);
            }
            Hint::File(path) => state.all |= !state.files.contains(&path),
            Hint::All => state.all = true,
        }
        if state.noticed() != before {
            self.woken.notify_all();
        }
    }

    /// Waits until there are other kinds of hints than were `seen`, at most so long.
    pub(super) fn wait(&self, seen: Noticed, longest: Duration) -> Noticed {
        let unchanged = |state: &mut State| state.noticed() == seen && !self.is_stopped();
        let waited = self.woken.wait_timeout_while(self.state(), longest, unchanged);
        waited.map_or_else(|error| error.into_inner().0.noticed(), |(state, _)| state.noticed())
    }

    /// Takes all hints out: the files, and whether it may be anything.
    pub(super) fn take(&self) -> (HashSet<PathBuf>, bool) {
        let mut state = self.state();
        (std::mem::take(&mut state.files), std::mem::take(&mut state.all))
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Set once the watch is to end.
    pub(super) fn stopped(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_stopped)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Hints are as good as before if the thread that held them is gone.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_becomes_one_hint() {
        let inbox = Inbox::default();
        for number in 0..MOST_FILES + 1 {
            assert!(!inbox.state().all, "{number}");
            inbox.put(Hint::File(PathBuf::from(number.to_string())));
        }
        let (files, all) = inbox.take();
        assert_eq!((files.len(), all), (MOST_FILES, true));
        assert_eq!(inbox.take(), (HashSet::new(), false));
    }

    #[test]
    fn hints_of_a_kind_that_was_seen_wake_nobody() {
        let inbox = Inbox::default();
        inbox.put(Hint::File("a".into()));
        let seen = inbox.wait(Noticed::default(), Duration::from_secs(60));
        assert_eq!(seen, Noticed { files: true, all: false });
        inbox.put(Hint::File("b".into()));
        assert_eq!(inbox.wait(seen, Duration::from_millis(1)), seen);
        inbox.put(Hint::All);
        assert!(inbox.wait(seen, Duration::from_secs(60)).all);
    }

    #[test]
    fn stopping_ends_waiting() {
        let stop = Stop::new();
        stop.stop();
        stop.inbox.wait(Noticed::default(), Duration::from_secs(60));
        assert!(stop.inbox.is_stopped());
    }
}
