//! Reads one file: opens it safely, decides how it changed, and turns its new bytes into pieces.
//! Never writes, and reads the ledger through its own connection.
//!
//! Memory is bounded by the longest line that is decoded whole (32 MiB). A longer line is passed on
//! in pieces, through the tail in the ledger.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use quipu_transcript::entry::{Entry, Kind, SessionFact};
use quipu_transcript::format::{Format, Framing, Origin};
use quipu_transcript::record;
use rusqlite::Connection;

use super::batch::{Builder, Ends, Piece, Step};
use super::copies::SessionLines;
use super::decompress::{self, Decompressed};
use super::discover::{Reason, RootPath};
use super::forgotten::{FileGate, Gate};
use super::known::HEAD;
use super::lines::Cut;
use super::look;
use super::plan::Job;
use super::view::View;
use crate::base::foreign::{self, FileId, Meta};
use crate::base::paths::absolute;
use crate::truth::chunks::RecordReader;
use crate::truth::damaged::Damage;
use crate::truth::sources::Stat;
use crate::{Error, Result};

/// The number of bytes read at once.
pub(super) const READ_BYTES: usize = 64 << 10;

/// The number of bytes read of a file with an unknown name to see whether it is a transcript.
const PROBE_BYTES: usize = 64 << 10;

/// The time without a write after which a file is not in the middle of a line.
const MIN_UNCHANGED_TIME: Duration = Duration::from_secs(5);

/// Counts of work that do not depend on the machine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    pub(crate) bytes_read: u64,
    pub(crate) bytes_verified: u64,
    pub(crate) lines_parsed: u64,
    pub(crate) chunks_opened: u64,
    pub(crate) old_lines: u64,
}

/// The result of reading a file.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    Skipped(Reason),
}

/// The reader's access to the ledger.
pub(crate) struct LedgerAccess<'a, 'b> {
    pub(crate) conn: &'a Connection,
    /// Reads the ledger's records of files, one after another.
    pub(crate) records: &'a RefCell<RecordReader<'b>>,
    /// The ledger's lines of the session that was read last.
    pub(crate) copies: &'a RefCell<SessionLines>,
    /// The ledger's folder, in which files are decompressed.
    pub(crate) folder: &'a Path,
    /// Keeps forgotten sessions out.
    pub(crate) gate: &'a Gate,
}

/// The file to read.
pub(crate) struct Source<'a> {
    pub(crate) format: &'static dyn Format,
    pub(crate) job: &'a Job,
    /// The number of the job.
    pub(crate) number: usize,
}

/// Reads one file and hands its pieces to `builder`.
pub(crate) fn read<'b>(
    ledger: &LedgerAccess<'_, 'b>,
    &Source { format, job, number }: &Source<'_>,
    builder: &mut Builder<'b>,
    work: &mut Work,
) -> Result<Outcome> {
    let file = match foreign::open(&job.root_path, &job.absolute, job.file) {
        Ok(file) => file,
        Err(error) => return Ok(Outcome::Skipped(Reason::Unreadable(error.to_string()))),
    };
    let stat = match Meta::of_file(&file) {
        Ok(meta) => Stat::of(&meta),
        Err(error) => return Ok(Outcome::Skipped(Reason::Unreadable(error.to_string()))),
    };
    let is_compressed = format.is_compressed(&job.path);
    let (mut compressed, mut damage) = (None, None);
    let (file, length) = if is_compressed {
        let plain = match decompress::to_plain_file(&file, stat.size, ledger.folder) {
            Ok(Decompressed::Whole(plain)) => plain,
            Ok(Decompressed::Damaged(plain, why)) => {
                damage = Some(Damage { why: why.to_owned(), length: stat.size });
                plain
            }
            Err(error) => {
                let why = format!("cannot be decompressed: {error}");
                return Ok(Outcome::Skipped(Reason::Unreadable(why)));
            }
        };
        compressed = Some(file);
        (plain.file, plain.length)
    } else {
        (file, stat.size)
    };
    let first_path = job.known.as_ref().map_or(&job.path, |known| &known.first_path);
    let origin = format.origin(first_path);
    let gate = ledger.gate.file(format, &origin);
    let file = match View::of(file, length, gate, work) {
        Ok(file) => file,
        Err(error) => return Ok(Outcome::Skipped(Reason::Unreadable(error.to_string()))),
    };
    let mut reader = Reader {
        conn: ledger.conn,
        records: ledger.records,
        copies: ledger.copies,
        format,
        origin: &origin,
        file: &file,
        stat,
        length,
        is_compressed,
        compressed,
        damage,
        job,
        number,
        builder,
        work,
        is_still: is_still(&stat),
        gate,
    };
    match (reader.read(), reader.damage) {
        (Err(Error::Source(error)), _) => {
            Ok(Outcome::Skipped(Reason::Unreadable(error.to_string())))
        }
        (Ok(Outcome::Done), Some(damage)) => Ok(Outcome::Skipped(Reason::Damaged(damage.text()))),
        (outcome, _) => outcome,
    }
}

/// Returns the first [`HEAD`] bytes of a file's decompressed contents, or all of them.
pub(crate) fn head(format: &dyn Format, job: &Job) -> Vec<u8> {
    let Ok(file) = foreign::open(&job.root_path, &job.absolute, job.file) else {
        return Vec::new();
    };
    if format.is_compressed(&job.path) {
        return decompress::head(&file, HEAD);
    }
    let mut head = vec![0; HEAD.min(usize::try_from(job.size).unwrap_or(HEAD))];
    if file.read_exact_at(&mut head, 0).is_ok() { head } else { Vec::new() }
}

