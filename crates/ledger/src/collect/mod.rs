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

mod batch;
mod changed;
mod changes;
mod damage;
mod decompress;
mod discover;
mod document;
mod forgotten;
mod index;
pub(crate) mod known;
mod lines;
mod look;
mod plan;
mod position;
mod read;
mod rewrite;
pub(crate) mod rows;
mod select;
mod tail;
mod view;
mod write;

use std::cell::Cell;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use changed::claimed;
pub use discover::RootPath;
pub(crate) use discover::{
    Discovery, Folder, Found, MOST_NAMED, Reason, RootState, absolute, discover, path_bytes,
    summarise,
};
pub(crate) use forgotten::leave_out;
pub(crate) use index::without_forgotten;
pub(crate) use look::same_content;
pub(crate) use read::open as open_source;
pub use select::Selection;
pub(crate) use view::View;

use crate::forget::{self, Forgotten};
use crate::ledger::Ledger;
use crate::project::rebuild;
use crate::wire::SyncReport;
use crate::{Error, Result, chunks};
pub(crate) use batch::Ends;
use batch::{Batch, Builder};
use discover::Skipped;
use plan::{Job, Plan};
use read::{Outcome, Work};
use write::Writer;
pub(crate) use write::Written;

/// Small files are read together until they make up this much.
const UNIT: u64 = 1 << 20;

/// A transaction of a bulk import ends at this weight, or earlier if somebody waits, …
const TRANSACTION: usize = 128 << 20;

/// … or after this time: an import that is killed has not lost more than that.
const LONGEST_TRANSACTION: Duration = Duration::from_secs(1);

/// Batches that wait for the writer, per unit of work.
const QUEUE: usize = 2;

/// Units of work that may be read, or wait to be written, beside those that are being read.
const AHEAD: usize = 2;

/// At most this many files that are alike are read one after another.
const MOST_PHASES: usize = 16;

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
    if rebuild::is_behind(ledger.conn())? {
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
        forget::go_on(ledger);
    }
    if rebuild::is_behind(ledger.conn())? {
        rebuild::catch_up(ledger, &mut |done, total| {
            progress(Progress::Rebuilding { done, total })
        })?;
    }
    for attempt in 1..=TRIES {
        let forgotten = Forgotten::load(ledger.conn())?;
        sweep.pending = Pending::default();
        match collect_once(ledger, roots, &forgotten, &mut sweep, progress) {
            Ok(0) => break,
            Ok(_) if is_over(ledger.deadline()) => break,
            Ok(_) => {}
            // What a reader wanted to compare with may have been forgotten meanwhile.
            Err(_) if attempt < TRIES && Forgotten::load(ledger.conn())? != forgotten => {}
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
    if chunks::wants_sealing(ledger.conn())? {
        ledger.write(chunks::seal)?;
    }
    if report.sources_changed > 0 {
        ledger.trim()?;
    }
    if rebuild::is_behind(ledger.conn())? {
        rebuild::catch_up(ledger, &mut |done, total| {
            progress(Progress::Rebuilding { done, total })
        })?;
    }
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
        let mut writer = Writer::new(roots, &[], forgotten);
        ledger.write(|tx| {
            writer.begin(tx)?;
            writer.changes(tx, &plan)?;
            writer.end(tx)
        })?;
        report.add(&writer.written, writer.fold.problems);
    }

    let mut dropped = 0;
    let databases = plan.databases.take();
    for jobs in phases(roots, plan) {
        if is_over(ledger.deadline()) {
            sweep.pending.add(&jobs);
        } else if !jobs.is_empty() {
            let mut run =
                Run { ledger, roots, jobs: &jobs, forgotten, pending: &mut sweep.pending };
            dropped += run.run(report, &mut skipped, progress)?;
        }
    }
    // What is in a database may repeat what is in files, so files come first.
    if let Some(databases) = databases {
        let (skipped, pending) = (&mut skipped, &mut sweep.pending);
        let mut sync = rows::Sync { ledger, roots, forgotten, report, skipped, pending, progress };
        dropped += sync.databases(&databases)?;
    }
    report.skipped = summarise(roots, &skipped);
    sweep.folders = discovery.folders;
    sweep.unreadable = skipped.iter().filter_map(|skip| unreadable(roots, skip)).collect();
    Ok(dropped)
}

