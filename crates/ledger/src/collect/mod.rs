//! Collects files: stores all bytes that are on disk and not yet in the ledger, exactly once.
//!
//! ```text
//! discover  finds files                       (no file is opened)
//! plan      unchanged, grown, renamed, gone   (compared with the ledger)
//! read      new bytes → records → drafts      (worker threads; no writing)
//! write     truth, cursor and projection      (one thread, one transaction per batch)
//! ```
//!
//! Units of work are written in the order in which they were planned, so the same files give the
//! same ledger with any number of threads.

mod backpressure;
mod batch;
mod changed;
mod changes;
mod checkpointer;
mod copies;
mod damage;
mod decompress;
mod discover;
mod document;
mod forgotten;
mod index;
pub(crate) mod known;
mod lines;
mod look;
mod phases;
mod piece;
mod plan;
mod position;
mod read;
pub(crate) mod repeats;
mod retention;
mod rewrite;
pub(crate) mod rows;
mod run;
mod select;
mod tail;
mod view;
pub mod watch;
mod write;

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

pub use crate::file::owner::adopt;
pub(crate) use changed::claimed;
pub(crate) use decompress::{Decompressed, to_plain_file};
pub use discover::RootPath;
pub(crate) use discover::{
    Discovery, Folder, FoundFile, MAX_LISTED_LINKS, MAX_LISTED_PATHS, Reason, RootState, discover,
    summarise,
};
pub(crate) use forgotten::Gate;
pub(crate) use look::same_content;
pub use retention::Retention;
pub(crate) use rows::{Dump, Dumped, dump};
pub use select::Selection;
pub(crate) use view::View;

use crate::base::paths::absolute;
use crate::file::ledger::Ledger;
use crate::project::rebuild;
use crate::truth::chunks;
use crate::wire::SyncReport;
use crate::{Error, Result};
pub(crate) use batch::Ends;
use discover::Skipped;
use plan::{Job, Plan};
use run::Run;
use write::Writer;

/// The number of attempts for files that another process collects at the same time.
const MAX_ATTEMPTS: usize = 4;

/// A progress report of a sync.
#[derive(Debug, Clone, Copy)]
pub enum Progress {
    /// The planned work.
    Planned {
        /// The number of files to read.
        files: u64,
        /// The number of bytes in them.
        bytes: u64,
    },
    /// More of the planned bytes are read, and what is new in them is in the ledger.
    Done {
        /// The number of bytes read.
        bytes: u64,
    },
    /// The projection is being rebuilt.
    Rebuilding {
        /// The number of records projected so far.
        done: u64,
        /// The number of all records.
        total: u64,
    },
}

/// Collects everything new under `roots`.
///
/// ```
/// use quipu_ledger::Ledger;
/// use quipu_ledger::collect::{Retention, RootPath, Selection, collect};
/// use quipu_transcript::format::FORMATS;
///
/// # let folder = tempfile::tempdir()?;
/// # let home = folder.path().join("projects");
/// # std::fs::create_dir_all(home.join("-home-a"))?;
/// # let line = r#"{"type":"user","uuid":"u1","message":{"role":"user","content":"hello"}}"#;
/// # std::fs::write(home.join("-home-a/640ab4c7-d010-4b20-a591-b7172ef08e66.jsonl"), format!("{line}\n"))?;
/// let mut ledger = Ledger::open(&folder.path().join("ledger.db"))?;
/// let root = RootPath {
///     format: FORMATS[0],
///     path: home,
///     selection: Selection::default(),
///     retention: Retention::default(),
/// };
/// let report = collect(&mut ledger, &[root], &mut |_| {})?;
/// assert_eq!(report.records_added, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn collect(
    ledger: &mut Ledger,
    roots: &[RootPath],
    progress: &mut dyn FnMut(Progress),
) -> Result<SyncReport> {
    Ok(sweep(ledger, roots, progress)?.report)
}

