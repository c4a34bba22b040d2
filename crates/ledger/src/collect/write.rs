//! Writes batches: truth, cursor and projection of each in one transaction.
//!
//! A batch names the position in each file that it continues from. If another process has moved
//! that position, the whole batch is dropped and its files are planned again.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use quipu_transcript::format::{Format, Origin};
use rusqlite::Transaction;

use super::batch::{Batch, Piece, SpanPlan};
use super::discover::RootPath;
use super::forgotten::Gate;
use super::index::IndexUpdate;
use super::plan::Job;
use super::position::{Position, is_at, is_known_path};
use crate::base::clock;
use crate::base::ids::{GenerationId, Seq, SourceId};
use crate::base::paths::path_bytes;
use crate::project::rebuild::{self, CatchUpStep};
use crate::project::{Fold, keys, tail};
use crate::truth::journal::{self, Event};
use crate::truth::{chunks, indexes, records};
use crate::wire::SyncReport;
use crate::{Error, Result};

/// The longest time spent on projecting records that runtimes appended, before a batch is written.
const MAX_CATCH_UP_STEP: Duration = Duration::from_millis(100);

/// The writer's state of a file while its pieces arrive.
#[derive(Debug, Clone)]
pub(crate) enum Progress {
    /// The file is not in the ledger.
    New,
    At(Position),
    /// Another process was faster.
    Dropped,
}

/// Counts of what was written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Written {
    pub(crate) records: u64,
    pub(crate) generations: u64,
    pub(crate) sources: u64,
}

/// Writes the batches of one sync.
pub(crate) struct Writer<'a> {
    pub(crate) roots: &'a [RootPath],
    pub(crate) jobs: &'a [Job],
    origins: Vec<Rc<Origin>>,
    pub(crate) progress: Vec<Progress>,
    /// For each job, true once its last piece is written.
    pub(super) is_ended: Vec<bool>,
    pub(crate) fold: Fold,
    pub(crate) written: Written,
    /// True if the projection was up to date when the transaction began.
    pub(super) is_projecting: bool,
    /// Generations whose tail may have changed in this transaction.
    pub(super) tails: HashSet<GenerationId>,
    data_version: i64,
    /// The sessions that were forgotten when the files were planned.
    gate: &'a Gate,
    /// The sessions that are forgotten in this transaction, if they changed since.
    changed_gate: Option<Gate>,
}

impl<'a> Writer<'a> {
    /// Adds the counts to a report. The fold counts problems over all writers of a sync.
    pub(crate) fn add_to(&self, report: &mut SyncReport) {
        report.records_added += self.written.records;
        report.sources_added += self.written.sources;
        report.rewritten_sources += self.written.generations;
        report.problems = self.fold.problems;
        report.since = self.fold.since;
    }