/// Where something is that cannot be read, and why.
fn unreadable(roots: &[RootPath], skip: &Skipped) -> Option<(PathBuf, String)> {
    let Reason::Unreadable(why) = &skip.reason else { return None };
    Some((absolute(&roots.get(skip.root)?.path, &skip.path), why.clone()))
}

/// New files that begin alike, or are of one session, may be copies of each other: the longer waits
/// until the shorter is in the ledger.
fn phases(roots: &[RootPath], plan: Plan) -> Vec<Vec<Job>> {
    let mut alike: HashMap<Alike, Vec<usize>> = HashMap::new();
    for (index, job) in plan.jobs.iter().enumerate().filter(|(_, job)| job.known.is_none()) {
        let Some(format) = roots.get(job.root).map(|root| root.format) else { continue };
        let origin = format.origin(&job.path);
        let head = read::head(format, job);
        if origin.part.is_transcript()
            && let Some(session) = read::session_of(format, &origin, &head)
        {
            let session = Alike::Session(format.name(), origin.agent, session);
            alike.entry(session).or_default().push(index);
        }
        if !head.is_empty() {
            alike.entry(Alike::Head(known::print(&head))).or_default().push(index);
        }
    }
    alike.retain(|_, jobs| jobs.len() > 1);
    let mut alike_to: HashMap<usize, Vec<&Alike>> = HashMap::new();
    for (key, jobs) in &alike {
        for job in jobs {
            alike_to.entry(*job).or_default().push(key);
        }
    }
    let mut waiting: Vec<(u64, usize)> =
        alike_to.keys().filter_map(|job| Some((plan.jobs.get(*job)?.size, *job))).collect();
    waiting.sort_unstable();
    let mut next: HashMap<&Alike, usize> = HashMap::new();
    let mut phase_of: HashMap<usize, usize> = HashMap::new();
    for (_, job) in waiting {
        let keys = alike_to.get(&job).map_or(&[][..], Vec::as_slice);
        let phase = keys.iter().filter_map(|key| next.get(key)).max().copied().unwrap_or(0);
        next.extend(keys.iter().map(|key| (*key, phase + 1)));
        phase_of.insert(job, phase.min(MOST_PHASES - 1));
    }
    let mut phases: Vec<Vec<Job>> = Vec::new();
    for (index, job) in plan.jobs.into_iter().enumerate() {
        let phase = phase_of.get(&index).copied().unwrap_or(0);
        if phases.len() <= phase {
            phases.resize_with(phase + 1, Vec::new);
        }
        if let Some(jobs) = phases.get_mut(phase) {
            jobs.push(job);
        }
    }
    phases
}

/// What two new files may have in common.
#[derive(PartialEq, Eq, Hash)]
enum Alike {
    /// The first kilobyte.
    Head(known::Print),
    /// The session: format, agent, id.
    Session(&'static str, Option<String>, String),
}

/// Some jobs, to be read and written.
struct Run<'a> {
    ledger: &'a mut Ledger,
    roots: &'a [RootPath],
    jobs: &'a [Job],
    forgotten: &'a Forgotten,
    pending: &'a mut Pending,
}