/// Returns the first `length` bytes of a file's decompressed contents, if there are that many.
pub(crate) fn head_of(
    root: &RootPath,
    relative: &[u8],
    vetted: FileId,
    length: usize,
) -> Option<Vec<u8>> {
    let file = foreign::open(&root.path, &absolute(&root.path, relative), vetted).ok()?;
    let head = if root.format.is_compressed(relative) {
        decompress::head(&file, length)
    } else {
        let mut head = vec![0; length];
        file.read_exact_at(&mut head, 0).ok()?;
        head
    };
    (head.len() == length).then_some(head)
}

/// Returns the session of a file, by its path or else by the header in its first line.
pub(crate) fn session_of(format: &dyn Format, origin: &Origin, head: &[u8]) -> Option<String> {
    if origin.session.is_some() {
        return origin.session.clone();
    }
    let line = head.split(|byte| *byte == b'\n').next()?;
    let mut session = None;
    record::read(format, origin, line, &mut |entry| {
        session = session.take().or(entry.facts.iter().find_map(|fact| match fact {
            SessionFact::SessionId(id) => Some(id.to_string()),
            _ => None,
        }));
    });
    session
}

fn is_still(stat: &Stat) -> bool {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX));
    now.saturating_sub(stat.mtime_ns)
        > i64::try_from(MIN_UNCHANGED_TIME.as_nanos()).unwrap_or(i64::MAX)
}

/// A file that is being read.
pub(super) struct Reader<'a, 'b> {
    pub(super) conn: &'a Connection,
    pub(super) records: &'a RefCell<RecordReader<'b>>,
    pub(super) copies: &'a RefCell<SessionLines>,
    pub(super) format: &'static dyn Format,
    pub(super) origin: &'a Origin,
    pub(super) file: &'a View,
    /// The metadata of the file on disk.
    pub(super) stat: Stat,
    /// The number of bytes to read.
    pub(super) length: u64,
    pub(super) is_compressed: bool,
    /// The file on disk, if it is compressed.
    pub(super) compressed: Option<File>,
    /// The reason why the decompressed bytes end early.
    pub(super) damage: Option<Damage>,
    pub(super) job: &'a Job,
    pub(super) number: usize,
    pub(super) builder: &'a mut Builder<'b>,
    pub(super) work: &'a mut Work,
    pub(super) is_still: bool,
    pub(super) gate: FileGate<'a>,
}

impl Reader<'_, '_> {
    /// Reads the file according to its framing.
    fn read(&mut self) -> Result<Outcome> {
        if self.is_forgotten()? {
            return Ok(Outcome::Skipped(Reason::Forgotten));
        }
        if self.job.is_probe && !self.probe()? {
            // A source that has records keeps its state, so that the next sync checks again.
            if self.job.known.as_ref().is_none_or(|known| known.refused.is_some()) {
                self.refuse("it has no record")?;
            }
            return Ok(Outcome::Skipped(Reason::NotATranscript));
        }
        match self.origin.part.framing() {
            Framing::Lines => self.lines()?,
            Framing::Document => self.document()?,
            Framing::Index => self.index()?,
            // Databases are read by `rows`.
            Framing::Rows => {}
        }
        Ok(Outcome::Done)
    }

    /// Returns whether one of the first lines is a record of this format.
    fn probe(&mut self) -> Result<bool> {
        self.any_first_entry(&mut |entry| !matches!(entry.kind, Kind::Unknown))
    }

    /// Returns whether one of the first entries matches.
    pub(super) fn any_first_entry(
        &mut self,
        is_such: &mut dyn FnMut(&Entry<'_>) -> bool,
    ) -> Result<bool> {
        let mut head =
            vec![0; PROBE_BYTES.min(usize::try_from(self.length).unwrap_or(PROBE_BYTES))];
        if !look::fills(self.file, &mut head, 0)? {
            return Ok(false);
        }
        self.work.bytes_verified += head.len() as u64;
        let mut is_found = false;
        for line in head.split(|byte| *byte == b'\n') {
            record::read(self.format, self.origin, line, &mut |entry| is_found |= is_such(entry));
        }
        Ok(is_found)
    }

    /// Records that nothing is collected from the file, so that it is not opened again.
    fn refuse(&mut self, why: &'static str) -> Result<()> {
        let mut piece = self.piece(Step::Refuse(why), &Ends::default());
        piece.stat = self.stat;
        piece.is_last = true;
        self.builder.piece(piece)
    }

    pub(super) fn finish_piece(
        &self,
        cut: &mut Cut,
        ends: &Ends,
        step: &mut Option<Step>,
    ) -> Piece {
        let mut piece = self.piece(step.take().unwrap_or(Step::Continue), ends);
        piece.closes_long_tail = cut.closes_long_tail.take();
        piece.takes_tail = std::mem::take(&mut cut.takes_tail);
        piece.spans = std::mem::take(&mut cut.spans);
        piece.tail = std::mem::take(&mut cut.tail);
        piece
    }

    /// Finishes a file that was read up to `end`. Its size is recorded only if it was read to its
    /// end.
    pub(super) fn finish(&mut self, mut piece: Piece, end: u64) -> Result<()> {
        piece.is_last = true;
        if !self.is_compressed {
            piece.stat.size = self.stat.size.min(end);
        } else if end == self.length {
            return self.finish_compressed(piece);
        }
        self.builder.piece(piece)
    }

    pub(super) fn piece(&self, step: Step, ends: &Ends) -> Piece {
        Piece {
            job: self.number,
            step,
            is_last: false,
            closes_long_tail: None,
            takes_tail: false,
            spans: Vec::new(),
            tail: Vec::new(),
            index: None,
            stat: if self.is_compressed { Stat { size: 0, ..self.stat } } else { self.stat },
            prints: ends.prints(),
            compressed: None,
            damage: None,
            is_still: self.is_still,
            rows: None,
        }
    }
}
