//! Collects files as they change, until it is stopped.
//!
//! Events of the file system are hints: they name a file to look at, never its contents. Everything
//! they miss (a full queue, too few watches, a network drive, a suspended machine) is found by the
//! sweep, which is an ordinary sync. Errors of the ledger pause the watch. Nothing is lost
//! during the pause, because every sync collects all bytes that are on disk and not in the ledger.
//!
//! Read in this order: `policy` (when to do what), `hint` (the meaning of an event), `folders` and
//! `events` (the sources of events), `inbox` (between the threads).

mod events;
mod folders;
mod hint;
mod inbox;
mod policy;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::base::foreign::FileId;
use crate::collect::{Progress, RootPath, Sweep, collect_named, sweep};
use crate::file::ledger::Ledger;
use crate::file::owner::adopt;
use crate::wire::SyncReport;
use crate::{Error, Result, Trouble};
use folders::Folders;
use hint::Filter;
use inbox::{HintKinds, Inbox};
use policy::{Cover, Policy, Task};

pub use inbox::Stop;
pub use policy::Timing;

/// The largest lead of the wall clock over the monotonic clock that does not count as a suspension
/// of the machine.
const MAX_CLOCK_LEAD: Duration = Duration::from_secs(20);

/// The largest number of changed files that are looked at a second time. A sweep finds the rest.
const MAX_RECENT_FILES: usize = 64;

/// A report of a running watch.
#[derive(Debug)]
pub enum Event<'a> {
    /// A long collection is running.
    Progress(Progress),
    /// All existing files are collected, and this many folders are watched.
    Watching {
        /// The number of watched folders.
        folders: usize,
    },
    /// New records are in the ledger.
    Collected(&'a SyncReport),
    /// A file cannot be read. Reported once, until it can be read.
    Unreadable {
        /// The file or folder.
        path: &'a Path,
        /// The reason.
        why: &'a str,
    },
    /// The system has too few watches. Changes in other folders are found by more frequent sweeps.
    TooFewWatches {
        /// The number of watched folders.
        watched: usize,
        /// The number of folders that should be watched.
        folders: usize,
    },
    /// Another file is at the ledger's path. Everything that it lacks is collected again.
    Replaced {
        /// True if there was no file and a new ledger was created.
        is_new: bool,
    },
    /// The ledger cannot be written to.
    Paused {
        /// The reason.
        error: &'a Error,
        /// The time until the next attempt.
        retry: Duration,
    },
    /// The ledger can be written to again, and everything is collected.
    Resumed,
}

/// The callback of a watch. `Break` ends the watch.
pub type Report<'a> = dyn FnMut(Event<'_>) -> ControlFlow<()> + 'a;

/// Collects everything under `roots` into the ledger at `path`, which `machine` adopts, and then
/// collects changes until `stop` ends it.
///
/// Returns an error only if waiting does not help: the file belongs to another program, is damaged,
/// or was written by a newer quipu.
pub fn watch(
    path: &Path,
    machine: &str,
    roots: &[RootPath],
    timing: &Timing,
    stop: &Stop,
    report_event: &mut Report<'_>,
) -> Result<()> {
    let inbox = Arc::clone(&stop.inbox);
    let mut watch = Watch {
        path,
        machine,
        roots,
        ledger: None,
        file: None,
        was_closed: false,
        is_replaced: false,
        folders: Folders::new(Filter::new(Arc::clone(&inbox))),
        inbox,
        recent: HashSet::new(),
        unreadable: HashMap::new(),
        trouble: None,
        is_late: false,
        reported_watching: false,
        reported_few: false,
        policy: Policy::new(timing.clone()),
        wait: timing.wait,
        began: Instant::now(),
        report_event: Box::new(|event| {
            if report_event(event).is_break() {
                stop.stop();
            }
        }),
    };
    // The caller learns at once if the ledger cannot be opened.
    watch.open()?;
    watch.run()
}

struct Watch<'a> {
    path: &'a Path,
    /// The longest wait for another writer.
    wait: Duration,
    machine: &'a str,
    roots: &'a [RootPath],
    ledger: Option<Ledger>,
    /// The file of the ledger that was opened last. Once that is closed, a new file may get the
    /// same inode.
    file: Option<FileId>,
    /// True if that file was closed because another one has its path.
    was_closed: bool,
    /// True if another file is at the path and no sweep has run since.
    is_replaced: bool,
    folders: Folders,
    inbox: Arc<Inbox>,
    /// Files that changed lately.
    recent: HashSet<PathBuf>,
    /// Files that cannot be read, with the reason.
    unreadable: HashMap<PathBuf, String>,
    /// The kind of the ledger's problem, while it lasts.
    trouble: Option<Trouble>,
    /// True if files may have changed between the last sweep and the watches that it added.
    is_late: bool,
    reported_watching: bool,
    reported_few: bool,
    policy: Policy,
    began: Instant,
    report_event: Box<dyn FnMut(Event<'_>) + 'a>,
}

