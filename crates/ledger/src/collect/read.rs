//! Reads one file: opens it safely, decides what happened to it, and turns its new bytes into
//! pieces. Never writes; what it needs of the ledger it reads through a connection of its own.
//!
//! Memory is bounded by the longest line that is decoded whole (32 MiB): a longer one is passed on
//! in pieces, through the tail in the ledger.

use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use quipu_transcript::format::{self, Format, Framing, Origin};
use quipu_transcript::names;
use quipu_transcript::record::{self, DECODE_LIMIT, OVERSIZE_HEAD};
use rusqlite::{Connection, OptionalExtension};
use rustix::fs::OFlags;

use super::batch::{Began, Builder, Ends, LongTail, Piece, SpanPlan, Step};
use super::discover::{Reason, Stat};
use super::known::{HEAD, Known, print};
use super::look::{self, Look};
use super::plan::Job;
use super::rewrite::{OldLine, OldLines};
use crate::ids::GenerationId;
use crate::project::draft::{Draft, Drafter, mark_unterminated};
use crate::{Result, spans};

/// How much is read at once.
const READ: usize = 256 << 10;

/// How much of a file of an unknown name is looked at to see whether it is a transcript.
const PROBE: usize = 64 << 10;

/// A file that was not written to for this long is not in the middle of a line.
const STILL: Duration = Duration::from_secs(5);

/// What was done, in counts that do not depend on the machine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    pub(crate) bytes_read: u64,
    pub(crate) bytes_verified: u64,
    pub(crate) lines_parsed: u64,
}

/// Why a file was not read.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    Skipped(Reason),
}

/// Reads one file and hands its pieces to `builder`.
pub(crate) fn read(
    conn: &Connection,
    format: &'static dyn Format,
    job: &Job,
    number: usize,
    builder: &mut Builder<'_>,
    work: &mut Work,
) -> Result<Outcome> {
    let file = match open(&job.root_path, &job.absolute) {
        Ok(file) => file,
        Err(error) => return Ok(Outcome::Skipped(Reason::Unreadable(error.to_string()))),
    };
    let stat = match file.metadata() {
        Ok(meta) if meta.is_file() => Stat::of(&meta),
        Ok(_) => return Ok(Outcome::Skipped(Reason::NotAFile)),
        Err(error) => return Ok(Outcome::Skipped(Reason::Unreadable(error.to_string()))),
    };
    let first_path = job.known.as_ref().map_or(&job.path, |known| &known.first_path);
    let origin = format.origin(first_path);
    let mut reader = Reader {
        conn,
        format,
        origin: &origin,
        file: &file,
        stat,
        job,
        number,
        builder,
        work,
        is_still: is_still(&stat),
    };
    if job.is_probe
        && job.known.as_ref().is_none_or(|known| known.refused.is_some())
        && !reader.probe()
    {
        reader.refuse()?;
        return Ok(Outcome::Skipped(Reason::NotATranscript));
    }
    match origin.part.framing() {
        Framing::Lines => reader.lines()?,
        Framing::Document => reader.document()?,
    }
    Ok(Outcome::Done)
}

/// Opens a source: for reading only, never waiting for the writer of a pipe, and only where it was
/// discovered. A link that was swapped in since then leads nowhere.
pub(crate) fn open(root: &Path, path: &Path) -> std::io::Result<File> {
    let root = std::fs::canonicalize(root)?;
    let path = std::fs::canonicalize(path)?;
    let is_allowed = path
        .strip_prefix(&root)
        .is_ok_and(|inside| !names::is_denied(inside.as_os_str().as_bytes()));
    if !is_allowed {
        return Err(std::io::Error::other("it leads out of its root"));
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

fn is_still(stat: &Stat) -> bool {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX));
    now.saturating_sub(stat.mtime_ns) > i64::try_from(STILL.as_nanos()).unwrap_or(i64::MAX)
}

struct Reader<'a, 'b> {
    conn: &'a Connection,
    format: &'static dyn Format,
    origin: &'a Origin,
    file: &'a File,
    stat: Stat,
    job: &'a Job,
    number: usize,
    builder: &'a mut Builder<'b>,
    work: &'a mut Work,
    is_still: bool,
}

