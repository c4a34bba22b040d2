//! Reads and writes what is planned: some threads read and decode, one writes, in the order of the
//! plan, and what is between them stays bounded.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use quipu_fts5::Access;

use super::batch::{Batch, Builder, Tools};
use super::copies::SessionLines;
use super::discover::{RootPath, Skipped};
use super::plan::Job;
use super::read::{self, Outcome, Work};
use super::write::{self, Writer};
use super::{Pending, Progress, is_over, known};
use crate::collect::backpressure::Lead;
use crate::collect::checkpointer::Settler;
use crate::file::ledger::Ledger;
use crate::truth::chunks::{CHUNK, RecordReader};
use crate::truth::forgotten::Forgotten;
use crate::wire::SyncReport;
use crate::{Error, Result};

/// Small files are read together until they make up this much, …
const UNIT: u64 = 3 << 20;

/// … or only this much near the end, where the writer alone has something left to do when the last
/// unit is read, …
const SMALL_UNIT: u64 = CHUNK as u64;

/// … or until there are so many of them.
const MOST_FILES: usize = 512;

/// A transaction of a bulk import ends at this weight, or earlier if somebody waits, …
const TRANSACTION: usize = 32 << 20;

/// … or at this one when it holds more than is left: while the last one ends, nobody reads, so that
/// is a small one, …
const SMALL_TRANSACTION: usize = 8 << 20;

/// … or after this time: an import that is killed has not lost more than that.
const LONGEST_TRANSACTION: Duration = Duration::from_secs(1);

/// Some jobs, to be read and written.
pub(super) struct Run<'a> {
    pub(super) ledger: &'a mut Ledger,
    pub(super) roots: &'a [RootPath],
    pub(super) jobs: &'a [Job],
    pub(super) forgotten: &'a Forgotten,
    pub(super) pending: &'a mut Pending,
    /// What readers keep from one run to the next.
    pub(super) copies: &'a Mutex<Vec<SessionLines>>,
}

impl Run<'_> {
    /// Reads and writes them. Returns how many were dropped.
    pub(super) fn run(
        &mut self,
        report: &mut SyncReport,
        skipped: &mut Vec<Skipped>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<usize> {
        let units = units(self.jobs);
        // As many as there are cores, beside the writer: most of the work is theirs.
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
            forgotten: self.forgotten,
            copies: self.copies,
            next: AtomicUsize::new(0),
            lead: Lead::new(units.len()),
            done: Mutex::new((Work::default(), Vec::new())),
        };
        let mut writer = Writer::new(self.roots, self.jobs, self.forgotten, report);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            units.iter().map(|_| mpsc::channel::<Result<Batch>>()).unzip();
        let senders: Vec<Mutex<Option<mpsc::Sender<Result<Batch>>>>> =
            senders.into_iter().map(|sender| Mutex::new(Some(sender))).collect();
        thread::scope(|scope| -> Result<()> {
            for _ in 0..workers {
                scope.spawn(|| readers.run(&senders));
            }
            let lead = &readers.lead;
            let mut batches = receivers.into_iter().flat_map(|unit| {
                let mut taken = 0;
                std::iter::from_fn(move || {
                    // Whoever asks for the next one has written the one before.
                    if taken > 0 {
                        lead.leave(std::mem::take(&mut taken));
                    }
                    let next = unit.recv().ok();
                    match &next {
                        Some(Ok(batch)) => taken = batch.weight.max(1),
                        Some(Err(_)) => {}
                        None => lead.advance(),
                    }
                    next
                })
            });
            let bytes = self.jobs.iter().map(Job::unread).sum();
            let mut settle = |ledger: &Ledger| Settler::start(scope, ledger, bytes);
            let written = self.write(&mut batches, &mut writer, &mut settle, progress);
            // Without anybody to take their batches, the readers stop.
            drop(batches);
            lead.end();
            written
        })?;
        let units_done = readers.lead.front();
        let (work, mut more) =
            readers.done.into_inner().map_err(|_| Error::damaged("a reader stopped".to_owned()))?;
        // A file that is damaged was looked into all the same.
        let unread = more.iter().filter(|skip| !skip.reason.is_read()).count();
        skipped.append(&mut more);
        report.bytes_read += work.bytes_read;
        report.bytes_verified += work.bytes_verified;
        report.lines_parsed += work.lines_parsed;
        report.chunks_opened += work.chunks_opened;
        report.old_lines += work.old_lines;
        let dropped = write::dropped(&writer.progress);
        let done = units.get(units_done).map_or(self.jobs.len(), |unit| unit.start);
        for (job, progress) in self.jobs.iter().zip(&writer.progress).skip(done) {
            match progress {
                write::Progress::At(position) if position.reached() >= job.size => {}
                _ => self.pending.add(std::slice::from_ref(job)),
            }
        }
        report.sources_changed += done.saturating_sub(dropped + unread) as u64;
        writer.add_to(report);
        Ok(dropped)
    }

    /// Writes what the readers send, until there is nothing more, or no time.
    fn write<'s>(
        &mut self,
        batches: &mut dyn Iterator<Item = Result<Batch>>,
        writer: &mut Writer<'_>,
        settle: &mut dyn FnMut(&Ledger) -> Option<Settler<'s>>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        let mut settler = settle(self.ledger);
        let (mut queue, deadline) = (self.ledger.queue(), self.ledger.deadline());
        let mut left: u64 = self.jobs.iter().map(Job::unread).sum();
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
                    let is_most = weight >= SMALL_TRANSACTION && stored >= left / 2;
                    if weight >= TRANSACTION || is_most || is_long || somebody_waits {
                        break;
                    }
                    next = batches.next();
                }
                writer.end(tx)
            })?;
            if let Some(settler) = &settler {
                settler.committed();
            }
            left = left.saturating_sub(stored);
            progress(Progress::Stored { bytes: stored });
            if is_over(deadline) {
                break;
            }
            if self.ledger.is_unnamed_for_long() {
                settler.take().map_or(Ok(()), Settler::end)?;
                self.ledger.take_name()?;
                // Others see it now, and write to it.
                (settler, queue) = (settle(self.ledger), self.ledger.queue());
                writer.reconnected();
            }
        }
        settler.map_or(Ok(()), Settler::end)
    }
}

