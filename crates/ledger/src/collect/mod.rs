//! Collecting: what is on disk and not yet in the ledger goes into it, exactly once.
//!
//! ```text
//! discover  what is there                     (no file is opened)
//! plan      unchanged, grown, renamed, gone   (against what the ledger knows)
//! read      new bytes → records → drafts      (worker threads; no writing)
//! write     truth, cursor and projection      (one thread, one transaction per batch)
//! ```
//!
//! Units of work are written in the order in which they were planned, so the same files give the
//! same ledger however many threads read them.

mod backpressure;
mod batch;
mod changed;
mod changes;
mod checkpointer;
mod copies;
mod damage;
pub(crate) mod damaged_indexes;
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

pub(crate) use changed::claimed;
pub(crate) use decompress::{Unfolded, unfold};
pub use discover::RootPath;
pub(crate) use discover::{
    Discovery, Folder, Found, MOST_LINKS, MOST_NAMED, Reason, RootState, discover, summarise,
};
pub(crate) use forgotten::leave_out;
pub(crate) use index::without_forgotten;
pub(crate) use look::same_content;
pub use retention::Retention;
pub(crate) use rows::{Dump, Dumped, dump};
pub use select::Selection;
pub(crate) use view::View;

use crate::base::paths::absolute;
use crate::file::ledger::Ledger;
use crate::project::rebuild;
use crate::truth::chunks;
use crate::truth::forgotten::Forgotten;
use crate::wire::SyncReport;
use crate::{Error, Result};
pub(crate) use batch::Ends;
use discover::Skipped;
use plan::{Job, Plan};
use run::Run;
use write::Writer;

/// How often files are looked at again that another process moved meanwhile.
const TRIES: usize = 4;

/// What a sync tells while it runs.
#[derive(Debug, Clone, Copy)]
pub enum Progress {
    /// So much is to be read.
    Planned {
        /// Files.
        files: u64,
        /// Bytes in them.
        bytes: u64,
    },
    /// So many more bytes are in the ledger.
    Stored {
        /// Bytes.
        bytes: u64,
    },
    /// The projection is derived again: so many of so many records are done.
    Rebuilding {
        /// Done.
        done: u64,
        /// Of these.
        total: u64,
    },
}

/// Collects everything new under `roots`.
pub fn collect(
    ledger: &mut Ledger,
    roots: &[RootPath],
    progress: &mut dyn FnMut(Progress),
) -> Result<SyncReport> {
    Ok(sweep(ledger, roots, progress)?.report)
}

