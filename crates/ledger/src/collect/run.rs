//! Carries out the jobs of a plan: several threads read and decode, one thread writes, in the order
//! of the plan. The memory between them is bounded.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use quipu_fts5::Access;

use super::batch::{Batch, Buffers, Builder};
use super::copies::SessionLines;
use super::discover::{RootPath, Skipped};
use super::forgotten::Gate;
use super::plan::Job;
use super::read::{self, Outcome, Work};
use super::write::{self, Writer};
use super::{Pending, Progress, is_over, known};
use crate::collect::backpressure::Backpressure;
use crate::collect::checkpointer::CheckpointThread;
use crate::file::ledger::Ledger;
use crate::truth::chunks::{FULL_CHUNK_BYTES, RecordReader};
use crate::wire::SyncReport;
use crate::{Error, Result};

/// The number of bytes up to which small files are read as one unit.
const UNIT_BYTES: u64 = 3 << 20;

/// The number of bytes of a unit near the end of the plan. After the last unit is read, only the
/// writer works, so the last units are small.
const LAST_UNIT_BYTES: u64 = FULL_CHUNK_BYTES as u64;

/// The largest number of files in a unit.
const MAX_UNIT_FILES: usize = 512;

/// The weight in bytes at which a transaction of a bulk import ends.
const TRANSACTION_BYTES: usize = 32 << 20;

/// The weight in bytes at which a transaction ends if it holds more than what is left. Nothing is
/// read during the last commit, so the last transaction is small.
const LAST_TRANSACTION_BYTES: usize = 8 << 20;

/// The time after which a transaction ends: a killed import loses no more than that.
const MAX_TRANSACTION_TIME: Duration = Duration::from_secs(1);

/// A run of jobs.
pub(super) struct Run<'a> {
    pub(super) ledger: &'a mut Ledger,
    pub(super) roots: &'a [RootPath],
    pub(super) jobs: &'a [Job],
    pub(super) gate: &'a Gate,
    pub(super) pending: &'a mut Pending,
    /// The lines of sessions that readers keep from one run to the next.
    pub(super) copies: &'a Mutex<Vec<SessionLines>>,
}

