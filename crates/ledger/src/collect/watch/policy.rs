//! When to do what. Pure: it is told what happened and when, and says what is due.
//!
//! Hints make a collection due after a short while, so that a burst of them costs one; the longer a
//! collection took, the longer the next one waits. Everything else happens once after it became
//! quiet, or with the sweep. In between there is nothing to do, and nobody is woken.

use std::time::Duration;

/// How long to wait before what.
#[derive(Debug, Clone)]
pub struct Timing {
    /// From the first hint of a burst to collecting.
    pub debounce: Duration,
    /// Until files that changed are looked at once more: a last line without an end stands by then.
    pub settle: Duration,
    /// Until the write-ahead log is written back.
    pub tidy: Duration,
    /// Until a run of records that nothing was added to is sealed.
    pub seal: Duration,
    /// Between two looks at everything, when every folder is watched.
    pub sweep: Duration,
    /// The same, when the system has watches for some folders only.
    pub sweep_partly: Duration,
    /// The same, when it has none.
    pub sweep_blind: Duration,
    /// Until the first new attempt after a failure; twice as long after each further one …
    pub retry: Duration,
    /// … up to this.
    pub retry_at_most: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            debounce: Duration::from_millis(100),
            settle: Duration::from_secs(6),
            tidy: Duration::from_secs(30),
            // A little more than `chunks` calls left alone.
            seal: Duration::from_secs(10 * 60 + 2),
            sweep: Duration::from_secs(5 * 60),
            sweep_partly: Duration::from_secs(5),
            sweep_blind: Duration::from_secs(2),
            retry: Duration::from_secs(1),
            retry_at_most: Duration::from_secs(60),
        }
    }
}

/// A collection is followed by a pause of at least this many times as long as it took.
const REST: u32 = 2;

/// No pause between two of a kind is shorter than this, …
const SHORTEST_REST: Duration = Duration::from_millis(250);

/// … or longer than this.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// Sweeps take at most this part of the time, however many files there are.
const SWEEPS_ARE_ONE_IN: u32 = 25;

/// How much of what is to be watched is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cover {
    Full,
    Part,
    Blind,
}

/// What can be due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Look at everything.
    Sweep,
    /// Look at the files that there were hints about.
    Look,
    /// Look at the files that changed last once more.
    Settle,
    /// Write the log back.
    Tidy,
}

/// What is due when. Times count from the start of the watch.
#[derive(Debug)]
pub(super) struct Policy {
    timing: Timing,
    cover: Cover,
    sweep_at: Duration,
    look_at: Option<Duration>,
    settle_at: Option<Duration>,
    tidy_at: Option<Duration>,
    seal_at: Option<Duration>,
    /// No hint makes a sweep due before this, …
    sweep_free_at: Duration,
    /// … or a look.
    look_free_at: Duration,
    /// After a failure: when to try again, and how long that was waited for.
    retry: Option<(Duration, Duration)>,
}

impl Policy {
    /// A sweep is due at once.
    pub(super) fn new(timing: Timing) -> Policy {
        Policy {
            timing,
            cover: Cover::Full,
            sweep_at: Duration::ZERO,
            look_at: None,
            settle_at: None,
            tidy_at: None,
            seal_at: None,
            sweep_free_at: Duration::ZERO,
            look_free_at: Duration::ZERO,
            retry: None,
        }
    }

    /// What to do now, or how long there is nothing to do.
    pub(super) fn next(&self, now: Duration) -> Result<Task, Duration> {
        let (at, task) = self.due();
        if at <= now { Ok(task) } else { Err(at - now) }
    }

    fn due(&self) -> (Duration, Task) {
        // After a failure nothing but a sweep catches up with everything.
        if let Some((at, _)) = self.retry {
            return (at, Task::Sweep);
        }
        let sweep_at = self.seal_at.map_or(self.sweep_at, |seal| seal.min(self.sweep_at));
        let others = [
            (self.look_at, Task::Look),
            (self.settle_at, Task::Settle),
            (self.tidy_at, Task::Tidy),
        ];
        others.into_iter().filter_map(|(at, task)| Some((at?, task))).fold(
            (sweep_at, Task::Sweep),
            |first, other| if other.0 < first.0 { other } else { first },
        )
    }

