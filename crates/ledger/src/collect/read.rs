//! Reads one file: opens it safely, decides what happened to it, and turns its new bytes into
//! pieces. Never writes; what it needs of the ledger it reads through a connection of its own.
//!
//! Memory is bounded by the longest line that is decoded whole (32 MiB): a longer one is passed on
//! in pieces, through the tail in the ledger.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use quipu_transcript::entry::{Entry, Kind, Says};
use quipu_transcript::format::{Format, Framing, Origin, Part};
use quipu_transcript::record;
use rusqlite::Connection;

use super::batch::{Builder, Ends, Piece, Step};
use super::copies::SessionLines;
use super::decompress::{self, Unfolded};
use super::discover::{Reason, RootPath, Stat};
use super::known::HEAD;
use super::lines::Cut;
use super::look;
use super::plan::Job;
use super::view::View;
use crate::base::foreign::{self, FileId, Meta};
use crate::base::paths::absolute;
use crate::truth::chunks::RecordReader;
use crate::truth::damaged::Damage;
use crate::truth::forgotten::Forgotten;
use crate::truth::forgotten::shared_lines::Judge;
use crate::{Error, Result};

/// How much is read at once.
pub(super) const READ: usize = 64 << 10;

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
    pub(crate) chunks_opened: u64,
    pub(crate) old_lines: u64,
}

/// Why a file was not read.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    Skipped(Reason),
}

/// The ledger, as readers see it.
pub(crate) struct Held<'a, 'b> {
    pub(crate) conn: &'a Connection,
    /// Reads what it holds of files, one after another.
    pub(crate) records: &'a RefCell<RecordReader<'b>>,
    /// Lines that it holds of the session that was read last.
    pub(crate) copies: &'a RefCell<SessionLines>,
    /// Where it lies, and where files are decompressed.
    pub(crate) folder: &'a Path,
    /// Whose sessions are not read.
    pub(crate) forgotten: &'a Forgotten,
}

/// What to read.
pub(crate) struct Source<'a> {
    pub(crate) format: &'static dyn Format,
    pub(crate) job: &'a Job,
    /// The job's number.
    pub(crate) number: usize,
}

/// Reads one file and hands its pieces to `builder`.
pub(crate) fn read<'b>(
    ledger: &Held<'_, 'b>,
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
        let plain = match decompress::unfold(&file, stat.size, ledger.folder) {
            Ok(Unfolded::Whole(plain)) => plain,
            Ok(Unfolded::Damaged(plain, why)) => {
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
    let judge = Judge::new(ledger.forgotten, format, &origin);
    let file = match View::of(file, length, judge.as_ref(), work) {
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
        judge,
        forgotten: ledger.forgotten,
    };
    match (reader.read(), reader.damage) {
        (Err(Error::Source(error)), _) => {
            Ok(Outcome::Skipped(Reason::Unreadable(error.to_string())))
        }
        (Ok(Outcome::Done), Some(damage)) => Ok(Outcome::Skipped(Reason::Damaged(damage.text()))),
        (outcome, _) => outcome,
    }
}

/// The first kilobyte of what a file holds, or all of it.
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

/// The first `length` bytes of what a file holds, if there are so many.
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

/// The session that a file belongs to, by its path or else by the header that it begins with.
pub(crate) fn session_of(format: &dyn Format, origin: &Origin, head: &[u8]) -> Option<String> {
    if origin.session.is_some() {
        return origin.session.clone();
    }
    let line = head.split(|byte| *byte == b'\n').next()?;
    let mut session = None;
    record::read(format, origin, line, &mut |entry| {
        session = session.take().or(entry.says.iter().find_map(|said| match said {
            Says::SessionId(id) => Some(id.to_string()),
            _ => None,
        }));
    });
    session
}

fn is_still(stat: &Stat) -> bool {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX));
    now.saturating_sub(stat.mtime_ns) > i64::try_from(STILL.as_nanos()).unwrap_or(i64::MAX)
}

