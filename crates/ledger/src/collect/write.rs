//! Writes batches: truth, cursor and projection of each in one transaction.
//!
//! A batch names the place in each file that it goes on from. If another process has moved that
//! place, the whole batch is dropped and its files are looked at again.

use std::collections::HashSet;
use std::rc::Rc;

use quipu_transcript::format::{Format, Origin};
use rusqlite::{OptionalExtension, Transaction};

use super::batch::{Batch, Began, Piece, SpanPlan, Step};
use super::discover::{RootPath, path_bytes};
use super::index::IndexUpdate;
use super::plan::{Job, Kind};
use super::position::{
    Position, Record, drop_tail, is_at, is_followed, move_cursor, move_row_cursor, new_generation,
    store_spans,
};
use crate::forget::{self, Forgotten};
use crate::ids::{GenerationId, Seq, SourceId};
use crate::journal::{self, Event};
use crate::project::draft::Draft;
use crate::project::{Fold, Inserts, Place, absent, keys, tail};
use crate::{Error, Result, chunks, clock, damaged, indexes, records, spans, sums};

/// What the writer knows of a file while its pieces come in.
#[derive(Debug, Clone)]
pub(crate) enum Progress {
    /// Not in the ledger.
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
    pub(crate) fold: Fold,
    pub(crate) written: Written,
    /// Whether the projection was up to date when the transaction began.
    is_projecting: bool,
    /// Generations whose tail may have changed in this transaction.
    pub(super) tails: HashSet<GenerationId>,
    data_version: i64,
    /// The sessions that were forgotten when the files were looked at …
    forgotten: &'a Forgotten,
    /// … and those that are now, if they are others.
    forgotten_since: Option<Forgotten>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(
        roots: &'a [RootPath],
        jobs: &'a [Job],
        forgotten: &'a Forgotten,
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
            fold: Fold::default(),
            written: Written::default(),
            is_projecting: false,
            tails: HashSet::new(),
            data_version: -1,
            forgotten,
            forgotten_since: None,
        }
    }

    /// Must come first in every transaction.
    pub(crate) fn begin(&mut self, tx: &Transaction<'_>) -> Result<()> {
        let (projected_to, last): (i64, i64) = tx
            .prepare_cached(
                "SELECT projected_to, (SELECT coalesce(max(seq), 0) FROM records) FROM ledger",
            )?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        // If another process rebuilds, truth goes on and the projection follows later.
        self.is_projecting = projected_to == last;
        let version: i64 =
            tx.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if version != self.data_version {
            self.fold.let_go();
            self.data_version = version;
            self.forgotten_since =
                Some(Forgotten::load(tx)?).filter(|forgotten| forgotten != self.forgotten);
        }
        Ok(())
    }

    /// Must come last in every transaction.
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
        // What is not part of the batch's run of records comes first and gets its seqs first.
        let mut positions = Vec::with_capacity(batch.pieces.len());
        let mut pieces = batch.pieces;
        for piece in &mut pieces {
            positions.push(self.prepare(tx, piece)?);
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

    /// True if every file of the batch is where the batch takes it up.
    fn may_write(&self, tx: &Transaction<'_>, batch: &Batch) -> Result<bool> {
        let mut checked = HashSet::new();
        let shares_bytes = batch.same_as.iter().any(Option::is_some);
        if self.forgotten_since.is_some() && shares_bytes {
            return Ok(false);
        }
        for piece in &batch.pieces {
            if !checked.insert(piece.job) {
                continue;
            }
            if let Some(forgotten) = &self.forgotten_since {
                let origin = self.origin(piece.job)?;
                let format = format_of(self.roots, self.job(piece.job)?);
                if forgotten.claims(format, &origin) || forget::is_shared(&origin) {
                    return Ok(false);
                }
            }
            let fits = match self.progress.get(piece.job) {
                Some(Progress::At(position)) => {
                    is_at(tx, position)? && self.is_same_index(tx, piece, position)?
                }
                Some(Progress::New) => {
                    let (format, root, path) = self.name(piece.job)?;
                    !is_followed(tx, format, &root, path)?
                }
                Some(Progress::Dropped) | None => false,
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if an index is still the one that an update was compared with.
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

    /// Opens the generation that a piece belongs to, and stores what is not in the batch's run of
    /// records: the end of the generation before, the end of a very long line, the tail. Returns
    /// where the piece's own records go, with the tail that is left in the end.
    fn prepare(&mut self, tx: &Transaction<'_>, piece: &mut Piece) -> Result<Position> {
        let format = format_of(self.roots, self.job(piece.job)?);
        let origin = self.origin(piece.job)?;
        let mut position = match (&mut piece.step, self.progress.get(piece.job)) {
            (Step::Continue, Some(Progress::At(position))) => *position,
            (Step::Begin { began, .. }, Some(Progress::New)) => {
                let began = *began;
                let position = self.new_source(tx, piece, None)?;
                if began == Began::Copy {
                    self.tell_generation(tx, piece, position, began)?;
                }
                position
            }
            // Looked at before and found to be nothing: its life begins now.
            (Step::Begin { .. }, Some(Progress::At(old))) if self.is_refused(piece.job) => {
                tx.prepare_cached("UPDATE sources SET refused = NULL WHERE id = ?1")?
                    .execute([old.source])?;
                *old
            }
            (Step::Begin { began, closing, .. }, Some(Progress::At(old))) => {
                let (began, closing) = (*began, closing.take());
                let mut old = *old;
                self.close(tx, format, &origin, &mut old, closing)?;
                let position =
                    new_generation(tx, old.kind, old.source, old.number + 1, began, piece)?;
                self.written.generations += 1;
                if began != Began::Version {
                    self.tell_generation(tx, piece, position, began)?;
                }
                position
            }
            (Step::Refuse(why), Some(Progress::New)) => {
                let why = *why;
                self.new_source(tx, piece, Some(why))?
            }
            (Step::Refuse(_), Some(Progress::At(position))) => *position,
            _ => return Err(Error::damaged("a piece that goes on from nowhere".to_owned())),
        };
        if let Some(compressed) = piece.compressed.take() {
            damaged::store(tx, position.generation, &compressed)?;
        }
        if let Some(damage) = piece.damage.take() {
            damaged::note(tx, position.generation, &damage)?;
            let (at, source) = (clock::now_ms(), position.source.0);
            self.event(tx, &Event::Damaged { at, source, what: damage.why })?;
        }
        if let Some(long) = piece.closes_long_tail.take() {
            let length = position.tail_length + long.rest.len() as u64;
            self.long_record(tx, format, &origin, &mut position, length, &long.rest, long.draft)?;
        }
        // The tail too: a later piece of this batch may close it.
        let mut after = position;
        if piece.takes_tail {
            drop_tail(tx, position.generation)?;
            after.tail_length = 0;
        }
        after.cursor += piece.spans.iter().map(SpanPlan::length).sum::<u64>();
        if !piece.tail.is_empty() {
            tx.prepare_cached(
                "INSERT INTO tails (generation, start, bytes, sum) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute((
                after.generation,
                (after.cursor + after.tail_length) as i64,
                &piece.tail,
                sums::of(&piece.tail),
            ))?;
            after.tail_length += piece.tail.len() as u64;
        }
        position.tail_length = after.tail_length;
        if let Some(progress) = self.progress.get_mut(piece.job) {
            *progress = Progress::At(after);
        }
        Ok(position)
    }

    fn tell_generation(
        &mut self,
        tx: &Transaction<'_>,
        piece: &Piece,
        position: Position,
        began: Began,
    ) -> Result<()> {
        let copy_of = match &piece.step {
            Step::Begin { copy_of: Some(generation), .. } => tx
                .prepare_cached("SELECT source FROM generations WHERE id = ?1")?
                .query_row([generation], |row| row.get::<_, i64>(0))
                .optional()?,
            _ => None,
        };
        self.event(
            tx,
            &Event::Generation {
                at: clock::now_ms(),
                source: position.source.0,
                number: position.number,
                began: began.as_str().to_owned(),
                copy_of,
            },
        )?;
        Ok(())
    }

    fn new_source(
        &mut self,
        tx: &Transaction<'_>,
        piece: &Piece,
        refused: Option<&str>,
    ) -> Result<Position> {
        let (format, root, path) = self.name(piece.job)?;
        let kind = self.job(piece.job)?.kind;
        tx.prepare_cached(
            "INSERT INTO sources (kind, format, root, path, first_path, refused)
             VALUES (?1, ?2, ?3, ?4, ?4, ?5)",
        )?
        .execute((kind.as_str(), format, root, path, refused))?;
        let source = SourceId(tx.last_insert_rowid());
        self.written.sources += 1;
        let began = match piece.step {
            Step::Begin { began, .. } => began,
            _ => Began::First,
        };
        new_generation(tx, kind, source, 1, began, piece)
    }

    /// Ends a generation: its unterminated tail becomes a record.
    pub(super) fn close(
        &mut self,
        tx: &Transaction<'_>,
        format: &'static dyn Format,
        origin: &Origin,
        position: &mut Position,
        draft: Option<Draft>,
    ) -> Result<()> {
        self.tails.insert(position.generation);
        match draft {
            Some(draft) if position.tail_length > 0 => {
                let length = position.tail_length;
                self.long_record(tx, format, origin, position, length, &[], draft)
            }
            _ => Ok(()),
        }
    }

    /// Stores the tail in the ledger, and `rest` after it, as one record.
    #[expect(clippy::too_many_arguments, reason = "everything that makes a record")]
    fn long_record(
        &mut self,
        tx: &Transaction<'_>,
        format: &'static dyn Format,
        origin: &Origin,
        position: &mut Position,
        length: u64,
        rest: &[u8],
        draft: Draft,
    ) -> Result<()> {
        let seq = records::next_seq(tx)?;
        let start = position.cursor;
        records::insert(tx, seq, position.generation, start, length, None)?;
        records::own_span(tx, position.generation, start, length, seq, seq)?;
        if length < chunks::CHUNK as u64 {
            let mut bytes = Vec::new();
            spans::stream_tail(tx, position.generation, &mut |part| {
                bytes.extend_from_slice(part);
                Ok(())
            })?;
            bytes.extend_from_slice(rest);
            chunks::put_pending(tx, seq, &bytes)?;
        } else {
            let mut rest = Some(rest.to_vec()).filter(|rest| !rest.is_empty());
            let mut after = -1_i64;
            chunks::store_streamed(tx, seq, &mut || {
                let piece = tx
                    .prepare_cached(
                        "SELECT start, bytes, sum FROM tails WHERE generation = ?1 AND start > ?2
                          ORDER BY start LIMIT 1",
                    )?
                    .query_row((position.generation, after), |row| {
                        Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?, row.get(2)?))
                    })
                    .optional()?;
                Ok(match piece {
                    Some((start, bytes, sum)) => {
                        sums::check(&bytes, sum, || format!("record {}", seq.0))?;
                        after = start;
                        Some(bytes)
                    }
                    None => rest.take(),
                })
            })?;
        }
        drop_tail(tx, position.generation)?;
        tx.prepare_cached(
            "UPDATE generations
                SET cursor = ?2, tail_length = 0, tail_stands = 0, records = records + 1
              WHERE id = ?1",
        )?
        .execute((position.generation, (start + length) as i64))?;
        position.cursor = start + length;
        position.tail_length = 0;
        self.written.records += 1;
        self.tails.insert(position.generation);
        if self.is_projecting {
            let record = Record { seq, start, length };
            self.project(tx, &mut Inserts::new(tx)?, format, origin, position, record, draft)?;
        }
        Ok(())
    }

    /// Folds a record into the projection, which is up to date.
    #[expect(clippy::too_many_arguments, reason = "everything that makes a record")]
    fn project(
        &mut self,
        tx: &Transaction<'_>,
        inserts: &mut Inserts<'_>,
        format: &'static dyn Format,
        origin: &Origin,
        position: &Position,
        Record { seq, start, length }: Record,
        draft: Draft,
    ) -> Result<()> {
        let (source, generation) = (position.source, position.generation);
        let is_row = position.kind == Kind::Rows;
        let place = Place { format, origin, source, generation, start, length, is_row };
        self.fold.record(tx, inserts, &place, seq, draft)
    }

    /// Stores a piece's own records and spans, and moves the cursor.
    fn piece(
        &mut self,
        tx: &Transaction<'_>,
        piece: &Piece,
        mut position: Position,
        seq: &mut Seq,
        lengths: &mut dyn Iterator<Item = (u64, Option<Seq>)>,
        drafts: &mut std::vec::IntoIter<Draft>,
    ) -> Result<()> {
        let format = format_of(self.roots, self.job(piece.job)?);
        let stored = store_spans(tx, &piece.spans, &mut position, seq, lengths)?;
        move_cursor(tx, piece, &position, stored.len())?;
        if let Some(rows) = &piece.rows {
            move_row_cursor(tx, position.generation, rows)?;
        }
        if piece.takes_tail || position.tail_length > 0 {
            self.tails.insert(position.generation);
        }
        self.written.records += stored.len() as u64;
        // Spans first, then the fold: it may look the line before a record up.
        let origin = self.origin(piece.job)?;
        let mut inserts = self.is_projecting.then(|| Inserts::new(tx)).transpose()?;
        for (record, draft) in stored.into_iter().zip(drafts) {
            if let Some(inserts) = &mut inserts {
                self.project(tx, inserts, format, &origin, &position, record, draft)?;
            }
        }
        if piece.is_last && position.number > 1 && position.is_fresh && self.is_projecting {
            absent::mark(tx, position.source)?;
        }
        Ok(())
    }

    /// Replaces the bytes of an index, and writes down what matters of the change.
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

    fn is_refused(&self, job: usize) -> bool {
        let known = self.jobs.get(job).and_then(|job| job.known.as_ref());
        known.is_some_and(|known| known.refused.is_some() && known.reached() == 0)
    }

    fn origin(&self, job: usize) -> Result<Rc<Origin>> {
        let origin = self.origins.get(job).cloned();
        origin.ok_or_else(|| Error::damaged("a piece of no file".to_owned()))
    }

    fn job(&self, number: usize) -> Result<&'a Job> {
        self.jobs.get(number).ok_or_else(|| Error::damaged("a piece of no file".to_owned()))
    }

    /// Format, root and path of a job.
    fn name(&self, number: usize) -> Result<(&'static str, Vec<u8>, &'a [u8])> {
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

fn format_of(roots: &[RootPath], job: &Job) -> &'static dyn Format {
    // Jobs are made from these roots; the first format is never reached.
    roots.get(job.root).map_or(quipu_transcript::format::FORMATS[0], |root| root.format)
}

/// How far each job got, for looking again at those that were dropped.
pub(crate) fn dropped(progress: &[Progress]) -> usize {
    progress.iter().filter(|progress| matches!(progress, Progress::Dropped)).count()
}
