//! Decides when to do what. Pure: it gets events with their times, and returns the task that is
//! due.
//!
//! A hint makes a collection due after a short delay, so that a burst of hints causes one
//! collection. The longer a collection took, the longer the next one waits. Everything else runs
//! once after the files became quiet, or with the sweep. In between the process sleeps.

use std::time::Duration;

use crate::file::ledger::MAX_LOCK_WAIT;

/// The delays of a watch.
#[derive(Debug, Clone)]
pub struct Timing {
    /// The delay from the first hint of a burst to collecting.
    pub debounce: Duration,
    /// The delay after which changed files are checked again, to see whether an unterminated last
    /// line is unchanged.
    pub recheck: Duration,
    /// The delay until the write-ahead log is written back.
    pub checkpoint: Duration,
    /// The delay after the last record until pending records are sealed.
    pub seal: Duration,
    /// The interval of sweeps when every folder is watched.
    pub sweep: Duration,
    /// The interval of sweeps when the system has watches for some folders only.
    pub sweep_partly: Duration,
    /// The interval of sweeps when the system has no watches.
    pub sweep_blind: Duration,
    /// The longest wait for another writer.
    pub wait: Duration,
    /// The delay before the first retry after a failure. It doubles with each further one.
    pub retry: Duration,
    /// The longest delay before a retry.
    pub retry_at_most: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            debounce: Duration::from_millis(100),
            recheck: Duration::from_secs(6),
            checkpoint: Duration::from_secs(30),
            // A little longer than the time after which `chunks` seals pending records.
            seal: Duration::from_secs(10 * 60 + 2),
            sweep: Duration::from_secs(5 * 60),
            sweep_partly: Duration::from_secs(5),
            sweep_blind: Duration::from_secs(2),
            wait: MAX_LOCK_WAIT,
            retry: Duration::from_secs(1),
            retry_at_most: Duration::from_secs(60),
        }
    }
}

/// The pause after a collection, as a multiple of its duration.
const PAUSE_FACTOR: u32 = 2;

/// The shortest pause between two tasks of a kind.
const MIN_PAUSE: Duration = Duration::from_millis(250);

/// The longest pause between two tasks of a kind.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// The smallest pause after a sweep, as a multiple of its duration: sweeps take less than one 25th
/// of the time, with any number of files.
const SWEEP_PAUSE_FACTOR: u32 = 25;

/// The share of folders that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cover {
    Full,
    Part,
    Blind,
}

/// A task of the watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Collects everything.
    Sweep,
    /// Collects the files with hints.
    Look,
    /// Looks again at the files that changed last.
    Recheck,
    /// Writes the log back.
    Checkpoint,
}

/// The times at which tasks are due, counted from the start of the watch.
#[derive(Debug)]
pub(super) struct Policy {
    timing: Timing,
    cover: Cover,
    sweep_at: Duration,
    look_at: Option<Duration>,
    recheck_at: Option<Duration>,
    checkpoint_at: Option<Duration>,
    seal_at: Option<Duration>,
    /// The earliest time of a sweep that a hint asks for.
    sweep_free_at: Duration,
    /// The earliest time of a look that a hint asks for.
    look_free_at: Duration,
    /// After a failure: the time of the next attempt, and the delay before it.
    retry: Option<(Duration, Duration)>,
}

impl Policy {
    /// Creates a policy with a sweep due at once.
    pub(super) fn new(timing: Timing) -> Policy {
        Policy {
            timing,
            cover: Cover::Full,
            sweep_at: Duration::ZERO,
            look_at: None,
            recheck_at: None,
            checkpoint_at: None,
            seal_at: None,
            sweep_free_at: Duration::ZERO,
            look_free_at: Duration::ZERO,
            retry: None,
        }
    }

    /// Returns the task that is due now, or the time until one is.
    pub(super) fn next(&self, now: Duration) -> Result<Task, Duration> {
        let (at, task) = self.due();
        if at <= now { Ok(task) } else { Err(at - now) }
    }