/// One file that is being read.
pub(super) struct Reader<'a, 'b> {
    pub(super) conn: &'a Connection,
    pub(super) records: &'a RefCell<RecordReader<'b>>,
    pub(super) copies: &'a RefCell<SessionLines>,
    pub(super) format: &'static dyn Format,
    pub(super) origin: &'a Origin,
    pub(super) file: &'a View,
    /// Of the file on disk.
    pub(super) stat: Stat,
    /// How many bytes there are to read.
    pub(super) length: u64,
    pub(super) is_compressed: bool,
    /// The file on disk, if that is compressed.
    pub(super) compressed: Option<File>,
    /// Why there are not more of them.
    pub(super) damage: Option<Damage>,
    pub(super) job: &'a Job,
    pub(super) number: usize,
    pub(super) builder: &'a mut Builder<'b>,
    pub(super) work: &'a mut Work,
    pub(super) is_still: bool,
    /// Set if lines of forgotten sessions may be among those of others.
    pub(super) judge: Option<Judge<'a>>,
    pub(super) forgotten: &'a Forgotten,
}

impl Reader<'_, '_> {
    /// Reads it as what it is.
    fn read(&mut self) -> Result<Outcome> {
        if self.forgotten.concerns(self.format) && self.is_forgotten()? {
            return Ok(Outcome::Skipped(Reason::Forgotten));
        }
        let is_known = self.job.known.as_ref().is_some_and(|known| known.refused.is_none());
        if self.job.is_probe && !is_known && !self.probe()? {
            self.refuse("no line of it is a record")?;
            return Ok(Outcome::Skipped(Reason::NotATranscript));
        }
        match self.origin.part.framing() {
            Framing::Lines => self.lines()?,
            Framing::Document => self.document()?,
            Framing::Index => self.index()?,
            // Databases are no files of bytes: `rows` reads them.
            Framing::Rows => {}
        }
        Ok(Outcome::Done)
    }

    /// Whether one of the first lines is a record of this format.
    fn probe(&mut self) -> Result<bool> {
        self.any_first_entry(&mut |entry| !matches!(entry.kind, Kind::Unknown))
    }

    /// Whether it belongs to a forgotten session although its path does not say so.
    fn is_forgotten(&mut self) -> Result<bool> {
        let forgotten = self.forgotten;
        Ok(self.is_forgotten_by_header(forgotten)?
            || (self.origin.part == Part::Agent && self.works_for(forgotten)?))
    }

    /// Whether the header of a transcript whose path names no session names a forgotten one.
    fn is_forgotten_by_header(&self, forgotten: &Forgotten) -> Result<bool> {
        if self.origin.session.is_some() || !self.origin.part.is_transcript() {
            return Ok(false);
        }
        let agent = self.origin.agent.as_deref().unwrap_or_default();
        let session = session_of(self.format, self.origin, &self.head()?);
        Ok(session.is_some_and(|session| forgotten.has(self.format.name(), agent, &session)))
    }

    /// Whether an agent that lies beside its session, not below it, says that it works for a
    /// forgotten one.
    fn works_for(&mut self, forgotten: &Forgotten) -> Result<bool> {
        let agent = self.origin.agent.clone().unwrap_or_default();
        let name = self.format.name();
        self.any_first_entry(&mut |entry| {
            entry.says.iter().any(
                |says| matches!(says, Says::ParentSession(id) if forgotten.has(name, &agent, id)),
            )
        })
    }

    /// Whether one of the first entries is such a one.
    fn any_first_entry(&mut self, is_such: &mut dyn FnMut(&Entry<'_>) -> bool) -> Result<bool> {
        let mut head = vec![0; PROBE.min(usize::try_from(self.length).unwrap_or(PROBE))];
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

    /// Remembers that nothing is collected from the file, so that it is not looked at again.
    fn refuse(&mut self, why: &'static str) -> Result<()> {
        let mut piece = self.piece(Step::Refuse(why), &Ends::default());
        piece.stat = self.stat;
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

    /// The last piece of a file that was read up to `end`. Only a file that was read to its end is
    /// remembered with its size.
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