    pub(crate) fn new(
        roots: &'a [RootPath],
        jobs: &'a [Job],
        gate: &'a Gate,
        report: &SyncReport,
    ) -> Writer<'a> {
        let progress = jobs
            .iter()
            .map(|job| {
                job.known.as_ref().map_or(Progress::New, |known| Progress::At(Position::of(known)))
            })
            .collect();
        let origins = jobs
            .iter()
            .map(|job| {
                let path = job.known.as_ref().map_or(&job.path, |known| &known.first_path);
                Rc::new(format_of(roots, job).origin(path))
            })
            .collect();
        Writer {
            roots,
            jobs,
            origins,
            progress,
            is_ended: vec![false; jobs.len()],
            fold: Fold::after(report),
            written: Written::default(),
            is_projecting: false,
            tails: HashSet::new(),
            data_version: -1,
            gate,
            changed_gate: None,
        }
    }

    /// Resets the state of a connection: another process may have written since.
    pub(crate) fn reconnected(&mut self) {
        self.data_version = -1;
    }

    /// Prepares the writer. Must come first in every transaction.
    pub(crate) fn begin(&mut self, tx: &Transaction<'_>) -> Result<()> {
        let version: i64 =
            tx.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if version != self.data_version {
            self.fold.drop_cache();
            self.data_version = version;
            self.changed_gate = self.gate.changed(tx)?;
        }
        // If another process rebuilds, only truth is written and the projection catches up later.
        let step = rebuild::catch_up_step(tx, &mut self.fold, MAX_CATCH_UP_STEP)?;
        self.is_projecting = step == CatchUpStep::UpToDate;
        Ok(())
    }

    /// Saves the projection's state. Must come last in every transaction.
    pub(crate) fn end(&mut self, tx: &Transaction<'_>) -> Result<()> {
        if self.is_projecting {
            self.fold.save(tx)?;
            for generation in self.tails.drain() {
                tail::project(tx, generation)?;
            }
            tx.prepare_cached(
                "UPDATE ledger SET projected_to = (SELECT coalesce(max(seq), 0) FROM records)",
            )?
            .execute([])?;
        }
        tx.prepare_cached("UPDATE ledger SET collected_at = ?1")?.execute([clock::now_ms()])?;
        self.tails.clear();
        Ok(())
    }

    /// Writes a batch, or drops it if another process was faster with one of its files.
    pub(crate) fn batch(&mut self, tx: &Transaction<'_>, batch: Batch) -> Result<()> {
        if !self.may_write(tx, &batch)? {
            for piece in &batch.pieces {
                if let Some(progress) = self.progress.get_mut(piece.job) {
                    *progress = Progress::Dropped;
                }
            }
            return Ok(());
        }
        // Records outside the batch's run come first and get the lower seqs.
        let mut positions = Vec::with_capacity(batch.pieces.len());
        let mut pieces = batch.pieces;
        for piece in &mut pieces {
            positions.push(self.prepare(tx, piece)?);
            if let Some(is_ended) = self.is_ended.get_mut(piece.job) {
                *is_ended |= piece.is_last;
            }
        }
        let base = records::next_seq(tx)?;
        chunks::store(tx, &batch.packed, base, &batch.lengths, &batch.same_as)?;
        for (index, number) in &batch.rows {
            tx.prepare_cached("INSERT INTO record_rows (seq, number) VALUES (?1, ?2)")?
                .execute((Seq(base.0 + *index as i64), number))?;
        }
        let mut seq = base;
        let mut lengths = batch.lengths.iter().copied().zip(batch.same_as.iter().copied());
        let mut drafts = batch.drafts.into_iter();
        if let Some(words) = batch.words.filter(|_| self.is_projecting) {
            self.fold.words.begin_batch(tx)?;
            self.fold.words.end_batch(words);
        }
        for (piece, position) in pieces.iter().zip(positions) {
            self.piece(tx, piece, position, &mut seq, &mut lengths, &mut drafts)?;
        }
        // The journal's lines come after the batch's run of records.
        for piece in pieces {
            if let (Some(update), Some(Progress::At(position))) =
                (piece.index, self.progress.get(piece.job))
            {
                let source = position.source;
                self.index(tx, source, *update)?;
            }
        }
        Ok(())
    }

    /// Returns whether every file of the batch is at the position that the batch continues from.
    fn may_write(&self, tx: &Transaction<'_>, batch: &Batch) -> Result<bool> {
        let mut checked = HashSet::new();
        let shares_bytes = batch.same_as.iter().any(Option::is_some);
        if self.changed_gate.is_some() && shares_bytes {
            return Ok(false);
        }
        for piece in &batch.pieces {
            if !checked.insert(piece.job) {
                continue;
            }
            if let Some(gate) = &self.changed_gate {
                let origin = self.origin(piece.job)?;
                let format = format_of(self.roots, self.job(piece.job)?);
                if gate.file(format, &origin).may_hold_forgotten() {
                    return Ok(false);
                }
            }
            let fits = match self.progress.get(piece.job) {
                Some(Progress::At(position)) => {
                    is_at(tx, position)? && self.is_same_index(tx, piece, position)?
                }
                Some(Progress::New) => {
                    let (format, root, path) = self.name(piece.job)?;
                    !is_known_path(tx, format, &root, path)?
                }
                Some(Progress::Dropped) | None => false,
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether an index is still the one that an update was compared with.
    fn is_same_index(
        &self,
        tx: &Transaction<'_>,
        piece: &Piece,
        position: &Position,
    ) -> Result<bool> {
        let known = self.job(piece.job)?.known.as_ref();
        let (Some(_), Some(known)) = (&piece.index, known) else { return Ok(true) };
        let marker: Vec<u8> = tx
            .prepare_cached("SELECT marker FROM generations WHERE id = ?1")?
            .query_row([position.generation], |row| row.get(0))?;
        Ok(marker == known.marker)
    }

    /// Replaces the bytes of an index, and appends the changes that matter to the journal.
    pub(super) fn index(
        &mut self,
        tx: &Transaction<'_>,
        source: SourceId,
        update: IndexUpdate,
    ) -> Result<()> {
        if !update.problems.is_empty() {
            let problems = update.problems.into_iter();
            let problems =
                problems.map(|problem| (problem.kind.as_str().to_owned(), problem.detail));
            let (at, source) = (clock::now_ms(), source.0);
            self.event(tx, &Event::IndexProblems { at, source, problems: problems.collect() })?;
        }
        let Some(bytes) = update.bytes else { return Ok(()) };
        indexes::store(tx, source, &bytes)?;
        for note in update.notes {
            self.event(tx, &note.event(source.0))?;
        }
        if self.is_projecting {
            keys::replace(tx, source, &update.changed, &update.removed)?;
        }
        Ok(())
    }

    pub(super) fn event(&mut self, tx: &Transaction<'_>, event: &Event) -> Result<Seq> {
        let seq = journal::append(tx, event)?;
        if self.is_projecting {
            self.fold.event(tx, seq, event)?;
        }
        Ok(seq)
    }

    pub(super) fn is_refused(&self, job: usize) -> bool {
        let known = self.jobs.get(job).and_then(|job| job.known.as_ref());
        known.is_some_and(|known| known.refused.is_some() && known.reached() == 0)
    }

    pub(super) fn origin(&self, job: usize) -> Result<Rc<Origin>> {
        let origin = self.origins.get(job).cloned();
        origin.ok_or_else(|| Error::damaged("a piece of no file".to_owned()))
    }

    pub(super) fn job(&self, number: usize) -> Result<&'a Job> {
        self.jobs.get(number).ok_or_else(|| Error::damaged("a piece of no file".to_owned()))
    }

    /// Returns the format, root and path of a job.
    pub(super) fn name(&self, number: usize) -> Result<(&'static str, Vec<u8>, &'a [u8])> {
        let job = self.job(number)?;
        Ok((format_of(self.roots, job).name(), path_bytes(&job.root_path), &job.path))
    }
}

impl SpanPlan {
    pub(super) fn length(&self) -> u64 {
        match self {
            SpanPlan::Own { length, .. } | SpanPlan::Same { length, .. } => *length,
        }
    }
}

pub(super) fn format_of(roots: &[RootPath], job: &Job) -> &'static dyn Format {
    // Jobs are made from these roots, so the fallback is never used.
    roots.get(job.root).map_or(quipu_transcript::format::FORMATS[0], |root| root.format)
}

/// Returns the number of dropped jobs, which are planned again.
pub(crate) fn dropped(progress: &[Progress]) -> usize {
    progress.iter().filter(|progress| matches!(progress, Progress::Dropped)).count()
}
