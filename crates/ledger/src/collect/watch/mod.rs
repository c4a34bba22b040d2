//! Collecting as files change, until somebody ends it.
//!
//! Events of the file system are hints: they say where to look, never what is there. Whatever they
//! miss (a full queue, too few watches, a network drive, a suspended machine) the sweep finds, which
//! is an ordinary sync. Errors of the ledger pause the watch; nothing is lost meanwhile, because
//! what is collected next is always what is on disk and not in the ledger.
//!
//! Read in this order: `policy` (when to do what), `hint` (what an event means), `folders` and
//! `events` (where events come from), `inbox` (between the threads).

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

use crate::collect::{Progress, RootPath, Sweep, look_at, sweep};
use crate::file::ledger::Ledger;
use crate::file::open_files::FileId;
use crate::file::owner::adopt;
use crate::wire::SyncReport;
use crate::{Error, Result, Trouble};
use folders::Folders;
use hint::Filter;
use inbox::{Inbox, Noticed};
use policy::{Cover, Policy, Task};

pub use inbox::Stop;
pub use policy::Timing;

/// If the wall clock gains so much on the clock of this process, the machine slept.
const SLEPT: Duration = Duration::from_secs(20);

/// At most so many files are looked at once more.
const MOST_RECENT: usize = 64;

/// What a watch tells while it runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// A long collection is under way.
    Progress(Progress),
    /// Everything that was there is collected, and this many folders are watched.
    Watching {
        /// Folders.
        folders: usize,
    },
    /// Something new is in the ledger.
    Collected(&'a SyncReport),
    /// Something should be read and cannot. Told once, until it can be read.
    Unreadable {
        /// A file or folder.
        path: &'a Path,
        /// Why not.
        why: &'a str,
    },
    /// The system has too few watches: changes elsewhere are found by looking more often.
    TooFewWatches {
        /// Folders that are watched.
        watched: usize,
        /// Of these.
        folders: usize,
    },
    /// The ledger is another file than before: everything is collected again that is not in it.
    Replaced {
        /// There was none, and a new one was begun.
        is_new: bool,
    },
    /// The ledger cannot be written to now.
    Paused {
        /// Why.
        error: &'a Error,
        /// When it is tried again.
        retry: Duration,
    },
    /// It can be written to again, and everything was caught up with.
    Resumed,
}

/// Whom a watch tells. Whoever does not want to hear more ends it.
pub type Tell<'a> = dyn FnMut(Event<'_>) -> ControlFlow<()> + 'a;

/// Collects everything under `roots` into the ledger at `path`, which becomes that of `machine`, and goes on collecting what changes
/// until `stop` says so.
///
/// Ends with an error only if waiting does not help: the ledger is another program's, damaged, or
/// a newer quipu's.
pub fn watch(
    path: &Path,
    machine: &str,
    roots: &[RootPath],
    timing: &Timing,
    stop: &Stop,
    tell: &mut Tell<'_>,
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
        told_watching: false,
        told_few: false,
        policy: Policy::new(timing.clone()),
        began: Instant::now(),
        tell: Box::new(|event| {
            if tell(event).is_break() {
                stop.stop();
            }
        }),
    };
    // Whoever starts it wants to know at once if there is no ledger to be had.
    watch.open()?;
    watch.run()
}

struct Watch<'a> {
    path: &'a Path,
    machine: &'a str,
    roots: &'a [RootPath],
    ledger: Option<Ledger>,
    /// Which file the ledger was when it was opened last. Once that is closed, a new file may get
    /// its number.
    file: Option<FileId>,
    /// That one was closed because its name leads elsewhere.
    was_closed: bool,
    /// It is another one now, and has yet to be caught up with.
    is_replaced: bool,
    folders: Folders,
    inbox: Arc<Inbox>,
    /// Files that changed lately.
    recent: HashSet<PathBuf>,
    /// What cannot be read, and why.
    unreadable: HashMap<PathBuf, String>,
    /// What the ledger's trouble is, while it lasts.
    trouble: Option<Trouble>,
    /// What was written between the last sweep and the watches that it began gave no event.
    is_late: bool,
    told_watching: bool,
    told_few: bool,
    policy: Policy,
    began: Instant,
    tell: Box<dyn FnMut(Event<'_>) + 'a>,
}