/// Collects the new bytes of the files with these names, if they are new or grew. The cost does not
/// depend on the number of other files.
///
/// Returns `None`, and does nothing, if more may have happened (a renamed, replaced or deleted
/// file, a link): then [`collect`] is needed. Names that no format claims are ignored.
pub fn collect_changed(
    ledger: &mut Ledger,
    roots: &[RootPath],
    changed: &[PathBuf],
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<SyncReport>> {
    Ok(collect_named(ledger, roots, changed, progress)?.map(|sweep| sweep.report))
}

/// Collects the files with these names, and returns the unreadable ones as well.
pub(crate) fn collect_named(
    ledger: &mut Ledger,
    roots: &[RootPath],
    changed: &[PathBuf],
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Sweep>> {
    let roots = &resolve(roots);
    if !rebuild::catch_up_appended(ledger)? {
        return Ok(None);
    }
    let mut sweep = Sweep::default();
    for _ in 0..MAX_ATTEMPTS {
        let Some((mut discovery, known)) = changed::find(ledger.conn(), roots, changed)? else {
            return Ok(None);
        };
        let gate = Gate::load(ledger.conn())?;
        let plan = make_plan(roots, &gate, &mut discovery, known);
        if carry_out(ledger, roots, plan, discovery, &gate, &mut sweep, progress)? == 0 {
            break;
        }
    }
    finish(ledger, &sweep.report, progress)?;
    Ok(Some(sweep))
}

/// The result of a sync.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    pub(crate) report: SyncReport,
    /// Every folder that may hold a file to collect.
    pub(crate) folders: Vec<Folder>,
    /// Files and folders that cannot be read, with the reason.
    pub(crate) unreadable: Vec<(PathBuf, String)>,
    /// New bytes that there was no time for.
    pub(crate) pending: Pending,
}

/// New bytes that are left for the next sync, because a reader waits.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pending {
    /// The number of bytes in files.
    pub(crate) bytes: u64,
    /// The number of files.
    pub(crate) files: u64,
    /// The number of databases. Only reading one shows how much is new.
    pub(crate) databases: u64,
}

impl Pending {
    pub(crate) fn is_none(self) -> bool {
        self == Pending::default()
    }

    fn add(&mut self, jobs: &[Job]) {
        self.files += jobs.len() as u64;
        self.bytes += jobs.iter().map(Job::unread).sum::<u64>();
    }
}

/// Returns the amount of new bytes, without collecting them. Databases are not opened.
pub(crate) fn count_pending(ledger: &Ledger, roots: &[RootPath]) -> Result<Pending> {
    let roots = &resolve(roots);
    let gate = Gate::load(ledger.conn())?;
    let known = known::all(ledger.conn())?;
    let mut discovery = {
        let by_path = known::by_path(&known);
        discover(roots, &|root, path| {
            by_path.contains_key(&(root.format.name(), root.path.as_os_str().as_bytes(), path))
        })
    };
    repeats::leave_out(roots, &mut discovery, &known);
    let _ = rows::take(&mut discovery);
    let plan = make_plan(roots, &gate, &mut discovery, known);
    let mut pending = Pending::default();
    pending.add(&plan.jobs);
    Ok(pending)
}

/// Returns whether the deadline has passed.
pub(crate) fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// Collects everything new under `roots`, and returns the folders it walked.
pub(crate) fn sweep(
    ledger: &mut Ledger,
    roots: &[RootPath],
    progress: &mut dyn FnMut(Progress),
) -> Result<Sweep> {
    let roots = &resolve(roots);
    let mut sweep = Sweep::default();
    if ledger.deadline().is_none() {
        forgotten::resume_cleaning(ledger);
    }
    rebuild::catch_up(ledger, &mut |done, total| progress(Progress::Rebuilding { done, total }))?;
    for attempt in 1..=MAX_ATTEMPTS {
        let gate = Gate::load(ledger.conn())?;
        sweep.pending = Pending::default();
        let was_staging = ledger.is_staging();
        match collect_once(ledger, roots, &gate, &mut sweep, progress) {
            Ok(0) => break,
            Ok(_) if is_over(ledger.deadline()) => break,
            Ok(_) => {}
            // Another process created a ledger first, so ours was dropped.
            Err(Error::Replaced { .. }) if was_staging => match ledger.publish() {
                Ok(()) | Err(Error::Replaced { .. }) => sweep = Sweep::default(),
                Err(error) => return Err(error),
            },
            // A session that a reader thread compared with may have been forgotten since.
            Err(_)
                if attempt < MAX_ATTEMPTS
                    && gate.changed(ledger.conn()).is_ok_and(|now| now.is_some()) => {}
            Err(error) => return Err(error),
        }
    }
    if sweep.pending.is_none() {
        finish(ledger, &sweep.report, progress)?;
    }
    Ok(sweep)
}

/// Seals, trims and projects, after everything is read.
fn finish(
    ledger: &mut Ledger,
    report: &SyncReport,
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    chunks::seal_if_wanted(ledger)?;
    if report.sources_changed > 0 {
        ledger.trim()?;
    }
    rebuild::catch_up(ledger, &mut |done, total| progress(Progress::Rebuilding { done, total }))?;
    Ok(())
}