    /// A file may have changed.
    pub(super) fn file_hinted(&mut self, now: Duration) {
        let soon = (now + self.timing.debounce).max(self.look_free_at);
        self.look_at = Some(self.look_at.unwrap_or(soon));
    }

    /// Anything may have changed.
    pub(super) fn all_hinted(&mut self, now: Duration) {
        let soon = (now + self.timing.debounce).max(self.sweep_free_at);
        self.sweep_at = self.sweep_at.min(soon);
    }

    /// Time has passed unseen, or something was missed: look at everything now.
    pub(super) fn sweep_now(&mut self, now: Duration) {
        self.sweep_at = self.sweep_at.min(now);
    }

    /// So much of everything is watched.
    pub(super) fn covered(&mut self, now: Duration, cover: Cover) {
        self.cover = cover;
        self.sweep_at = self.sweep_at.min(now + self.pause());
    }

    /// A task is done. `wrote` if it changed the ledger.
    pub(super) fn done(&mut self, now: Duration, task: Task, took: Duration, wrote: bool) {
        self.retry = None;
        let free_at = now + (took * REST).clamp(SHORTEST_REST, LONGEST_REST);
        match task {
            Task::Sweep => {
                self.sweep_free_at = free_at;
                self.sweep_at = now + self.pause().max(took * SWEEPS_ARE_ONE_IN);
                self.look_at = None;
                // The sweep seals; what it wrote goes back into the file.
                if self.seal_at.is_some_and(|seal| seal <= now) {
                    self.seal_at = None;
                    self.tidy_at = Some(now + self.timing.tidy);
                }
            }
            Task::Look => {
                self.look_free_at = free_at;
                self.look_at = None;
            }
            Task::Settle => self.settle_at = None,
            Task::Tidy => self.tidy_at = None,
        }
        if wrote {
            self.settle_at = Some(now + self.timing.settle);
            self.tidy_at = Some(now + self.timing.tidy);
            self.seal_at = Some(now + self.timing.seal);
        }
    }

    /// A task failed. Returns how long nothing is tried.
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

    /// A clock, a policy, and a list of what was done when.
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

        /// Lets time pass. `wrote` says whether a task changes the ledger.
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
        assert_eq!(run.done, [(1_100, Task::Look), (7_100, Task::Settle), (31_100, Task::Tidy)]);
    }

    #[test]
    fn what_is_left_alone_is_sealed_and_written_back() {
        let mut run = Run::new();
        run.policy.file_hinted(run.now);
        run.until(899_000, |task| task == Task::Look);
        let sealed = 100 + 602_000;
        assert!(run.done.contains(&(sealed, Task::Sweep)), "{:?}", run.done);
        assert_eq!(run.done.last(), Some(&(sealed + 30_000, Task::Tidy)));
    }

    #[test]
    fn a_storm_is_a_few_collections_a_second() {
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
        // A look is another thing: one line does not wait for what a sweep took.
        policy.file_hinted(at(0));
        assert_eq!(policy.next(at(0)), Err(at(100)));
        policy.done(at(2_000), Task::Look, at(60_000), true);
        policy.done(at(2_000), Task::Sweep, at(60_000), true);
        policy.file_hinted(at(2_000));
        policy.all_hinted(at(2_000));
        assert_eq!(policy.next(at(2_000)), Err(LONGEST_REST));
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
    fn without_watches_it_looks_more_often_but_not_all_the_time() {
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
    fn waking_up_is_a_reason_to_look() {
        let mut run = Run::new();
        run.until(10_000, |_| false);
        run.policy.sweep_now(run.now);
        assert_eq!(run.policy.next(run.now), Ok(Task::Sweep));
    }
}
