//! Cuts a file of lines into records: the complete lines after the cursor, and the tail. Lines that
//! the ledger has already, from before a rewrite or from the original of a copy, are not stored
//! again.

use std::io::ErrorKind;

use quipu_transcript::record::{DECODE_LIMIT, OVERSIZE_HEAD};
use rusqlite::OptionalExtension;

use super::batch::{Began, Ends, LongTail, SpanPlan, Step};
use super::copies::SessionName;
use super::known::{HEAD, KnownSource, fingerprint};
use super::look::{self, Look};
use super::read::{self, READ_BYTES, Reader};
use super::rewrite::{OldLine, OldLines};
use super::tail::{self, Tail};
use crate::base::ids::{GenerationId, SourceId};
use crate::project::draft::Drafter;
use crate::{Error, Result};

/// The number of files with the same head, newest first, among which the longest is chosen.
const MAX_SAME_HEAD: i64 = 64;

impl Reader<'_, '_> {
    /// Reads the new lines of a file.
    pub(super) fn lines(&mut self) -> Result<()> {
        let Some(known) = self.job.known.as_ref().filter(|known| known.refused.is_none()) else {
            return self.new_lines();
        };
        let verified = &mut self.work.bytes_verified;
        let looked_at = (&self.stat, self.length);
        let look =
            look::look(&mut self.records.borrow_mut(), self.file, looked_at, known, verified)?;
        match look {
            // A generation that was closed in the middle of a line cannot continue there.
            Look::Grown(ends)
                if known.tail_length == 0
                    && self.length > known.cursor
                    && ends.last_byte().is_some_and(|byte| byte != b'\n') =>
            {
                self.rewrite(known, Began::Returned)
            }
            Look::Grown(ends) => {
                if let Some(began) = self.new_generation_reason(known)? {
                    return self.rewrite(known, began);
                }
                let tail = Tail::load(self.conn, known)?;
                let mut old = self.interrupted(known)?;
                self.cut(Step::Continue, known.reached(), ends, tail, old.as_mut())
            }
            Look::Other(began) => self.rewrite(known, began),
        }
    }