impl Watch<'_> {
    fn run(&mut self) -> Result<()> {
        let mut seen = Noticed::default();
        let mut clocks = Clocks::now();
        while !self.inbox.is_stopped() {
            if clocks.have_slept() {
                self.policy.sweep_now(self.now());
            }
            match self.policy.next(self.now()) {
                Err(wait) => {
                    let noticed = self.inbox.wait(seen, wait);
                    let now = self.now();
                    if noticed.files && !seen.files {
                        self.policy.file_hinted(now);
                    }
                    if noticed.all && !seen.all {
                        self.policy.all_hinted(now);
                    }
                    seen = noticed;
                }
                Ok(task) => {
                    if matches!(task, Task::Look | Task::Sweep) {
                        seen = Noticed::default();
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
            // Whoever opens the ledger next finds all of it in one file, if nobody reads just now.
            let _ = ledger.try_checkpoint();
        }
        Ok(())
    }

    fn run_task(&mut self, task: Task) -> Result<()> {
        let began = Instant::now();
        let (did, wrote) = match task {
            Task::Sweep => (task, self.sweep()?),
            Task::Look => {
                let (files, all) = self.inbox.take();
                let files = self.readable(files);
                let looked = if all { None } else { self.look(&files)? };
                self.note_recent(files);
                self.or_sweep(task, looked)?
            }
            Task::Settle => {
                let recent = std::mem::take(&mut self.recent);
                let files = self.readable(recent);
                // What a sweep found by itself is found again by one.
                let looked = if files.is_empty() { None } else { self.look(&files)? };
                self.or_sweep(task, looked)?
            }
            Task::Tidy => {
                // Somebody reads just now: the next time will do.
                let tidied = self.open()?.try_checkpoint();
                tracing::debug!(is_done = tidied.is_ok(), "Wrote the log back.");
                (task, false)
            }
        };
        let (now, took) = (self.now(), began.elapsed());
        self.policy.done(now, task, took, wrote);
        if did != task {
            self.policy.done(now, did, took, wrote);
        }
        if std::mem::take(&mut self.is_late) || self.is_replaced {
            self.policy.sweep_now(now);
        }
        if self.trouble.take().is_some() {
            (self.tell)(Event::Resumed);
        }
        Ok(())
    }

    /// Looks at everything. True if the ledger was changed.
    fn sweep(&mut self) -> Result<bool> {
        let (files, _) = self.inbox.take();
        let roots = self.roots;
        self.open()?;
        let Some(ledger) = &mut self.ledger else { return Ok(false) };
        let tell = &mut self.tell;
        let Sweep { report, folders, unreadable, .. } =
            sweep(ledger, roots, &mut |progress| tell(Event::Progress(progress)))?;
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
        if covered.cover != Cover::Full && !std::mem::replace(&mut self.told_few, true) {
            let watched = covered.wanted - covered.missing;
            (self.tell)(Event::TooFewWatches { watched, folders: covered.wanted });
        }
        if !std::mem::replace(&mut self.told_watching, true) {
            (self.tell)(Event::Watching { folders: covered.wanted - covered.missing });
        }
        Ok(wrote(&report))
    }

    /// Looks at some files. `None` if it takes a look at everything.
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
        let tell = &mut self.tell;
        let looked =
            look_at(ledger, roots, &paths, &mut |progress| tell(Event::Progress(progress)))?;
        Ok(looked.map(|Sweep { report, unreadable, .. }| {
            self.note(&report);
            for (path, why) in unreadable {
                self.note_unreadable(path, why);
            }
            wrote(&report)
        }))
    }

    /// What was done in the end, and whether the ledger was changed.
    fn or_sweep(&mut self, task: Task, looked: Option<bool>) -> Result<(Task, bool)> {
        match looked {
            Some(wrote) => Ok((task, wrote)),
            None => Ok((Task::Sweep, self.sweep()?)),
        }
    }

    /// The ledger, opened again if another file has its name now.
    fn open(&mut self) -> Result<&mut Ledger> {
        self.close_replaced()?;
        match &mut self.ledger {
            Some(ledger) => Ok(ledger),
            empty => {
                let is_new = self.path.symlink_metadata().is_err();
                let mut ledger = Ledger::open(self.path)?;
                ledger.stop_on(self.inbox.stopped());
                adopt(&mut ledger, self.machine)?;
                let file = Some(ledger.file());
                let before = std::mem::replace(&mut self.file, file);
                let is_other = before.is_some() && before != file;
                if std::mem::take(&mut self.was_closed) || is_other {
                    self.is_replaced = true;
                    (self.tell)(Event::Replaced { is_new });
                }
                Ok(empty.insert(ledger))
            }
        }
    }

    /// Closes a ledger whose name another file has now. Nothing else is opened before its log is
    /// out of the way.
    fn close_replaced(&mut self) -> Result<()> {
        if let Some(ledger) = &self.ledger
            && ledger.is_replaced()
        {
            ledger.leave()?;
            self.ledger = None;
            self.was_closed = true;
        }
        Ok(())
    }

    fn failed(&mut self, error: &Error) {
        tracing::debug!(error = error as &dyn std::error::Error, "Paused.");
        // A connection that failed may be the reason; the next attempt gets a new one.
        if self.close_replaced().is_ok() {
            self.ledger = None;
        }
        let retry = self.policy.failed(self.now());
        if self.trouble.replace(error.trouble()) != Some(error.trouble()) {
            (self.tell)(Event::Paused { error, retry });
        }
    }

    fn note(&mut self, report: &SyncReport) {
        let news = report.records_added
            + report.sources_added
            + report.rewritten
            + report.renamed
            + report.gone;
        if news > 0 {
            (self.tell)(Event::Collected(report));
        }
    }

    fn note_unreadable(&mut self, path: PathBuf, why: String) {
        if self.unreadable.get(&path) != Some(&why) {
            (self.tell)(Event::Unreadable { path: &path, why: &why });
            self.unreadable.insert(path, why);
        }
    }

    fn note_recent(&mut self, files: HashSet<PathBuf>) {
        let room = MOST_RECENT.saturating_sub(self.recent.len());
        self.recent.extend(files.into_iter().take(room));
    }

    /// Leaves out files that could not be read and still cannot, however often they change.
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

/// Whether a sync changed the ledger.
fn wrote(report: &SyncReport) -> bool {
    report.sources_changed + report.renamed + report.gone > 0
}

/// Whether waiting does not help.
fn is_final(error: &Error) -> bool {
    match error {
        Error::Upgraded | Error::Newer { .. } | Error::NotALedger { .. } => true,
        // Other damage may be a reader's that could not open the ledger for want of room.
        Error::Sqlite(_) => error.trouble() == Trouble::Damaged,
        _ => false,
    }
}

/// The clock on the wall and the one that stands still while the machine sleeps.
struct Clocks {
    wall: SystemTime,
    own: Instant,
}

impl Clocks {
    fn now() -> Clocks {
        Clocks { wall: SystemTime::now(), own: Instant::now() }
    }

    /// True if the machine slept since the last time.
    fn have_slept(&mut self) -> bool {
        let now = Clocks::now();
        let wall = now.wall.duration_since(self.wall).unwrap_or_default();
        let own = now.own.duration_since(self.own);
        *self = now;
        has_slept(wall, own)
    }
}

/// Whether the machine slept while the clocks went so far.
fn has_slept(wall: Duration, own: Duration) -> bool {
    wall.saturating_sub(own) > SLEPT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_runs_ahead_has_seen_more_time() {
        let seconds = Duration::from_secs;
        assert!(has_slept(seconds(8 * 3600), seconds(300)));
        assert!(!has_slept(seconds(300), seconds(300)));
        assert!(!has_slept(seconds(301), seconds(300)), "a corrected clock");
        assert!(!has_slept(seconds(0), seconds(300)), "a clock that was set back");
    }
}