impl Watch<'_> {
    fn run(&mut self) -> Result<()> {
        let mut seen = HintKinds::default();
        let mut clocks = Clocks::now();
        while !self.inbox.is_stopped() {
            if clocks.was_suspended() {
                self.policy.sweep_now(self.now());
            }
            match self.policy.next(self.now()) {
                Err(wait) => {
                    let hint_kinds = self.inbox.wait(seen, wait);
                    let now = self.now();
                    if hint_kinds.files && !seen.files {
                        self.policy.file_hinted(now);
                    }
                    if hint_kinds.all && !seen.all {
                        self.policy.all_hinted(now);
                    }
                    seen = hint_kinds;
                }
                Ok(task) => {
                    if matches!(task, Task::Look | Task::Sweep) {
                        seen = HintKinds::default();
                    }
                    match self.run_task(task) {
                        Ok(()) => {}
                        Err(Error::Stopped) => break,
                        Err(error) if is_final(&error) => return Err(error),
                        Err(error) => self.failed(&error),
                    }
                }
            }
        }
        self.close_replaced()?;
        if let Some(ledger) = &self.ledger {
            // The next process to open the ledger finds no log to replay, unless a reader prevents
            // it.
            let _ = ledger.try_checkpoint();
        }
        Ok(())
    }

    fn run_task(&mut self, task: Task) -> Result<()> {
        let began = Instant::now();
        let (did, changed_ledger) = match task {
            Task::Sweep => (task, self.sweep()?),
            Task::Look => {
                let (files, all) = self.inbox.take();
                let files = self.readable(files);
                let collected = if all { None } else { self.look(&files)? };
                self.note_recent(files);
                self.or_sweep(task, collected)?
            }
            Task::Recheck => {
                let recent = std::mem::take(&mut self.recent);
                let files = self.readable(recent);
                // Changes that a sweep found without a hint are checked again by a sweep.
                let collected = if files.is_empty() { None } else { self.look(&files)? };
                self.or_sweep(task, collected)?
            }
            Task::Checkpoint => {
                // A reader may prevent it; the next time will do.
                let checkpointed = self.open()?.try_checkpoint();
                tracing::debug!(is_done = checkpointed.is_ok(), "Tried to write the log back.");
                (task, false)
            }
        };
        let (now, took) = (self.now(), began.elapsed());
        self.policy.done(now, task, took, changed_ledger);
        if did != task {
            self.policy.done(now, did, took, changed_ledger);
        }
        if std::mem::take(&mut self.is_late) || self.is_replaced {
            self.policy.sweep_now(now);
        }
        if self.trouble.take().is_some() {
            (self.report_event)(Event::Resumed);
        }
        Ok(())
    }

    /// Collects everything. Returns whether the ledger changed.
    fn sweep(&mut self) -> Result<bool> {
        let (files, _) = self.inbox.take();
        let roots = self.roots;
        self.open()?;
        let Some(ledger) = &mut self.ledger else { return Ok(false) };
        let report_event = &mut self.report_event;
        let Sweep { report, folders, unreadable, .. } =
            sweep(ledger, roots, &mut |progress| report_event(Event::Progress(progress)))?;
        self.is_replaced = false;
        self.note(&report);
        let still: HashSet<&PathBuf> = unreadable.iter().map(|(path, _)| path).collect();
        self.unreadable.retain(|path, _| still.contains(path));
        for (path, why) in unreadable {
            self.note_unreadable(path, why);
        }
        self.note_recent(files);
        let covered = self.folders.cover(folders, roots);
        let now = self.now();
        self.policy.covered(now, covered.cover);
        self.is_late = covered.is_late;
        if covered.cover != Cover::Full && !std::mem::replace(&mut self.reported_few, true) {
            let watched = covered.wanted - covered.missing;
            (self.report_event)(Event::TooFewWatches { watched, folders: covered.wanted });
        }
        if !std::mem::replace(&mut self.reported_watching, true) {
            (self.report_event)(Event::Watching { folders: covered.wanted - covered.missing });
        }
        Ok(changed_ledger(&report))
    }

    /// Collects some files. Returns `None` if that needs a sweep.
    fn look(&mut self, files: &HashSet<PathBuf>) -> Result<Option<bool>> {
        if files.is_empty() {
            return Ok(Some(false));
        }
        let roots = self.roots;
        let paths: Vec<PathBuf> = files.iter().cloned().collect();
        self.open()?;
        if self.is_replaced {
            return Ok(None);
        }
        let Some(ledger) = &mut self.ledger else { return Ok(None) };
        let report_event = &mut self.report_event;
        let collected = collect_named(ledger, roots, &paths, &mut |progress| {
            report_event(Event::Progress(progress))
        })?;
        Ok(collected.map(|Sweep { report, unreadable, .. }| {
            self.note(&report);
            for (path, why) in unreadable {
                self.note_unreadable(path, why);
            }
            changed_ledger(&report)
        }))
    }

    /// Sweeps if looking was not enough. Returns the task that ran, and whether the ledger changed.
    fn or_sweep(&mut self, task: Task, collected: Option<bool>) -> Result<(Task, bool)> {
        match collected {
            Some(changed_ledger) => Ok((task, changed_ledger)),
            None => Ok((Task::Sweep, self.sweep()?)),
        }
    }

    /// Returns the ledger, opened again if another file is at its path.
    fn open(&mut self) -> Result<&mut Ledger> {
        self.close_replaced()?;
        match &mut self.ledger {
            Some(ledger) => Ok(ledger),
            empty => {
                let is_new = self.path.symlink_metadata().is_err();
                let mut ledger = Ledger::open_waiting(self.path, self.wait)?;
                ledger.stop_on(self.inbox.stopped());
                adopt(&mut ledger, self.machine)?;
                let file = Some(ledger.file());
                let before = std::mem::replace(&mut self.file, file);
                let is_other = before.is_some() && before != file;
                if std::mem::take(&mut self.was_closed) || is_other {
                    self.is_replaced = true;
                    (self.report_event)(Event::Replaced { is_new });
                }
                Ok(empty.insert(ledger))
            }
        }
    }

    /// Closes the ledger if another file is at its path. Its log is moved away before anything else
    /// is opened.
    fn close_replaced(&mut self) -> Result<()> {
        if let Some(ledger) = &self.ledger
            && ledger.is_replaced()
        {
            ledger.detach_log()?;
            self.ledger = None;
            self.was_closed = true;
        }
        Ok(())
    }

    fn failed(&mut self, error: &Error) {
        tracing::debug!(error = error as &dyn std::error::Error, "Paused.");
        // The connection may be the cause, so the next attempt opens a new one.
        if self.close_replaced().is_ok() {
            self.ledger = None;
        }
        let retry = self.policy.failed(self.now());
        if self.trouble.replace(error.trouble()) != Some(error.trouble()) {
            (self.report_event)(Event::Paused { error, retry });
        }
    }

    fn note(&mut self, report: &SyncReport) {
        let news = report.records_added
            + report.sources_added
            + report.rewritten_sources
            + report.renamed_sources
            + report.gone_sources;
        if news > 0 {
            (self.report_event)(Event::Collected(report));
        }
    }

    fn note_unreadable(&mut self, path: PathBuf, why: String) {
        if self.unreadable.get(&path) != Some(&why) {
            (self.report_event)(Event::Unreadable { path: &path, why: &why });
            self.unreadable.insert(path, why);
        }
    }

    fn note_recent(&mut self, files: HashSet<PathBuf>) {
        let room = MAX_RECENT_FILES.saturating_sub(self.recent.len());
        self.recent.extend(files.into_iter().take(room));
    }

    /// Leaves out files that could not be read and still cannot.
    fn readable(&self, mut files: HashSet<PathBuf>) -> HashSet<PathBuf> {
        files.retain(|path| {
            !self.unreadable.contains_key(path)
                || rustix::fs::access(path, rustix::fs::Access::READ_OK).is_ok()
        });
        files
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Returns whether a sync changed the ledger.
fn changed_ledger(report: &SyncReport) -> bool {
    report.sources_changed + report.renamed_sources + report.gone_sources > 0
}

/// Returns whether waiting does not help.
fn is_final(error: &Error) -> bool {
    match error {
        Error::Upgraded | Error::Newer { .. } | Error::NotALedger { .. } => true,
        // Other damage may only mean that a reader thread could not open the ledger on a full disk.
        Error::Sqlite(_) => error.trouble() == Trouble::Damaged,
        _ => false,
    }
}

/// The wall clock, and the monotonic clock, which stops while the machine is suspended.
struct Clocks {
    wall: SystemTime,
    own: Instant,
}

impl Clocks {
    fn now() -> Clocks {
        Clocks { wall: SystemTime::now(), own: Instant::now() }
    }

    /// Returns whether the machine was suspended since the last call.
    fn was_suspended(&mut self) -> bool {
        let now = Clocks::now();
        let wall = now.wall.duration_since(self.wall).unwrap_or_default();
        let own = now.own.duration_since(self.own);
        *self = now;
        is_suspension(wall, own)
    }
}

/// Returns whether the machine was suspended while the clocks advanced by these durations.
fn is_suspension(wall: Duration, own: Duration) -> bool {
    wall.saturating_sub(own) > MAX_CLOCK_LEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_far_ahead_means_a_suspension() {
        let seconds = Duration::from_secs;
        assert!(is_suspension(seconds(8 * 3600), seconds(300)));
        assert!(!is_suspension(seconds(300), seconds(300)));
        assert!(!is_suspension(seconds(301), seconds(300)), "a corrected clock");
        assert!(!is_suspension(seconds(0), seconds(300)), "a clock that was set back");
    }
}