    /// Returns the lines of the generation before, if a rewrite was interrupted and has to
    /// continue.
    fn interrupted(&mut self, known: &KnownSource) -> Result<Option<KnownLines<'static>>> {
        if known.number == 1 || !known.is_unfinished() {
            return Ok(None);
        }
        let before: Option<GenerationId> = self
            .conn
            .prepare_cached("SELECT id FROM generations WHERE source = ?1 AND number = ?2")?
            .query_row((known.source, known.number - 1), |row| row.get(0))
            .optional()?;
        before
            .map(|before| Ok(KnownLines::Lines(OldLines::of(self.conn, before, self.work)?)))
            .transpose()
    }

    /// Reads a new source. It may be a copy of a known one, or hold lines of a session that other
    /// files hold too.
    fn new_lines(&mut self) -> Result<()> {
        let head = self.head()?;
        let mut original = OldLines::default();
        let copy_of = self.find_original(&head)?;
        let session = self.session(&head);
        let is_its_own = match (&session, copy_of) {
            (Some(session), Some((_, source))) => session.is_in(self.conn, source)?,
            _ => false,
        };
        if let Some((generation, _)) = copy_of.filter(|_| !is_its_own) {
            // A copy is rarely much shorter than its original. A file that only begins like a huge
            // one must not cost as much as the huge one.
            let max_bytes = self.length.saturating_mul(2).saturating_add(1 << 20);
            original.read(self.conn, generation, max_bytes, self.work)?;
        }
        let copies = self.copies;
        let mut copies = copies.borrow_mut();
        let mut none = OldLines::default();
        let session = match session {
            Some(session) => copies.of(&mut self.records.borrow_mut(), session, self.work)?,
            None => &mut none,
        };
        let began = if copy_of.is_some() { Began::Copy } else { Began::First };
        let copy_of = copy_of.map(|(generation, _)| generation);
        let step = Step::Begin { began, closing: None, copy_of };
        let mut old = Some(KnownLines::Copied(session, original)).filter(|old| !old.is_empty());
        self.cut(step, 0, Ends::default(), Tail::default(), old.as_mut())
    }

    fn rewrite(&mut self, known: &KnownSource, began: Began) -> Result<()> {
        let lines = OldLines::of(self.conn, known.generation, self.work)?;
        let step = Step::Begin {
            began,
            closing: tail::closing(self.conn, self.format, self.origin, known)?,
            copy_of: None,
        };
        self.cut(step, 0, Ends::default(), Tail::default(), Some(&mut KnownLines::Lines(lines)))
    }

    /// Returns the first [`HEAD`] bytes of the file, or all of it.
    pub(super) fn head(&self) -> Result<Vec<u8>> {
        let mut head = vec![0; HEAD.min(usize::try_from(self.length).unwrap_or(HEAD))];
        Ok(if look::fills(self.file, &mut head, 0)? { head } else { Vec::new() })
    }

    /// Returns a generation with the same head as this new file: the longest of the newest.
    fn find_original(&self, head: &[u8]) -> Result<Option<(GenerationId, SourceId)>> {
        if head.is_empty() {
            return Ok(None);
        }
        Ok(self
            .conn
            .prepare_cached(
                "SELECT id, source
                   FROM (SELECT id, source, cursor FROM generations
                          WHERE head = ?1 AND head_length = ?2
                          ORDER BY id DESC LIMIT ?3)
                  ORDER BY cursor DESC, id LIMIT 1",
            )?
            .query_row((fingerprint(head), head.len() as i64, MAX_SAME_HEAD), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?)
    }

    /// Returns the session of this new file, if it is a transcript.
    fn session(&self, head: &[u8]) -> Option<SessionName> {
        let id = read::session_of(self.format, self.origin, head)?;
        let agent = self.origin.agent.clone().unwrap_or_default();
        let is_transcript = self.origin.part.is_transcript();
        is_transcript.then(|| SessionName { format: self.format.name(), agent, id })
    }

    /// Cuts the file from `from` on into lines. Lines found in `old` are not stored again.
    fn cut(
        &mut self,
        step: Step,
        from: u64,
        mut ends: Ends,
        tail: Tail,
        mut old: Option<&mut KnownLines<'_>>,
    ) -> Result<()> {
        let mut step = Some(step);
        let mut at = from;
        let mut cut =
            Cut { carry: tail.bytes, stored: tail.length, long: tail.long_head, ..Cut::default() };
        let mut end_of_file = self.length;
        let mut failed = None;
        while at < end_of_file {
            let filled = cut.carry.len();
            let got = self.fill(&mut cut.carry, at, end_of_file).unwrap_or_else(|error| {
                failed = Some(error);
                0
            });
            if got == 0 {
                // The file was truncated during the read: the bytes read so far are stored.
                end_of_file = at;
                break;
            }
            at += got;
            match memchr::memrchr(b'\n', cut.carry.get(filled..).unwrap_or_default()) {
                Some(newline) => {
                    let rest = cut.carry.split_off(filled + newline + 1);
                    let lines = std::mem::replace(&mut cut.carry, rest);
                    self.take_lines(&lines, &mut cut, &mut ends, old.as_deref_mut())?;
                    if self.builder.is_full() {
                        let piece = self.finish_piece(&mut cut, &ends, &mut step);
                        self.builder.piece(piece)?;
                    }
                }
                None if cut.long.is_none() && cut.carry.len() <= DECODE_LIMIT => {}
                None => {
                    let start = at - cut.carry.len() as u64;
                    match self.skip_long_line(&mut cut, &mut ends, old.as_deref_mut(), start) {
                        Some(end) => at = end,
                        None => self.store_long_tail(&mut cut, &mut ends, &mut step)?,
                    }
                }
            }
        }
        if let Some(held_back) = self.held_back(&cut) {
            end_of_file = at - held_back;
            cut.carry.truncate(usize::try_from(cut.stored).unwrap_or(usize::MAX));
        }
        // The rest is the tail. The part of it that the ledger has is not sent again.
        if cut.long.is_some() || cut.carry.len() > DECODE_LIMIT {
            self.store_long_tail(&mut cut, &mut ends, &mut step)?;
        } else {
            let stored = usize::try_from(cut.stored).unwrap_or(usize::MAX);
            cut.tail = cut.carry.get(stored..).unwrap_or_default().to_vec();
            ends.add(&cut.tail);
        }
        let piece = self.finish_piece(&mut cut, &ends, &mut step);
        self.finish(piece, end_of_file)?;
        failed.map_or(Ok(()), |error| Err(Error::Source(error)))
    }

    /// Returns the number of bytes at the end of a shared file that are not stored yet: an
    /// incomplete line may belong to a forgotten session.
    fn held_back(&self, cut: &Cut) -> Option<u64> {
        let is_held_back = cut.long.is_none() && self.gate.holds_back(&cut.carry);
        is_held_back.then(|| cut.carry.len() as u64 - cut.stored)
    }

    /// Reads from `at` on into `carry`. Returns the number of bytes read.
    fn fill(&mut self, carry: &mut Vec<u8>, at: u64, end_of_file: u64) -> std::io::Result<u64> {
        let filled = carry.len();
        carry.resize(
            filled + READ_BYTES.min(usize::try_from(end_of_file - at).unwrap_or(READ_BYTES)),
            0,
        );
        let got = loop {
            match self.file.read_at(carry.get_mut(filled..).unwrap_or_default(), at) {
                Ok(got) => break got,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    carry.truncate(filled);
                    return Err(error);
                }
            }
        };
        carry.truncate(filled + got);
        self.work.bytes_read += got as u64;
        Ok(got as u64)
    }

    /// Adds complete lines. The first one may continue the tail.
    fn take_lines(
        &mut self,
        mut lines: &[u8],
        cut: &mut Cut,
        ends: &mut Ends,
        mut old: Option<&mut KnownLines<'_>>,
    ) -> Result<()> {
        let drafter = Drafter::new(self.format, self.origin);
        if let Some(long) = cut.long.take() {
            let (last, others) = first_line(lines);
            let length = cut.stored + last.len() as u64;
            self.work.lines_parsed += 1;
            let draft = drafter.draft_oversize(&long, length);
            cut.closes_long_tail = Some(LongTail { rest: last.to_vec(), draft });
            cut.stored = 0;
            ends.add(lines);
            lines = others;
        } else {
            // The part of the first line that is in the ledger's tail was added to `ends` before.
            // The ledger drops it.
            let stored = usize::try_from(std::mem::take(&mut cut.stored)).unwrap_or(usize::MAX);
            cut.takes_tail |= stored > 0;
            ends.add(lines.get(stored..).unwrap_or_default());
        }
        while !lines.is_empty() {
            let (line, others) = first_line(lines);
            lines = others;
            match old.as_deref_mut().and_then(|old| old.find(line)) {
                Some(StoredLine::Same(old)) => cut.same(old.generation, old.start, old.length),
                Some(StoredLine::Copied(old)) => {
                    self.work.lines_parsed += 1;
                    self.builder.repeat(old.seq, old.length, drafter.draft(line));
                    cut.own(old.length);
                }
                None => {
                    self.work.lines_parsed += 1;
                    // The file may have changed after it was looked through.
                    let line = self.gate.line(line);
                    self.builder.record(&line, drafter.draft(&line))?;
                    cut.own(line.len() as u64);
                }
            }
        }
        Ok(())
    }

    /// Reads once through a line that is too long for memory, to see whether the old generation has
    /// it. Returns the offset of its end if it does.
    fn skip_long_line(
        &mut self,
        cut: &mut Cut,
        ends: &mut Ends,
        old: Option<&mut KnownLines<'_>>,
        start: u64,
    ) -> Option<u64> {
        let old = old.filter(|_| cut.long.is_none())?;
        let mut hasher = blake3::Hasher::new();
        let mut passed = ends.clone();
        let mut buffer = vec![0; READ_BYTES];
        let mut at = start;
        loop {
            let got = self.file.read_at(&mut buffer, at).ok().filter(|got| *got > 0)?;
            self.work.bytes_verified += got as u64;
            let bytes = buffer.get(..got)?;
            let newline = memchr::memchr(b'\n', bytes);
            let part = bytes.get(..newline.map_or(got, |newline| newline + 1))?;
            hasher.update(part);
            passed.add(part);
            at += part.len() as u64;
            if newline.is_some() {
                break;
            }
        }
        match old {
            KnownLines::Lines(old) => {
                let line = old.find_hashed(&hasher, at - start)?;
                cut.same(line.generation, line.start, line.length);
            }
            KnownLines::Copied(session, original) => {
                let line = session
                    .find_hashed(&hasher, at - start)
                    .or_else(|| original.find_hashed(&hasher, at - start))?;
                let head = cut.carry.get(..OVERSIZE_HEAD).unwrap_or(&cut.carry);
                self.work.lines_parsed += 1;
                let drafter = Drafter::new(self.format, self.origin);
                self.builder.repeat(
                    line.seq,
                    line.length,
                    drafter.draft_oversize(head, line.length),
                );
                cut.own(line.length);
            }
        }
        cut.carry.clear();
        *ends = passed;
        Some(at)
    }

    /// Sends the beginning of a line that is too long for memory to the ledger's tail.
    fn store_long_tail(
        &mut self,
        cut: &mut Cut,
        ends: &mut Ends,
        step: &mut Option<Step>,
    ) -> Result<()> {
        if cut.long.is_none() {
            cut.long = Some(cut.carry.get(..OVERSIZE_HEAD).unwrap_or(&cut.carry).to_vec());
            let stored = usize::try_from(cut.stored).unwrap_or(usize::MAX);
            cut.tail = cut.carry.get(stored..).unwrap_or_default().to_vec();
        } else {
            cut.tail = std::mem::take(&mut cut.carry);
        }
        cut.carry = Vec::new();
        cut.stored += cut.tail.len() as u64;
        ends.add(&cut.tail);
        let piece = self.finish_piece(cut, ends, step);
        self.builder.piece(piece)
    }
}