/// Groups jobs so that each unit of work is worth a batch.
fn units(jobs: &[Job]) -> Vec<std::ops::Range<usize>> {
    let work = |job: &Job| if job.is_touched() { job.size } else { job.unread() };
    let mut units = Vec::new();
    let (mut start, mut bytes, mut left) = (0, 0, jobs.iter().map(work).sum::<u64>());
    for (index, job) in jobs.iter().enumerate() {
        // What is new does not wait until all that was touched is compared.
        let is_touched = job.is_touched();
        let begins =
            is_touched && index > start && !jobs.get(index - 1).is_some_and(Job::is_touched);
        if begins {
            units.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes += work(job);
        left = left.saturating_sub(work(job));
        if bytes >= (left / 8).clamp(SMALL_UNIT, UNIT) || index + 1 - start >= MOST_FILES {
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
    /// How the search index is written.
    access: Access,
    /// What they see of the ledger while it is built.
    empty: Option<Arc<[u8]>>,
    roots: &'a [RootPath],
    jobs: &'a [Job],
    units: &'a [std::ops::Range<usize>],
    forgotten: &'a Forgotten,
    copies: &'a Mutex<Vec<SessionLines>>,
    next: AtomicUsize,
    lead: Lead,
    done: Mutex<(Work, Vec<Skipped>)>,
}

/// What a reading thread keeps from unit to unit.
struct Reader {
    work: Work,
    skipped: Vec<Skipped>,
    tools: Tools,
    copies: RefCell<SessionLines>,
}

type Senders = [Mutex<Option<mpsc::Sender<Result<Batch>>>>];

impl Readers<'_> {
    /// Takes units until there are none left.
    fn run(&self, senders: &Senders) {
        step_back();
        let mut ledger = match &self.empty {
            Some(empty) => Ledger::in_memory(empty, &self.path),
            None => Ledger::open_up_to_date(&self.path),
        };
        let kept = self.copies.lock().ok().and_then(|mut copies| copies.pop());
        let mut reader = Reader {
            work: Work::default(),
            skipped: Vec::new(),
            tools: Tools::new(self.access),
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
            let is_sent =
                self.lead.enter(number, batch.weight.max(1)) && sender.send(Ok(batch)).is_ok();
            if is_sent { Ok(()) } else { Err(Error::damaged("the writer stopped".to_owned())) }
        };
        let mut builder = Builder::new(&mut reader.tools, &mut send);
        let records = RefCell::new(RecordReader::new(ledger.conn()));
        for number in unit {
            let Some(job) = self.jobs.get(number) else { break };
            let Some(root) = self.roots.get(job.root) else { break };
            let folder = self.path.parent().unwrap_or(Path::new(""));
            let ledger = read::Held {
                conn: ledger.conn(),
                records: &records,
                copies: &reader.copies,
                folder,
                forgotten: self.forgotten,
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

/// Lets the writer have a core to itself where there are fewer cores than threads: what it is behind
/// with in the end, it does alone. On Linux the thread alone steps back; elsewhere the whole process
/// would.
fn step_back() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(3);
}

impl Job {
    /// Whether it seems to hold what it held before, so that it is only compared.
    pub(super) fn is_touched(&self) -> bool {
        self.known.is_some() && self.unread() == 0
    }

    /// About how many bytes there are to read.
    pub(super) fn unread(&self) -> u64 {
        let reached = self.known.as_ref().map_or(0, known::Known::reached);
        if self.size >= reached { self.size - reached } else { self.size }
    }
}

impl Batch {
    pub(super) fn bytes(&self) -> u64 {
        let tails: usize = self.pieces.iter().map(|piece| piece.tail.len()).sum();
        self.lengths.iter().sum::<u64>() + tails as u64
    }
}