impl Run<'_> {
    /// Reads and writes them. Returns how many were dropped.
    fn run(
        &mut self,
        report: &mut SyncReport,
        skipped: &mut Vec<Skipped>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<usize> {
        let units = units(self.jobs);
        let workers = thread::available_parallelism()
            .map_or(1, |cores| cores.get().saturating_sub(1))
            .clamp(1, 4)
            .min(units.len());
        // A reader takes a turn for each unit, and the writer gives it back when the unit is
        // written: what is in memory stays bounded however small the units are.
        let (give_turn, turns) = mpsc::channel();
        for _ in 0..workers + AHEAD {
            let _ = give_turn.send(());
        }
        let readers = Readers {
            path: self.ledger.path().to_owned(),
            roots: self.roots,
            jobs: self.jobs,
            units: &units,
            forgotten: self.forgotten,
            next: AtomicUsize::new(0),
            turns: Mutex::new(turns),
            done: Mutex::new((Work::default(), Vec::new())),
        };
        let mut writer = Writer::new(self.roots, self.jobs, self.forgotten);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            units.iter().map(|_| mpsc::sync_channel::<Result<Batch>>(QUEUE)).unzip();
        let senders: Vec<Mutex<Option<mpsc::SyncSender<Result<Batch>>>>> =
            senders.into_iter().map(|sender| Mutex::new(Some(sender))).collect();
        let units_done = Cell::new(0);
        thread::scope(|scope| -> Result<()> {
            for _ in 0..workers {
                scope.spawn(|| readers.run(&senders));
            }
            let mut batches = receivers.into_iter().flat_map(|unit| {
                let give_turn = give_turn.clone();
                let units_done = &units_done;
                let ended = std::iter::from_fn(move || {
                    units_done.set(units_done.get() + 1);
                    let _ = give_turn.send(());
                    None
                });
                unit.into_iter().chain(ended)
            });
            let written = self.write(&mut batches, &mut writer, progress);
            // Without batches to send and turns to take, the readers stop.
            drop(batches);
            drop(give_turn);
            written
        })?;
        let (work, mut more) =
            readers.done.into_inner().map_err(|_| Error::damaged("a reader stopped".to_owned()))?;
        // A file that is damaged, or turned out to be no transcript, was looked into all the same.
        let unread = more.iter().filter(|skip| !skip.reason.is_read()).count();
        skipped.append(&mut more);
        report.bytes_read += work.bytes_read;
        report.bytes_verified += work.bytes_verified;
        report.lines_parsed += work.lines_parsed;
        let dropped = write::dropped(&writer.progress);
        let done = units.get(units_done.get()).map_or(self.jobs.len(), |unit| unit.start);
        for (job, progress) in self.jobs.iter().zip(&writer.progress).skip(done) {
            match progress {
                write::Progress::At(position) if position.reached() >= job.size => {}
                _ => self.pending.add(std::slice::from_ref(job)),
            }
        }
        report.sources_changed += done.saturating_sub(dropped + unread) as u64;
        report.add(&writer.written, writer.fold.problems);
        Ok(dropped)
    }

    /// Writes what the readers send, until there is nothing more, or no time.
    fn write(
        &mut self,
        batches: &mut dyn Iterator<Item = Result<Batch>>,
        writer: &mut Writer<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        let (queue, deadline) = (self.ledger.queue(), self.ledger.deadline());
        while let Some(first) = batches.next() {
            let (mut stored, mut weight) = (0, 0);
            let began = Instant::now();
            self.ledger.write(|tx| {
                writer.begin(tx)?;
                let mut next = Some(first);
                while let Some(batch) = next {
                    let batch = batch?;
                    stored += batch.bytes();
                    weight += batch.weight;
                    writer.batch(tx, batch)?;
                    let somebody_waits = queue.as_ref().is_some_and(|queue| queue.someone_waits());
                    let is_long = began.elapsed() >= LONGEST_TRANSACTION || is_over(deadline);
                    if weight >= TRANSACTION || is_long || somebody_waits {
                        break;
                    }
                    next = batches.next();
                }
                writer.end(tx)
            })?;
            progress(Progress::Stored { bytes: stored });
            if is_over(deadline) {
                break;
            }
        }
        Ok(())
    }
}