impl Reader<'_, '_> {
    /// Whether one of the first lines is a record of this format.
    fn probe(&mut self) -> bool {
        let mut head = vec![0; PROBE.min(usize::try_from(self.stat.size).unwrap_or(PROBE))];
        if self.file.read_exact_at(&mut head, 0).is_err() {
            return false;
        }
        self.work.bytes_verified += head.len() as u64;
        let mut is_record = false;
        for line in head.split(|byte| *byte == b'\n') {
            record::read(self.format, self.origin, line, &mut |entry| {
                is_record |= !matches!(entry.kind, quipu_transcript::entry::Kind::Unknown);
            });
        }
        is_record
    }

    /// Remembers that nothing is collected from the file, so that it is not looked at again.
    fn refuse(&mut self) -> Result<()> {
        let piece = self.piece(Step::Refuse("no line of it is a record"), &Ends::default());
        self.builder.piece(piece)
    }

    fn lines(&mut self) -> Result<()> {
        let Some(known) = self.job.known.as_ref().filter(|known| known.refused.is_none()) else {
            return self.new_lines();
        };
        match look::look(self.conn, self.file, &self.stat, known, &mut self.work.bytes_verified)? {
            // A generation that was closed in the middle of a line cannot go on there.
            Look::Grown(ends)
                if known.tail_length == 0
                    && self.stat.size > known.cursor
                    && ends.last_byte().is_some_and(|byte| byte != b'\n') =>
            {
                self.rewrite(known, Began::Returned)
            }
            Look::Grown(ends) => {
                let tail = Tail::load(self.conn, known)?;
                self.cut(Step::Continue, known.reached(), ends, tail, None)
            }
            Look::Other(began) => self.rewrite(known, began),
        }
    }

    /// A source that is not known yet. It may be a copy of one that is.
    fn new_lines(&mut self) -> Result<()> {
        let Some(original) = self.find_original()? else {
            let step = Step::Begin { began: Began::First, closing: None, copy_of: None };
            return self.cut(step, 0, Ends::default(), Tail::default(), None);
        };
        // A copy is hardly ever much shorter than its original; a file that merely begins like a
        // huge one must not cost as much as the huge one.
        let most = self.stat.size.saturating_mul(2).saturating_add(1 << 20);
        let lines = OldLines::read(self.conn, original.generation, most)?;
        let copy_of = Some(original.generation);
        let step = Step::Begin { began: Began::Copy, closing: None, copy_of };
        let mut old = if original.is_same_session { Old::Lines(lines) } else { Old::Copied(lines) };
        self.cut(step, 0, Ends::default(), Tail::default(), Some(&mut old))
    }

    fn rewrite(&mut self, known: &Known, began: Began) -> Result<()> {
        let mut old = Old::Lines(OldLines::read(self.conn, known.generation, u64::MAX)?);
        let step = Step::Begin { began, closing: self.closing(known)?, copy_of: None };
        self.cut(step, 0, Ends::default(), Tail::default(), Some(&mut old))
    }