/// Lines that the ledger has already.
enum KnownLines<'s> {
    /// Lines from before the file was rewritten. They do not become records again.
    Lines(OldLines),
    /// Lines of other files: of the session, and of the original that this file is a copy of. They
    /// become records of this file too, but their bytes are not stored again.
    Copied(&'s mut OldLines, OldLines),
}

/// A line that the ledger has already.
enum StoredLine {
    Same(OldLine),
    Copied(OldLine),
}

impl KnownLines<'_> {
    fn find(&mut self, line: &[u8]) -> Option<StoredLine> {
        match self {
            KnownLines::Lines(old) => old.find(line).map(StoredLine::Same),
            KnownLines::Copied(session, original) => {
                session.find(line).or_else(|| original.find(line)).map(StoredLine::Copied)
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            KnownLines::Lines(old) => old.is_empty(),
            KnownLines::Copied(session, original) => session.is_empty() && original.is_empty(),
        }
    }
}

/// The state of cutting a file into lines.
#[derive(Default)]
pub(super) struct Cut {
    /// Bytes after the last newline.
    pub(super) carry: Vec<u8>,
    /// The number of these bytes that the ledger has as tail.
    pub(super) stored: u64,
    /// The head of a line that is too long for memory; `carry` then holds only what the ledger
    /// lacks.
    pub(super) long: Option<Vec<u8>>,
    pub(super) spans: Vec<SpanPlan>,
    pub(super) tail: Vec<u8>,
    pub(super) takes_tail: bool,
    pub(super) closes_long_tail: Option<LongTail>,
}

impl Cut {
    pub(super) fn own(&mut self, line: u64) {
        if let Some(SpanPlan::Own { records, length }) = self.spans.last_mut() {
            *records += 1;
            *length += line;
        } else {
            self.spans.push(SpanPlan::Own { records: 1, length: line });
        }
    }

    pub(super) fn same(&mut self, from: GenerationId, from_start: u64, line: u64) {
        if let Some(SpanPlan::Same { generation, start, length }) = self.spans.last_mut()
            && *generation == from
            && *start + *length == from_start
        {
            *length += line;
        } else {
            self.spans.push(SpanPlan::Same { generation: from, start: from_start, length: line });
        }
    }
}

/// Splits off the first line with its newline.
fn first_line(lines: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr(b'\n', lines).map_or(lines.len(), |newline| newline + 1);
    lines.split_at(end)
}
