//! Reads a whole file as one record, if the ledger does not have that version of it.
//!
//! Never stores a part of a version: a document that changes while it is read is left for the next
//! sync.

use std::io::ErrorKind;

use quipu_transcript::record::{DECODE_LIMIT, OVERSIZE_HEAD};

use super::batch::{Began, Ends, LongTail, Step};
use super::lines::Cut;
use super::look;
use super::read::{READ_BYTES, Reader};
use crate::base::ids::{GenerationId, Seq};
use crate::project::draft::Drafter;
use crate::truth::spans;
use crate::{Error, Result};

impl Reader<'_, '_> {
    /// Reads a whole file as one record, if it is not the version that the ledger has.
    pub(super) fn document(&mut self) -> Result<()> {
        let mut began = Began::First;
        if let Some(known) = &self.job.known {
            let verified = &mut self.work.bytes_verified;
            let records = &mut *self.records.borrow_mut();
            let same = look::same_content(records, self.file, self.length, known, verified)?;
            if let Some(ends) = same {
                let mut piece = self.piece(Step::Continue, &ends);
                piece.is_last = true;
                return self.builder.piece(piece);
            }
            began = Began::Version;
        }
        let drafter = Drafter::new(self.format, self.origin);
        let mut step = Some(Step::Begin { began, closing: None, copy_of: None });
        let mut ends = Ends::default();
        let mut cut = Cut::default();
        let mut at = 0;
        while at < self.length {
            let wanted =
                (DECODE_LIMIT / 8).min(usize::try_from(self.length - at).unwrap_or(READ_BYTES));
            let mut bytes = vec![0; wanted];
            match self.file.read_at(&mut bytes, at) {
                Ok(0) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::Source(error)),
                Ok(got) => bytes.truncate(got),
            }
            at += bytes.len() as u64;
            self.work.bytes_read += bytes.len() as u64;
            ends.add(&bytes);
            cut.carry.append(&mut bytes);
            if cut.long.is_some() || cut.carry.len() > DECODE_LIMIT {
                self.store_document_part(&mut cut, &ends, &mut step)?;
            }
        }
        if at < self.length {
            // The file changed while it was read. A document is stored whole, so the next sync
            // tries again.
            return Ok(());
        }
        self.work.lines_parsed += 1;
        if let Some(head) = cut.long.take() {
            let rest = std::mem::take(&mut cut.carry);
            let draft = drafter.draft_oversize(&head, at);
            cut.closes_long_tail = Some(LongTail { rest, draft });
        } else if let Some(version) = self.same_version(&cut.carry)? {
            // A version that returns is a record of its own, so that it is the newest again.
            let length = cut.carry.len() as u64;
            self.builder.repeat(version, length, drafter.draft(&cut.carry));
            cut.own(length);
        } else if !cut.carry.is_empty() {
            self.builder.record(&cut.carry, drafter.draft(&cut.carry))?;
            cut.own(cut.carry.len() as u64);
        }
        let piece = self.finish_piece(&mut cut, &ends, &mut step);
        self.finish(piece, at)
    }

    /// Returns the record of an earlier version of the document with the same bytes.
    fn same_version(&self, bytes: &[u8]) -> Result<Option<Seq>> {
        let Some(known) = self.job.known.as_ref().filter(|_| !bytes.is_empty()) else {
            return Ok(None);
        };
        let versions: Vec<(GenerationId, Seq)> = self
            .conn
            .prepare_cached(
                "SELECT g.id, r.seq
                   FROM generations g
                   JOIN spans s ON s.generation = g.id AND s.start = 0
                   JOIN records r ON r.seq = s.first_seq AND r.length = g.cursor
                  WHERE g.source = ?1 AND g.cursor = ?2 AND g.tail_length = 0
                    AND r.same_as IS NULL",
            )?
            .query_map((known.source, bytes.len() as i64), |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        for (version, seq) in versions {
            let mut rest = Some(bytes);
            spans::stream(self.conn, version, &mut |part| {
                rest = rest.and_then(|rest| rest.strip_prefix(part));
                Ok(())
            })?;
            if rest.is_some_and(<[u8]>::is_empty) {
                return Ok(Some(seq));
            }
        }
        Ok(None)
    }

    fn store_document_part(
        &mut self,
        cut: &mut Cut,
        ends: &Ends,
        step: &mut Option<Step>,
    ) -> Result<()> {
        if cut.long.is_none() {
            cut.long = Some(cut.carry.get(..OVERSIZE_HEAD).unwrap_or(&cut.carry).to_vec());
        }
        cut.tail = std::mem::take(&mut cut.carry);
        let piece = self.finish_piece(cut, ends, step);
        self.builder.piece(piece)
    }
}