    /// A generation that begins with the same kilobyte as this new file, or is as short and the same.
    fn find_original(&mut self) -> Result<Option<Original>> {
        let length = HEAD.min(usize::try_from(self.stat.size).unwrap_or(HEAD));
        let mut head = vec![0; length];
        if length == 0 || self.file.read_exact_at(&mut head, 0).is_err() {
            return Ok(None);
        }
        let found = self
            .conn
            .prepare_cached(
                "SELECT g.id, s.format, s.first_path
                   FROM generations g JOIN sources s ON s.id = g.source
                  WHERE g.head = ?1 AND g.head_length = ?2
                  ORDER BY g.cursor DESC, g.id LIMIT 1",
            )?
            .query_row((print(&head), length as i64), |row| {
                Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, Vec<u8>>(2)?))
            })
            .optional()?;
        Ok(found.map(|(generation, format, path)| {
            let is_same_session = format::by_name(&format).is_some_and(|format| {
                let origin = format.origin(&path);
                format.name() == self.format.name()
                    && (&origin.agent, &origin.session)
                        == (&self.origin.agent, &self.origin.session)
            });
            Original { generation, is_same_session }
        }))
    }

    /// What the unterminated tail of a generation says that ends here.
    fn closing(&mut self, known: &Known) -> Result<Option<Draft>> {
        closing(self.conn, self.format, self.origin, known)
    }

    /// Cuts the file from `from` on into lines. `old`: store only lines that it does not have.
    fn cut(
        &mut self,
        step: Step,
        from: u64,
        mut ends: Ends,
        tail: Tail,
        mut old: Option<&mut Old>,
    ) -> Result<()> {
        let drafter = Drafter::new(self.format, self.origin);
        let mut step = Some(step);
        let mut at = from;
        let mut cut =
            Cut { carry: tail.bytes, stored: tail.length, long: tail.long_head, ..Cut::default() };
        let mut end_of_file = self.stat.size;
        while at < end_of_file {
            let wanted = READ.min(usize::try_from(end_of_file - at).unwrap_or(READ));
            let filled = cut.carry.len();
            cut.carry.resize(filled + wanted, 0);
            let got = match self.file.read_at(cut.carry.get_mut(filled..).unwrap_or_default(), at) {
                Ok(0) => {
                    // Cut short while we read: what is there is stored, the next look sees the rest.
                    cut.carry.truncate(filled);
                    end_of_file = at;
                    break;
                }
                Ok(got) => got,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                    cut.carry.truncate(filled);
                    continue;
                }
                Err(error) => {
                    cut.carry.truncate(filled);
                    tracing::warn!(path = %self.job.absolute.display(), at, %error, "Stopped reading a source.");
                    break;
                }
            };
            cut.carry.truncate(filled + got);
            at += got as u64;
            self.work.bytes_read += got as u64;

            let Some(newline) = memchr::memrchr(b'\n', cut.carry.get(filled..).unwrap_or_default())
            else {
                if cut.long.is_none() && cut.carry.len() > DECODE_LIMIT {
                    let start = at - cut.carry.len() as u64;
                    if let Some(end) = self.skip_long_line(&mut cut, &mut ends, &mut old, start) {
                        at = end;
                        continue;
                    }
                }
                if cut.long.is_some() || cut.carry.len() > DECODE_LIMIT {
                    self.store_long_tail(&mut cut, &mut ends, &mut step)?;
                }
                continue;
            };
            let complete = filled + newline + 1;
            let rest = cut.carry.split_off(complete);
            let buffer = std::mem::replace(&mut cut.carry, rest);
            let mut lines = buffer.as_slice();
            if let Some(long) = cut.long.take() {
                let end = memchr::memchr(b'\n', lines).map_or(lines.len(), |newline| newline + 1);
                let (last, others) = lines.split_at(end);
                let length = cut.stored + last.len() as u64;
                self.work.lines_parsed += 1;
                cut.closes_long_tail = Some(LongTail {
                    rest: last.to_vec(),
                    draft: drafter.draft_oversize(&long, length),
                });
                cut.stored = 0;
                ends.add(last);
                lines = others;
            } else if cut.stored > 0 {
                // The tail in the ledger is at the front of the first line; the ledger drops it.
                cut.takes_tail = true;
                let stored = usize::try_from(cut.stored).unwrap_or(usize::MAX);
                ends.add(lines.get(stored..).unwrap_or_default());
                cut.stored = 0;
            } else {
                ends.add(lines);
            }
            while !lines.is_empty() {
                let end = memchr::memchr(b'\n', lines).map_or(lines.len(), |newline| newline + 1);
                let (line, others) = lines.split_at(end);
                lines = others;
                match old.as_deref_mut().and_then(|old| old.find(line)) {
                    Some(Found::Same(generation, old)) => {
                        cut.same(generation, old.start, old.length);
                    }
                    Some(Found::Copied(old)) => {
                        self.work.lines_parsed += 1;
                        self.builder.repeat(old.seq, old.length, drafter.draft(line));
                        cut.own(old.length);
                    }
                    None => {
                        self.work.lines_parsed += 1;
                        self.builder.record(line, drafter.draft(line))?;
                        cut.own(line.len() as u64);
                    }
                }
            }
            if self.builder.is_full() {
                let piece = self.finish_piece(&mut cut, &ends, &mut step);
                self.builder.piece(piece)?;
            }
        }
        // What stays is the tail; the part of it that the ledger has is not sent again.
        if cut.long.is_some() || cut.carry.len() > DECODE_LIMIT {
            self.store_long_tail(&mut cut, &mut ends, &mut step)?;
        } else {
            let stored = usize::try_from(cut.stored).unwrap_or(usize::MAX);
            cut.tail = cut.carry.get(stored..).unwrap_or_default().to_vec();
            ends.add(&cut.tail);
        }
        // Only a file that was read to its end is remembered with its size.
        self.stat.size = self.stat.size.min(end_of_file);
        let mut piece = self.finish_piece(&mut cut, &ends, &mut step);
        piece.is_last = true;
        self.builder.piece(piece)
    }

    /// A line that is too long for memory may still be one that the old generation has: it is read
    /// through once to see. Returns where it ends.
    fn skip_long_line(
        &mut self,
        cut: &mut Cut,
        ends: &mut Ends,
        old: &mut Option<&mut Old>,
        start: u64,
    ) -> Option<u64> {
        let Some(Old::Lines(old)) = old.as_deref_mut() else { return None };
        let mut hasher = blake3::Hasher::new();
        let mut passed = ends.clone();
        let mut buffer = vec![0; READ];
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
        let line = old.find_hashed(&hasher, at - start)?;
        cut.same(old.generation, line.start, line.length);
        cut.carry.clear();
        *ends = passed;
        Some(at)
    }

    /// Hands the beginning of a line that is too long for memory over to the ledger's tail.
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

    fn finish_piece(&self, cut: &mut Cut, ends: &Ends, step: &mut Option<Step>) -> Piece {
        let mut piece = self.piece(step.take().unwrap_or(Step::Continue), ends);
        piece.closes_long_tail = cut.closes_long_tail.take();
        piece.takes_tail = std::mem::take(&mut cut.takes_tail);
        piece.spans = std::mem::take(&mut cut.spans);
        piece.tail = std::mem::take(&mut cut.tail);
        piece
    }

    fn piece(&self, step: Step, ends: &Ends) -> Piece {
        Piece {
            job: self.number,
            step,
            is_last: false,
            closes_long_tail: None,
            takes_tail: false,
            spans: Vec::new(),
            tail: Vec::new(),
            stat: self.stat,
            prints: ends.prints(),
            is_still: self.is_still,
        }
    }

    /// Reads a whole file as one record, if it is not the version that the ledger has.
    fn document(&mut self) -> Result<()> {
        let mut began = Began::First;
        if let Some(known) = &self.job.known {
            let verified = &mut self.work.bytes_verified;
            if let Some(ends) =
                look::same_content(self.conn, self.file, &self.stat, known, verified)?
            {
                let piece = self.piece(Step::Continue, &ends);
                return self.builder.piece(piece);
            }
            began = Began::Version;
        }
        let drafter = Drafter::new(self.format, self.origin);
        let mut step = Some(Step::Begin { began, closing: None, copy_of: None });
        let mut ends = Ends::default();
        let mut cut = Cut::default();
        let mut at = 0;
        while at < self.stat.size {
            let wanted =
                (DECODE_LIMIT / 8).min(usize::try_from(self.stat.size - at).unwrap_or(READ));
            let mut bytes = vec![0; wanted];
            match self.file.read_at(&mut bytes, at) {
                Ok(0) | Err(_) => break,
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
        if at < self.stat.size {
            // It changed while we read; a document is whole or nothing. The next look tries again.
            return Ok(());
        }
        self.work.lines_parsed += 1;
        if let Some(head) = cut.long.take() {
            let rest = std::mem::take(&mut cut.carry);
            let draft = drafter.draft_oversize(&head, at);
            cut.closes_long_tail = Some(LongTail { rest, draft });
        } else if let Some(generation) = self.same_version(&cut.carry)? {
            cut.same(generation, 0, cut.carry.len() as u64);
        } else if !cut.carry.is_empty() {
            self.builder.record(&cut.carry, drafter.draft(&cut.carry))?;
            cut.own(cut.carry.len() as u64);
        }
        let mut piece = self.finish_piece(&mut cut, &ends, &mut step);
        piece.is_last = true;
        self.builder.piece(piece)
    }

    /// An earlier version of the document that holds the same bytes.
    fn same_version(&self, bytes: &[u8]) -> Result<Option<GenerationId>> {
        let Some(known) = self.job.known.as_ref().filter(|_| !bytes.is_empty()) else {
            return Ok(None);
        };
        let versions: Vec<GenerationId> = self
            .conn
            .prepare_cached(
                "SELECT id FROM generations WHERE source = ?1 AND cursor = ?2 AND tail_length = 0",
            )?
            .query_map((known.source, bytes.len() as i64), |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for version in versions {
            let mut rest = Some(bytes);
            spans::stream(self.conn, version, &mut |part| {
                rest = rest.and_then(|rest| rest.strip_prefix(part));
                Ok(())
            })?;
            if rest.is_some_and(<[u8]>::is_empty) {
                return Ok(Some(version));
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

/// What a new file is a copy of.
struct Original {
    generation: GenerationId,
    is_same_session: bool,
}

/// Lines that the ledger has already.
enum Old {
    /// Of the same session: they are not records again.
    Lines(OldLines),
    /// Of another session: they are records of this one too, but their bytes are not stored again.
    Copied(OldLines),
}

/// Where a line stands already.
enum Found {
    Same(GenerationId, OldLine),
    Copied(OldLine),
}

impl Old {
    fn find(&mut self, line: &[u8]) -> Option<Found> {
        match self {
            Old::Lines(old) => {
                let generation = old.generation;
                old.find(line).map(|line| Found::Same(generation, line))
            }
            Old::Copied(old) => old.find(line).map(Found::Copied),
        }
    }
}

/// The state of cutting a file into lines.
#[derive(Default)]
struct Cut {
    /// Bytes after the last newline.
    carry: Vec<u8>,
    /// How many of them the ledger has as tail.
    stored: u64,
    /// The line is too long for memory; this is its head. `carry` holds what the ledger lacks.
    long: Option<Vec<u8>>,
    spans: Vec<SpanPlan>,
    tail: Vec<u8>,
    takes_tail: bool,
    closes_long_tail: Option<LongTail>,
}

impl Cut {
    fn own(&mut self, line: u64) {
        if let Some(SpanPlan::Own { records, length }) = self.spans.last_mut() {
            *records += 1;
            *length += line;
        } else {
            self.spans.push(SpanPlan::Own { records: 1, length: line });
        }
    }

    fn same(&mut self, from: GenerationId, from_start: u64, line: u64) {
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

/// The unterminated tail that the ledger has of a file.
#[derive(Default)]
struct Tail {
    /// Empty if it is too long for memory.
    bytes: Vec<u8>,
    length: u64,
    long_head: Option<Vec<u8>>,
}

impl Tail {
    fn load(conn: &Connection, known: &Known) -> Result<Tail> {
        if known.tail_length == 0 {
            return Ok(Tail::default());
        }
        let is_long = known.tail_length > DECODE_LIMIT as u64;
        let bytes =
            tail_bytes(conn, known.generation, if is_long { OVERSIZE_HEAD } else { usize::MAX })?;
        Ok(if is_long {
            Tail { bytes: Vec::new(), length: known.tail_length, long_head: Some(bytes) }
        } else {
            Tail { bytes, length: known.tail_length, long_head: None }
        })
    }
}

/// At most `longest` bytes of a tail.
fn tail_bytes(conn: &Connection, generation: GenerationId, longest: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    spans::stream_tail(conn, generation, &mut |part| {
        let wanted = longest - bytes.len();
        bytes.extend_from_slice(part.get(..wanted).unwrap_or(part));
        Ok(())
    })?;
    Ok(bytes)
}

/// What the unterminated tail of a generation says that gets no newline any more.
pub(crate) fn closing(
    conn: &Connection,
    format: &'static dyn Format,
    origin: &Origin,
    known: &Known,
) -> Result<Option<Draft>> {
    if known.tail_length == 0 {
        return Ok(None);
    }
    let drafter = Drafter::new(format, origin);
    if known.tail_length > DECODE_LIMIT as u64 {
        let head = tail_bytes(conn, known.generation, OVERSIZE_HEAD)?;
        return Ok(Some(drafter.draft_oversize(&head, known.tail_length)));
    }
    let mut draft = drafter.draft(&tail_bytes(conn, known.generation, usize::MAX)?);
    mark_unterminated(&mut draft, origin.part);
    Ok(Some(draft))
}