    fn due(&self) -> (Duration, Task) {
        // After a failure only a sweep finds everything that was missed.
        if let Some((at, _)) = self.retry {
            return (at, Task::Sweep);
        }
        let sweep_at = self.seal_at.map_or(self.sweep_at, |seal| seal.min(self.sweep_at));
        let others = [
            (self.look_at, Task::Look),
            (self.recheck_at, Task::Recheck),
            (self.checkpoint_at, Task::Checkpoint),
        ];
        others.into_iter().filter_map(|(at, task)| Some((at?, task))).fold(
            (sweep_at, Task::Sweep),
            |first, other| if other.0 < first.0 { other } else { first },
        )
    }

    /// Records that a file may have changed.
    pub(super) fn file_hinted(&mut self, now: Duration) {
        let soon = (now + self.timing.debounce).max(self.look_free_at);
        self.look_at = Some(self.look_at.unwrap_or(soon));
    }

    /// Records that any file may have changed.
    pub(super) fn all_hinted(&mut self, now: Duration) {
        let soon = (now + self.timing.debounce).max(self.sweep_free_at);
        self.sweep_at = self.sweep_at.min(soon);
    }

    /// Makes a sweep due now, after a suspension or a missed event.
    pub(super) fn sweep_now(&mut self, now: Duration) {
        self.sweep_at = self.sweep_at.min(now);
    }

    /// Records which share of the folders is watched.
    pub(super) fn covered(&mut self, now: Duration, cover: Cover) {
        self.cover = cover;
        self.sweep_at = self.sweep_at.min(now + self.pause());
    }

    /// Records that a task is done. `wrote` if it changed the ledger.
    pub(super) fn done(&mut self, now: Duration, task: Task, took: Duration, wrote: bool) {
        self.retry = None;
        let free_at = now + (took * PAUSE_FACTOR).clamp(MIN_PAUSE, MAX_PAUSE);
        match task {
            Task::Sweep => {
                self.sweep_free_at = free_at;
                self.sweep_at = now + self.pause().max(took * SWEEP_PAUSE_FACTOR);
                self.look_at = None;
                // The sweep seals pending records, so the log is written back after it.
                if self.seal_at.is_some_and(|seal| seal <= now) {
                    self.seal_at = None;
                    self.checkpoint_at = Some(now + self.timing.checkpoint);
                }
            }
            Task::Look => {
                self.look_free_at = free_at;
                self.look_at = None;
            }
            Task::Recheck => self.recheck_at = None,
            Task::Checkpoint => self.checkpoint_at = None,
        }
        if wrote {
            self.recheck_at = Some(now + self.timing.recheck);
            self.checkpoint_at = Some(now + self.timing.checkpoint);
            self.seal_at = Some(now + self.timing.seal);
        }
    }

    /// Records that a task failed. Returns the delay before the next attempt.
    pub(super) fn failed(&mut self, now: Duration) -> Duration {
        let delay = match self.retry {
            Some((_, delay)) => (delay * 2).min(self.timing.retry_at_most),
            None => self.timing.retry,
        };
        self.retry = Some((now + delay, delay));
        delay
    }