/// Returns the roots with their real paths, so that a root behind a link is the root itself.
pub(crate) fn resolve(roots: &[RootPath]) -> Vec<RootPath> {
    roots
        .iter()
        .map(|root| RootPath {
            format: root.format,
            path: std::fs::canonicalize(&root.path).unwrap_or_else(|_| root.path.clone()),
            selection: root.selection,
            retention: root.retention,
        })
        .collect()
}

/// Runs one sync. Returns the number of files that have to be planned again.
fn collect_once(
    ledger: &mut Ledger,
    roots: &[RootPath],
    gate: &Gate,
    sweep: &mut Sweep,
    progress: &mut dyn FnMut(Progress),
) -> Result<usize> {
    let known = known::all(ledger.conn())?;
    let mut discovery = {
        let by_path = known::by_path(&known);
        discover(roots, &|root, path| {
            by_path.contains_key(&(root.format.name(), root.path.as_os_str().as_bytes(), path))
        })
    };
    repeats::leave_out(roots, &mut discovery, &known);
    let databases = rows::take(&mut discovery);
    let mut plan = make_plan(roots, gate, &mut discovery, known);
    plan.databases = Some(databases);
    carry_out(ledger, roots, plan, discovery, gate, sweep, progress)
}

/// Plans the discovered files, without those of forgotten sessions.
fn make_plan(
    roots: &[RootPath],
    gate: &Gate,
    discovery: &mut Discovery,
    known: Vec<known::KnownSource>,
) -> Plan {
    gate.leave_out(roots, discovery);
    let mut plan = plan::plan(roots, discovery, known);
    gate.leave_out_known(&mut plan, discovery);
    plan
}

/// Carries out a plan. Returns the number of files that have to be planned again.
fn carry_out(
    ledger: &mut Ledger,
    roots: &[RootPath],
    mut plan: Plan,
    discovery: Discovery,
    gate: &Gate,
    sweep: &mut Sweep,
    progress: &mut dyn FnMut(Progress),
) -> Result<usize> {
    let mut skipped = discovery.skipped;
    let report = &mut sweep.report;
    report.sources = plan.jobs.len() as u64 + plan.unchanged;
    report.gone_sources += plan.gone.len() as u64;
    report.renamed_sources += plan.renamed.len() as u64;
    progress(Progress::Planned {
        files: plan.jobs.len() as u64,
        bytes: plan.jobs.iter().map(Job::unread).sum(),
    });
    let has_changes = !(plan.renamed.is_empty()
        && plan.gone.is_empty()
        && plan.back.is_empty()
        && plan.standing.is_empty());
    if has_changes {
        let mut writer = Writer::new(roots, &[], gate, report);
        ledger.write(|tx| {
            writer.begin(tx)?;
            writer.changes(tx, &plan)?;
            writer.end(tx)
        })?;
        writer.add_to(report);
    }

    let mut dropped = 0;
    let mut refused = std::mem::take(&mut plan.refused);
    let databases = plan.databases.take();
    let copies = Mutex::default();
    for (phase, jobs) in phases::phases(roots, plan).into_iter().enumerate() {
        if phase > 0 {
            // Files of later phases are compared with the ledger, which readers open by its path.
            ledger.publish()?;
        }
        if is_over(ledger.deadline()) {
            sweep.pending.add(&jobs);
        } else if !jobs.is_empty() {
            let pending = &mut sweep.pending;
            let mut run = Run { ledger, roots, jobs: &jobs, gate, pending, copies: &copies };
            dropped += run.run(report, &mut skipped, progress)?;
        }
    }
    ledger.publish()?;
    // Databases come after files, because they may repeat lines of files.
    if let Some(databases) = databases {
        let (skipped, pending) = (&mut skipped, &mut sweep.pending);
        let mut sync = rows::Sync { ledger, roots, gate, report, skipped, pending, progress };
        dropped += sync.databases(&databases)?;
    }
    let no_transcript = skipped.iter().filter(|skip| skip.reason == Reason::NotATranscript);
    report.sources = report.sources.saturating_sub(no_transcript.count() as u64);
    // These were not counted as sources.
    skipped.append(&mut refused);
    report.skipped = summarise(roots, &skipped, MAX_LISTED_PATHS);
    sweep.folders = discovery.folders;
    sweep.unreadable = skipped.iter().filter_map(|skip| unreadable(roots, skip)).collect();
    Ok(dropped)
}

/// Returns the path of an unreadable file, and the reason.
fn unreadable(roots: &[RootPath], skip: &Skipped) -> Option<(PathBuf, String)> {
    let Reason::Unreadable(why) = &skip.reason else { return None };
    Some((absolute(&roots.get(skip.root)?.path, &skip.path), why.clone()))
}