impl Run<'_> {
    /// Runs the jobs. Returns the number of dropped ones.
    pub(super) fn run(
        &mut self,
        report: &mut SyncReport,
        skipped: &mut Vec<Skipped>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<usize> {
        let units = units(self.jobs);
        // As many threads as cores, besides the writer: reading and decoding is most of the work.
        let workers = thread::available_parallelism()
            .map_or(1, |cores| cores.get())
            .clamp(1, 4)
            .min(units.len());
        let readers = Readers {
            path: self.ledger.path().to_owned(),
            empty: self.ledger.empty(),
            access: self.ledger.fts5_access()?,
            roots: self.roots,
            jobs: self.jobs,
            units: &units,
            gate: self.gate,
            copies: self.copies,
            next: AtomicUsize::new(0),
            backpressure: Backpressure::new(units.len()),
            done: Mutex::new((Work::default(), Vec::new())),
        };
        let mut writer = Writer::new(self.roots, self.jobs, self.gate, report);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            units.iter().map(|_| mpsc::channel::<Result<Batch>>()).unzip();
        let senders: Vec<Mutex<Option<mpsc::Sender<Result<Batch>>>>> =
            senders.into_iter().map(|sender| Mutex::new(Some(sender))).collect();
        thread::scope(|scope| -> Result<()> {
            for _ in 0..workers {
                scope.spawn(|| readers.run(&senders));
            }
            let backpressure = &readers.backpressure;
            let mut batches = receivers.into_iter().flat_map(|unit| {
                let mut taken = 0;
                std::iter::from_fn(move || {
                    // Requesting the next batch means that the one before is written.
                    if taken > 0 {
                        backpressure.leave(std::mem::take(&mut taken));
                    }
                    let next = unit.recv().ok();
                    match &next {
                        Some(Ok(batch)) => taken = batch.weight.max(1),
                        Some(Err(_)) => {}
                        None => backpressure.advance(),
                    }
                    next
                })
            });
            let bytes = self.jobs.iter().map(Job::unread).sum();
            let mut start_checkpoints =
                |ledger: &Ledger| CheckpointThread::start(scope, ledger, bytes);
            let written = self.write(&mut batches, &mut writer, &mut start_checkpoints, progress);
            // Without a receiver for their batches, the readers stop.
            drop(batches);
            backpressure.end();
            written
        })?;
        let units_done = readers.backpressure.front();
        let (work, mut more) =
            readers.done.into_inner().map_err(|_| Error::damaged("a reader stopped".to_owned()))?;
        // A damaged file was read as far as possible, so it counts as read.
        let unread = more.iter().filter(|skip| !skip.reason.is_read()).count();
        skipped.append(&mut more);
        report.bytes_read += work.bytes_read;
        report.bytes_verified += work.bytes_verified;
        report.lines_parsed += work.lines_parsed;
        report.chunks_opened += work.chunks_opened;
        report.old_lines += work.old_lines;
        let dropped = write::dropped(&writer.progress);
        let done = units.get(units_done).map_or(self.jobs.len(), |unit| unit.start);
        for (job, is_ended) in self.jobs.iter().zip(&writer.is_ended).skip(done) {
            if !is_ended {
                self.pending.add(std::slice::from_ref(job));
            }
        }
        report.sources_changed += done.saturating_sub(dropped + unread) as u64;
        writer.add_to(report);
        Ok(dropped)
    }

    /// Writes the readers' batches until there are no more, or until the deadline.
    fn write<'s>(
        &mut self,
        batches: &mut dyn Iterator<Item = Result<Batch>>,
        writer: &mut Writer<'_>,
        start_checkpoints: &mut dyn FnMut(&Ledger) -> Option<CheckpointThread<'s>>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        let mut checkpoints = start_checkpoints(self.ledger);
        let (mut queue, deadline) = (self.ledger.queue(), self.ledger.deadline());
        let mut left: u64 = self.jobs.iter().map(Job::unread).sum();
        let mut read = ReadSoFar::default();
        while let Some(first) = batches.next() {
            let (mut stored, mut weight) = (0, 0);
            let began = Instant::now();
            self.ledger.write(|tx| {
                writer.begin(tx)?;
                let mut next = Some(first);
                while let Some(batch) = next {
                    let batch = batch?;
                    stored += batch.bytes();
                    read.add(self.jobs, &batch);
                    weight += batch.weight;
                    writer.batch(tx, batch)?;
                    let has_waiters = queue.as_ref().is_some_and(|queue| queue.has_waiters());
                    let is_long = began.elapsed() >= MAX_TRANSACTION_TIME || is_over(deadline);
                    let is_most = weight >= LAST_TRANSACTION_BYTES && stored >= left / 2;
                    if weight >= TRANSACTION_BYTES || is_most || is_long || has_waiters {
                        break;
                    }
                    next = batches.next();
                }
                writer.end(tx)
            })?;
            if let Some(checkpoints) = &checkpoints {
                checkpoints.committed();
            }
            left = left.saturating_sub(stored);
            progress(Progress::Done { bytes: read.more() });
            if is_over(deadline) {
                break;
            }
            if self.ledger.is_staging_overdue() {
                checkpoints.take().map_or(Ok(()), CheckpointThread::end)?;
                self.ledger.publish()?;
                // Other processes can open it now, and write to it.
                (checkpoints, queue) = (start_checkpoints(self.ledger), self.ledger.queue());
                writer.reconnected();
            }
        }
        checkpoints.map_or(Ok(()), CheckpointThread::end)
    }
}

/// Groups jobs so that each unit is worth a batch.
fn units(jobs: &[Job]) -> Vec<std::ops::Range<usize>> {
    let work = |job: &Job| if job.is_touched() { job.size } else { job.unread() };
    let mut units = Vec::new();
    let (mut start, mut bytes, mut left) = (0, 0, jobs.iter().map(work).sum::<u64>());
    for (index, job) in jobs.iter().enumerate() {
        // New bytes must not wait until all touched files are compared, so touched files begin a
        // unit.
        let is_touched = job.is_touched();
        let begins =
            is_touched && index > start && !jobs.get(index - 1).is_some_and(Job::is_touched);
        if begins {
            units.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes += work(job);
        left = left.saturating_sub(work(job));
        if bytes >= (left / 8).clamp(LAST_UNIT_BYTES, UNIT_BYTES)
            || index + 1 - start >= MAX_UNIT_FILES
        {
            units.push(start..index + 1);
            (start, bytes) = (index + 1, 0);
        }
    }
    if start < jobs.len() {
        units.push(start..jobs.len());
    }
    units
}

/// The state that the reading threads share.
struct Readers<'a> {
    path: PathBuf,
    /// The access to the search index.
    access: Access,
    /// The empty ledger that they read while the real one is a staging file.
    empty: Option<Arc<[u8]>>,
    roots: &'a [RootPath],
    jobs: &'a [Job],
    units: &'a [std::ops::Range<usize>],
    gate: &'a Gate,
    copies: &'a Mutex<Vec<SessionLines>>,
    next: AtomicUsize,
    backpressure: Backpressure,
    done: Mutex<(Work, Vec<Skipped>)>,
}

/// The state that a reading thread keeps from unit to unit.
struct Reader {
    work: Work,
    skipped: Vec<Skipped>,
    buffers: Buffers,
    copies: RefCell<SessionLines>,
}

type Senders = [Mutex<Option<mpsc::Sender<Result<Batch>>>>];