/// Groups jobs so that each unit of work is worth a batch.
fn units(jobs: &[Job]) -> Vec<std::ops::Range<usize>> {
    let mut units = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, job) in jobs.iter().enumerate() {
        bytes += job.unread();
        if bytes >= UNIT {
            units.push(start..index + 1);
            (start, bytes) = (index + 1, 0);
        }
    }
    if start < jobs.len() {
        units.push(start..jobs.len());
    }
    units
}

/// What the reading threads share.
struct Readers<'a> {
    path: PathBuf,
    roots: &'a [RootPath],
    jobs: &'a [Job],
    units: &'a [std::ops::Range<usize>],
    forgotten: &'a Forgotten,
    next: AtomicUsize,
    turns: Mutex<mpsc::Receiver<()>>,
    done: Mutex<(Work, Vec<Skipped>)>,
}

type Senders = [Mutex<Option<mpsc::SyncSender<Result<Batch>>>>];

impl Readers<'_> {
    /// Takes units until there are none left.
    fn run(&self, senders: &Senders) {
        let mut ledger = Ledger::open_read_only(&self.path);
        let mut work = Work::default();
        let mut skipped = Vec::new();
        // The writer stops giving turns when it fails.
        while self.turns.lock().is_ok_and(|turns| turns.recv().is_ok()) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(unit) = self.units.get(number) else { break };
            let sender = senders
                .get(number)
                .and_then(|sender| sender.lock().ok().and_then(|mut sender| sender.take()));
            let Some(sender) = sender else { break };
            let is_last = number + 1 == self.units.len();
            let outcome = match &mut ledger {
                Ok(ledger) => {
                    self.unit(ledger, unit.clone(), is_last, &sender, &mut work, &mut skipped)
                }
                // Told once: the writer stops at the first error.
                Err(error) => Err(std::mem::replace(error, Error::damaged("a reader stopped"))),
            };
            // If the writer has stopped, nobody listens any more.
            if let Err(error) = outcome
                && sender.send(Err(error)).is_err()
            {
                break;
            }
        }
        if let Ok(mut done) = self.done.lock() {
            done.0.bytes_read += work.bytes_read;
            done.0.bytes_verified += work.bytes_verified;
            done.0.lines_parsed += work.lines_parsed;
            done.1.append(&mut skipped);
        }
    }

    fn unit(
        &self,
        ledger: &Ledger,
        unit: std::ops::Range<usize>,
        is_last: bool,
        sender: &mpsc::SyncSender<Result<Batch>>,
        work: &mut Work,
        skipped: &mut Vec<Skipped>,
    ) -> Result<()> {
        let mut send = |batch| {
            sender.send(Ok(batch)).map_err(|_| Error::damaged("the writer stopped".to_owned()))
        };
        let mut builder = Builder::new(&mut send);
        for number in unit {
            let Some(job) = self.jobs.get(number) else { break };
            let Some(root) = self.roots.get(job.root) else { break };
            let folder = self.path.parent().unwrap_or(Path::new(""));
            let ledger = read::Held { conn: ledger.conn(), folder, forgotten: self.forgotten };
            let source = read::Source { format: root.format, job, number };
            match read::read(&ledger, &source, &mut builder, work)? {
                Outcome::Done => {}
                Outcome::Skipped(reason) => {
                    skipped.push(Skipped { root: job.root, path: job.path.clone(), reason })
                }
            }
        }
        builder.hand_over(is_last)
    }
}

impl Job {
    /// About how many bytes there are to read.
    fn unread(&self) -> u64 {
        let reached = self.known.as_ref().map_or(0, known::Known::reached);
        if self.size >= reached { self.size - reached } else { self.size }
    }
}

impl Batch {
    fn bytes(&self) -> u64 {
        let tails: usize = self.pieces.iter().map(|piece| piece.tail.len()).sum();
        self.lengths.iter().sum::<u64>() + tails as u64
    }
}