    fn pause(&self) -> Duration {
        match self.cover {
            Cover::Full => self.timing.sweep,
            Cover::Part => self.timing.sweep_partly,
            Cover::Blind => self.timing.sweep_blind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(50);

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// A clock, a policy, and the tasks that ran, with their times.
    struct Run {
        policy: Policy,
        now: Duration,
        done: Vec<(u128, Task)>,
    }

    impl Run {
        fn new() -> Run {
            let mut run = Run {
                policy: Policy::new(Timing::default()),
                now: Duration::ZERO,
                done: Vec::new(),
            };
            run.until(0, |_| false);
            assert_eq!(run.done, [(0, Task::Sweep)]);
            run.done.clear();
            run
        }

        /// Advances the clock. `wrote` decides whether a task changes the ledger.
        fn until(&mut self, milliseconds: u64, wrote: impl Fn(Task) -> bool) {
            let end = at(milliseconds);
            loop {
                match self.policy.next(self.now) {
                    Ok(task) => {
                        self.done.push((self.now.as_millis(), task));
                        self.policy.done(self.now, task, TOOK, wrote(task));
                    }
                    Err(wait) if self.now + wait <= end => self.now += wait,
                    Err(_) => break,
                }
            }
            self.now = end;
        }
    }

    #[test]
    fn an_idle_hour_is_twelve_sweeps() {
        let mut run = Run::new();
        run.until(60_000, |_| false);
        assert_eq!(run.done, [], "an idle minute");
        run.until(3_600_000, |_| false);
        assert_eq!(run.done.len(), 12);
        assert!(run.done.iter().all(|(_, task)| *task == Task::Sweep));
    }

    #[test]
    fn one_line_is_collected_soon_and_then_all_is_quiet() {
        let mut run = Run::new();
        run.until(1_000, |_| false);
        run.policy.file_hinted(run.now);
        run.until(299_000, |task| task == Task::Look);
        assert_eq!(
            run.done,
            [(1_100, Task::Look), (7_100, Task::Recheck), (31_100, Task::Checkpoint)]
        );
    }

    #[test]
    fn quiet_records_are_sealed_and_the_log_is_written_back() {
        let mut run = Run::new();
        run.policy.file_hinted(run.now);
        run.until(899_000, |task| task == Task::Look);
        let sealed = 100 + 602_000;
        assert!(run.done.contains(&(sealed, Task::Sweep)), "{:?}", run.done);
        assert_eq!(run.done.last(), Some(&(sealed + 30_000, Task::Checkpoint)));
    }

    #[test]
    fn many_hints_are_a_few_collections_a_second() {
        let mut run = Run::new();
        for millisecond in 1_000..2_000 {
            run.until(millisecond, |_| true);
            run.policy.file_hinted(run.now);
            run.policy.all_hinted(run.now);
        }
        let within: Vec<_> =
            run.done.iter().filter(|(at, _)| (1_000..2_000).contains(at)).collect();
        assert!((3..=8).contains(&within.len()), "{within:?}");
    }

    #[test]
    fn slow_collections_come_less_often() {
        let mut policy = Policy::new(Timing::default());
        policy.done(at(0), Task::Sweep, at(500), true);
        policy.all_hinted(at(0));
        assert_eq!(policy.next(at(0)), Err(at(1_000)));
        // A look does not wait for the pause after a sweep.
        policy.file_hinted(at(0));
        assert_eq!(policy.next(at(0)), Err(at(100)));
        policy.done(at(2_000), Task::Look, at(60_000), true);
        policy.done(at(2_000), Task::Sweep, at(60_000), true);
        policy.file_hinted(at(2_000));
        policy.all_hinted(at(2_000));
        assert_eq!(policy.next(at(2_000)), Err(MAX_PAUSE));
    }

    #[test]
    fn failures_are_retried_less_and_less_often_and_hints_do_not_help() {
        let mut policy = Policy::new(Timing::default());
        let (mut now, mut delays) = (at(0), Vec::new());
        for _ in 0..8 {
            let delay = policy.failed(now);
            delays.push(delay.as_secs());
            policy.file_hinted(now);
            policy.all_hinted(now);
            assert_eq!(policy.next(now), Err(delay));
            now += delay;
            assert_eq!(policy.next(now), Ok(Task::Sweep));
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
        policy.done(now, Task::Sweep, TOOK, true);
        assert_eq!(policy.failed(now).as_secs(), 1);
    }

    #[test]
    fn without_watches_sweeps_are_more_frequent_but_limited() {
        let mut policy = Policy::new(Timing::default());
        policy.done(at(0), Task::Sweep, TOOK, false);
        policy.covered(at(0), Cover::Part);
        assert_eq!(policy.next(at(0)), Err(at(5_000)));
        policy.covered(at(0), Cover::Blind);
        assert_eq!(policy.next(at(0)), Err(at(2_000)));
        policy.done(at(2_000), Task::Sweep, at(400), false);
        assert_eq!(policy.next(at(2_000)), Err(at(10_000)));
    }

    #[test]
    fn a_suspension_makes_a_sweep_due_at_once() {
        let mut run = Run::new();
        run.until(10_000, |_| false);
        run.policy.sweep_now(run.now);
        assert_eq!(run.policy.next(run.now), Ok(Task::Sweep));
    }
}