impl Readers<'_> {
    /// Reads units until there are none left.
    fn run(&self, senders: &Senders) {
        lower_priority();
        let mut ledger = match &self.empty {
            Some(empty) => Ledger::in_memory(empty, &self.path),
            None => Ledger::open_up_to_date(&self.path),
        };
        let kept = self.copies.lock().ok().and_then(|mut copies| copies.pop());
        let mut reader = Reader {
            work: Work::default(),
            skipped: Vec::new(),
            buffers: Buffers::new(self.access),
            copies: kept.unwrap_or_default().into(),
        };
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(unit) = self.units.get(number) else { break };
            let sender = senders
                .get(number)
                .and_then(|sender| sender.lock().ok().and_then(|mut sender| sender.take()));
            let Some(sender) = sender else { break };
            let outcome = match &mut ledger {
                Ok(ledger) => self.unit(ledger, number, unit.clone(), &sender, &mut reader),
                // Reported once: the writer stops at the first error.
                Err(error) => Err(std::mem::replace(error, Error::damaged("a reader stopped"))),
            };
            // Sending fails if the writer has stopped.
            if let Err(error) = outcome
                && sender.send(Err(error)).is_err()
            {
                break;
            }
        }
        if let Ok(mut copies) = self.copies.lock() {
            copies.push(reader.copies.take());
        }
        if let Ok(mut done) = self.done.lock() {
            done.0.bytes_read += reader.work.bytes_read;
            done.0.bytes_verified += reader.work.bytes_verified;
            done.0.lines_parsed += reader.work.lines_parsed;
            done.0.chunks_opened += reader.work.chunks_opened;
            done.0.old_lines += reader.work.old_lines;
            done.1.append(&mut reader.skipped);
        }
    }

    fn unit(
        &self,
        ledger: &Ledger,
        number: usize,
        unit: std::ops::Range<usize>,
        sender: &mpsc::Sender<Result<Batch>>,
        reader: &mut Reader,
    ) -> Result<()> {
        let is_last = number + 1 == self.units.len();
        let mut send = |batch: Batch| {
            let is_sent = self.backpressure.enter(number, batch.weight.max(1))
                && sender.send(Ok(batch)).is_ok();
            if is_sent { Ok(()) } else { Err(Error::damaged("the writer stopped".to_owned())) }
        };
        let mut builder = Builder::new(&mut reader.buffers, &mut send);
        let records = RefCell::new(RecordReader::new(ledger.conn()));
        for number in unit {
            let Some(job) = self.jobs.get(number) else { break };
            let Some(root) = self.roots.get(job.root) else { break };
            let folder = self.path.parent().unwrap_or(Path::new(""));
            let ledger = read::LedgerAccess {
                conn: ledger.conn(),
                records: &records,
                copies: &reader.copies,
                folder,
                gate: self.gate,
            };
            let source = read::Source { format: root.format, job, number };
            match read::read(&ledger, &source, &mut builder, &mut reader.work)? {
                Outcome::Done => {}
                Outcome::Skipped(reason) => {
                    let path = job.path.clone();
                    reader.skipped.push(Skipped { root: job.root, path, reason });
                }
            }
        }
        reader.work.chunks_opened += records.borrow().opened();
        builder.hand_over(is_last)
    }
}

/// Lowers the priority of a reading thread, so that the writer gets a core of its own where there
/// are fewer cores than threads. Only on Linux, where it affects one thread and not the whole
/// process.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(3);
}

impl Job {
    /// Returns whether the file has no new bytes, so that it is only compared.
    pub(super) fn is_touched(&self) -> bool {
        self.known.is_some() && self.unread() == 0
    }

    /// Returns the approximate number of bytes to read.
    pub(super) fn unread(&self) -> u64 {
        let reached = self.known.as_ref().map_or(0, known::KnownSource::reached);
        if self.size >= reached { self.size - reached } else { self.size }
    }
}

/// How much of the planned bytes was read. Bytes that the ledger had already are not stored again,
/// but they were read.
#[derive(Default)]
struct ReadSoFar {
    /// The bytes of files that were read to their end.
    ended: u64,
    /// The bytes of the file that is being read.
    open: u64,
    reported: u64,
}

impl ReadSoFar {
    fn add(&mut self, jobs: &[Job], batch: &Batch) {
        let ended = batch.pieces.iter().filter(|piece| piece.is_last);
        let ended: Vec<u64> =
            ended.filter_map(|piece| jobs.get(piece.job)).map(Job::unread).collect();
        self.ended += ended.iter().sum::<u64>();
        self.open = if ended.is_empty() { self.open + batch.bytes() } else { 0 };
    }

    /// Returns the number of bytes since the last call.
    fn more(&mut self) -> u64 {
        let more = (self.ended + self.open).saturating_sub(self.reported);
        self.reported += more;
        more
    }
}

impl Batch {
    pub(super) fn bytes(&self) -> u64 {
        let tails: usize = self.pieces.iter().map(|piece| piece.tail.len()).sum();
        self.lengths.iter().sum::<u64>() + tails as u64
    }
}
