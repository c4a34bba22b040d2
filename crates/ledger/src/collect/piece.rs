//! Writes one piece of a source: its generation, its records and spans, and the new cursor.
//!
//! Runs inside the transaction of its batch, and never commits by itself.

use quipu_transcript::format::{Format, Origin};
use rusqlite::{OptionalExtension, Transaction};

use super::batch::{Began, Piece, SpanPlan, Step};
use super::plan::SourceKind;
use super::position::{
    Position, Record, move_cursor, move_row_cursor, new_generation, store_spans,
};
use super::write::{Progress, Writer, format_of};
use crate::base::clock;
use crate::base::ids::Seq;
use crate::project::draft::Draft;
use crate::project::{Inserts, RecordPosition, absent};
use crate::truth::journal::Event;
use crate::truth::{chunks, damaged, records, sources, tails};
use crate::{Error, Result};

impl Writer<'_> {
    /// Opens the generation of a piece, and stores the records outside the batch's run: the end of
    /// the generation before, the end of a very long line, the tail. Returns the position of the
    /// piece's own records, with the tail length after them.
    pub(super) fn prepare(&mut self, tx: &Transaction<'_>, piece: &mut Piece) -> Result<Position> {
        let format = format_of(self.roots, self.job(piece.job)?);
        let origin = self.origin(piece.job)?;
        let mut position = match (&mut piece.step, self.progress.get(piece.job)) {
            (Step::Continue, Some(Progress::At(position))) => *position,
            (Step::Begin { began, .. }, Some(Progress::New)) => {
                let began = *began;
                let position = self.new_source(tx, piece, None)?;
                if began == Began::Copy {
                    self.record_generation(tx, piece, position, began)?;
                }
                position
            }
            // The file was refused before, so its first generation begins now.
            (Step::Begin { .. }, Some(Progress::At(old))) if self.is_refused(piece.job) => {
                sources::set_refused(tx, old.source, None)?;
                self.written.sources += 1;
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
                    self.record_generation(tx, piece, position, began)?;
                }
                position
            }
            (Step::Refuse(why), Some(Progress::New)) => {
                let why = *why;
                self.new_source(tx, piece, Some(why))?
            }
            (Step::Refuse(_), Some(Progress::At(position))) => *position,
            _ => return Err(Error::damaged("a piece that continues no known position".to_owned())),
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
        // The tail is stored here as well: a later piece of this batch may close it.
        let mut after = position;
        if piece.takes_tail {
            tails::delete(tx, position.generation)?;
            after.tail_length = 0;
        }
        after.cursor += piece.spans.iter().map(SpanPlan::length).sum::<u64>();
        if !piece.tail.is_empty() {
            let start = after.cursor + after.tail_length;
            tails::append(tx, after.generation, start, &piece.tail)?;
            after.tail_length += piece.tail.len() as u64;
        }
        position.tail_length = after.tail_length;
        if let Some(progress) = self.progress.get_mut(piece.job) {
            *progress = Progress::At(after);
        }
        Ok(position)
    }

    fn record_generation(
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
        let source = sources::insert(tx, kind.as_str(), format, (&root, path), refused)?;
        self.written.sources += u64::from(refused.is_none());
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
        if length < chunks::FULL_CHUNK_BYTES as u64 {
            let mut bytes = tails::read(tx, position.generation)?;
            bytes.extend_from_slice(rest);
            chunks::insert_pending(tx, seq, &bytes)?;
        } else {
            let mut rest = Some(rest.to_vec()).filter(|rest| !rest.is_empty());
            let mut after = -1_i64;
            chunks::store_streamed(tx, seq, &mut || {
                Ok(match tails::next(tx, position.generation, after)? {
                    Some((start, bytes)) => {
                        after = start;
                        Some(bytes)
                    }
                    None => rest.take(),
                })
            })?;
        }
        tails::delete(tx, position.generation)?;
        sources::end_tail(tx, position.generation, start + length)?;
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

    /// Projects a record. The projection has to be up to date before.
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
        let is_row = position.kind == SourceKind::Rows;
        let position = RecordPosition { format, origin, source, generation, start, length, is_row };
        self.fold.record(tx, inserts, &position, seq, draft)
    }

    /// Stores a piece's own records and spans, and moves the cursor.
    pub(super) fn piece(
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
        // Spans are stored before the fold runs, because it may look up the line before a record.
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
}