/// Collects what is new in the files of these names, if they only changed or are new: a look at a
/// few files, however many others there are.
///
/// `None` if more may have happened than that (a renamed, replaced or deleted file, a link): then
/// only [`collect`] can tell, and nothing was done. Names that no format claims are passed over.
pub fn collect_changed(
    ledger: &mut Ledger,
    roots: &[RootPath],
    changed: &[PathBuf],
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<SyncReport>> {
    Ok(look_at(ledger, roots, changed, progress)?.map(|sweep| sweep.report))
}

/// The same, and says what cannot be read.
pub(crate) fn look_at(
    ledger: &mut Ledger,
    roots: &[RootPath],
    changed: &[PathBuf],
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Sweep>> {
    let roots = &resolve(roots);
    if !rebuild::keep_up(ledger)? {
        return Ok(None);
    }
    let mut sweep = Sweep::default();
    for _ in 0..TRIES {
        let Some((mut discovery, known)) = changed::find(ledger.conn(), roots, changed)? else {
            return Ok(None);
        };
        let forgotten = Forgotten::load(ledger.conn())?;
        let plan = make_plan(roots, &forgotten, &mut discovery, known);
        if carry_out(ledger, roots, plan, discovery, &forgotten, &mut sweep, progress)? == 0 {
            break;
        }
    }
    finish(ledger, &sweep.report, progress)?;
    Ok(Some(sweep))
}

/// What one look at everything found.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    pub(crate) report: SyncReport,
    /// Every folder that may hold a file to collect.
    pub(crate) folders: Vec<Folder>,
    /// Files and folders that should be read and cannot, and why.
    pub(crate) unreadable: Vec<(PathBuf, String)>,
    /// What there was no time for.
    pub(crate) pending: Pending,
}

/// What is new and was left for later, because somebody waits for an answer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pending {
    /// In files.
    pub(crate) bytes: u64,
    /// Files.
    pub(crate) files: u64,
    /// Databases: how much is new in them is known only when it is read.
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

/// How much is new, without collecting any of it. Databases are not looked into.
pub(crate) fn foresee(ledger: &Ledger, roots: &[RootPath]) -> Result<Pending> {
    let roots = &resolve(roots);
    let forgotten = Forgotten::load(ledger.conn())?;
    let known = known::all(ledger.conn())?;
    let mut discovery = {
        let by_path = known::by_path(&known);
        discover(roots, &|root, path| {
            by_path.contains_key(&(root.format.name(), root.path.as_os_str().as_bytes(), path))
        })
    };
    let _ = rows::take(&mut discovery);
    let plan = make_plan(roots, &forgotten, &mut discovery, known);
    let mut pending = Pending::default();
    pending.add(&plan.jobs);
    Ok(pending)
}

/// True once there is no time for anything more.
pub(crate) fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// Collects everything new under `roots`, and says where it looked.
pub(crate) fn sweep(
    ledger: &mut Ledger,
    roots: &[RootPath],
    progress: &mut dyn FnMut(Progress),
) -> Result<Sweep> {
    let roots = &resolve(roots);
    let mut sweep = Sweep::default();
    if ledger.deadline().is_none() {
        crate::truth::forgotten::clean::go_on(ledger);
    }
    rebuild::bring_up(ledger, &mut |done, total| progress(Progress::Rebuilding { done, total }))?;
    for attempt in 1..=TRIES {
        let forgotten = Forgotten::load(ledger.conn())?;
        sweep.pending = Pending::default();
        let was_unnamed = ledger.is_unnamed();
        match collect_once(ledger, roots, &forgotten, &mut sweep, progress) {
            Ok(0) => break,
            Ok(_) if is_over(ledger.deadline()) => break,
            Ok(_) => {}
            // Another process has built a ledger meanwhile; ours is no more.
            Err(Error::Replaced { .. }) if was_unnamed => match ledger.take_name() {
                Ok(()) | Err(Error::Replaced { .. }) => sweep = Sweep::default(),
                Err(error) => return Err(error),
            },
            // What a reader wanted to compare with may have been forgotten meanwhile.
            Err(_)
                if attempt < TRIES
                    && Forgotten::load(ledger.conn()).is_ok_and(|now| now != forgotten) => {}
            Err(error) => return Err(error),
        }
    }
    if sweep.pending.is_none() {
        finish(ledger, &sweep.report, progress)?;
    }
    Ok(sweep)
}

/// What follows when everything is read.
fn finish(
    ledger: &mut Ledger,
    report: &SyncReport,
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    chunks::seal_if_wanted(ledger)?;
    if report.sources_changed > 0 {
        ledger.trim()?;
    }
    rebuild::bring_up(ledger, &mut |done, total| progress(Progress::Rebuilding { done, total }))?;
    Ok(())
}

/// Roots by their real path, so that a root reached through a link is the root itself.
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

/// One look at everything. Returns how many files have to be looked at again.
fn collect_once(
    ledger: &mut Ledger,
    roots: &[RootPath],
    forgotten: &Forgotten,
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
    let databases = rows::take(&mut discovery);
    let mut plan = make_plan(roots, forgotten, &mut discovery, known);
    plan.databases = Some(databases);
    carry_out(ledger, roots, plan, discovery, forgotten, sweep, progress)
}

/// What to do about what was found, without what belongs to forgotten sessions.
fn make_plan(
    roots: &[RootPath],
    forgotten: &Forgotten,
    discovery: &mut Discovery,
    known: Vec<known::Known>,
) -> Plan {
    leave_out(forgotten, roots, discovery);
    let mut plan = plan::plan(roots, discovery, known);
    forgotten::leave_out_known(forgotten, &mut plan, discovery);
    plan
}

/// Does what is planned. Returns how many files have to be looked at again.
fn carry_out(
    ledger: &mut Ledger,
    roots: &[RootPath],
    mut plan: Plan,
    discovery: Discovery,
    forgotten: &Forgotten,
    sweep: &mut Sweep,
    progress: &mut dyn FnMut(Progress),
) -> Result<usize> {
    let mut skipped = discovery.skipped;
    let report = &mut sweep.report;
    report.sources = plan.jobs.len() as u64 + plan.unchanged;
    report.gone += plan.gone.len() as u64;
    report.renamed += plan.renamed.len() as u64;
    progress(Progress::Planned {
        files: plan.jobs.len() as u64,
        bytes: plan.jobs.iter().map(Job::unread).sum(),
    });
    let has_changes = !(plan.renamed.is_empty()
        && plan.gone.is_empty()
        && plan.back.is_empty()
        && plan.standing.is_empty());
    if has_changes {
        let mut writer = Writer::new(roots, &[], forgotten, report);
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
            // Files are compared with what is in the ledger by now; readers open it by its name.
            ledger.take_name()?;
        }
        if is_over(ledger.deadline()) {
            sweep.pending.add(&jobs);
        } else if !jobs.is_empty() {
            let pending = &mut sweep.pending;
            let mut run = Run { ledger, roots, jobs: &jobs, forgotten, pending, copies: &copies };
            dropped += run.run(report, &mut skipped, progress)?;
        }
    }
    ledger.take_name()?;
    // What is in a database may repeat what is in files, so files come first.
    if let Some(databases) = databases {
        let (skipped, pending) = (&mut skipped, &mut sweep.pending);
        let mut sync = rows::Sync { ledger, roots, forgotten, report, skipped, pending, progress };
        dropped += sync.databases(&databases)?;
    }
    let no_transcript = skipped.iter().filter(|skip| skip.reason == Reason::NotATranscript);
    report.sources = report.sources.saturating_sub(no_transcript.count() as u64);
    // These were not among the sources in the first place.
    skipped.append(&mut refused);
    report.skipped = summarise(roots, &skipped, MOST_NAMED);
    sweep.folders = discovery.folders;
    sweep.unreadable = skipped.iter().filter_map(|skip| unreadable(roots, skip)).collect();
    Ok(dropped)
}

/// Where something is that cannot be read, and why.
fn unreadable(roots: &[RootPath], skip: &Skipped) -> Option<(PathBuf, String)> {
    let Reason::Unreadable(why) = &skip.reason else { return None };
    Some((absolute(&roots.get(skip.root)?.path, &skip.path), why.clone()))
}
