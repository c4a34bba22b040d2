//! Turns the events of one session, or the lines of one archive, into pieces for the writer. Lines
//! that the ledger has already, from before a rewrite or from another source of the session, are
//! not stored again.

use quipu_transcript::format::{Format, Origin};
use quipu_transcript::record::{DECODE_LIMIT, OVERSIZE_HEAD};
use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::ids::GenerationId;
use crate::collect::batch::{Began, Builder, Piece, RowCursor, SpanPlan, Step};
use crate::collect::known::{HEAD, KnownSource, fingerprint};
use crate::collect::lines::Cut;
use crate::collect::read::Work;
use crate::collect::rewrite::OldLines;
use crate::project::draft::{Draft, Drafter, mark_unterminated};
use crate::project::session_sources;
use crate::truth::damaged::{Compressed, Damage, PIECE_BYTES};
use crate::truth::sources::{Print, Prints, Stat};
use crate::truth::spans;

/// A session or archive that is being read.
pub(super) struct Cutting<'a> {
    job: usize,
    origin: &'a Origin,
    drafter: Drafter<'a>,
    step: Option<Step>,
    /// The generation before this one. Its lines do not become records again.
    previous: Option<OldLines>,
    /// Lines of the session in the ledger. They become records of this source too, without bytes.
    pub(super) others: Option<&'a mut OldLines>,
    cut: Cut,
    ends: RowEnds,
    /// The number of bytes that the writer has or was sent.
    at: u64,
    pub(super) rows: RowCursor,
    /// The time of the last event, in nanoseconds.
    pub(super) written_ns: i64,
    /// True if the writer has to be sent another piece.
    pub(super) has_news: bool,
}

impl<'a> Cutting<'a> {
    /// Begins a source, or a new generation of it.
    pub(super) fn begin(
        job: usize,
        format: &'static dyn Format,
        origin: &'a Origin,
        began: Began,
        previous: Option<OldLines>,
    ) -> Cutting<'a> {
        Cutting {
            job,
            origin,
            drafter: Drafter::new(format, origin),
            step: Some(Step::Begin { began, closing: None, copy_of: None }),
            previous,
            others: None,
            cut: Cut::default(),
            ends: RowEnds::default(),
            at: 0,
            rows: RowCursor { rewrite: String::new(), last_row: i64::MIN, rows: 0 },
            written_ns: 0,
            has_news: false,
        }
    }

    /// Continues where the ledger ends.
    pub(super) fn resume(
        job: usize,
        format: &'static dyn Format,
        origin: &'a Origin,
        conn: &Connection,
        known: &KnownSource,
        rows: RowCursor,
    ) -> Result<Cutting<'a>> {
        let mut cutting = Cutting::begin(job, format, origin, Began::First, None);
        cutting.step = None;
        cutting.ends = RowEnds::of(conn, known)?;
        cutting.at = known.cursor;
        cutting.rows = rows;
        cutting.written_ns = known.stat.mtime_ns;
        Ok(cutting)
    }

    /// Adds one event or line. `number` is the number of its row.
    pub(super) fn line(
        &mut self,
        line: &[u8],
        number: Option<i64>,
        builder: &mut Builder<'_>,
        work: &mut Work,
    ) -> Result<()> {
        work.bytes_read += line.len() as u64;
        self.has_news = true;
        self.ends.add(line);
        self.rows.rows += 1;
        if let Some(number) = number {
            self.rows.last_row = number;
        }
        if let Some(previous) = &mut self.previous
            && let Some(old) = previous.find(line)
        {
            self.cut.same(old.generation, old.start, old.length);
            return Ok(());
        }
        work.lines_parsed += 1;
        let draft = self.draft(line);
        match self.others.as_mut().and_then(|others| others.find(line)) {
            Some(old) => builder.repeat(old.seq, old.length, draft),
            None => builder.record(line, draft)?,
        }
        if let Some(number) = number {
            builder.row(number);
        }
        self.cut.own(line.len() as u64);
        Ok(())
    }

    fn draft(&self, line: &[u8]) -> Draft {
        if line.len() > DECODE_LIMIT {
            let head = line.get(..OVERSIZE_HEAD).unwrap_or(line);
            return self.drafter.draft_oversize(head, line.len() as u64);
        }
        let mut draft = self.drafter.draft(line);
        if line.last() != Some(&b'\n') {
            mark_unterminated(&mut draft, self.origin.part);
        }
        draft
    }

    /// Sends the gathered lines to the writer.
    pub(super) fn piece(&mut self, is_last: bool, builder: &mut Builder<'_>) -> Result<()> {
        let piece = self.take(is_last);
        builder.piece(piece)
    }

    /// Ends an archive that cannot be decompressed to its end, and stores its compressed bytes. Its
    /// stored size exceeds what was read, so it is read again when the database changes.
    pub(super) fn damaged(
        &mut self,
        why: &'static str,
        bytes: &[u8],
        builder: &mut Builder<'_>,
    ) -> Result<()> {
        self.piece(false, builder)?;
        let mut start = 0;
        for part in bytes.chunks(PIECE_BYTES) {
            let mut piece = self.take(false);
            piece.compressed = Some(Compressed::Piece(start, part.to_vec()));
            builder.piece(piece)?;
            start += part.len() as u64;
        }
        let mut last = self.take(false);
        last.is_last = true;
        last.damage = Some(Damage { why: why.to_owned(), length: bytes.len() as u64 });
        builder.piece(last)
    }

    fn take(&mut self, is_last: bool) -> Piece {
        let spans = std::mem::take(&mut self.cut.spans);
        self.at += spans.iter().map(SpanPlan::length).sum::<u64>();
        // The stored size of an unfinished generation exceeds what was read of it.
        let size = if is_last { self.at } else { self.at + 1 };
        Piece {
            job: self.job,
            step: self.step.take().unwrap_or(Step::Continue),
            is_last,
            closes_long_tail: None,
            takes_tail: false,
            spans,
            tail: Vec::new(),
            stat: Stat { device: 0, inode: 0, size, mtime_ns: self.written_ns, ctime_ns: 0 },
            prints: self.ends.prints(),
            is_still: true,
            rows: Some(self.rows.clone()),
            index: None,
            compressed: None,
            damage: None,
        }
    }
}

/// Fingerprints of a session's first bytes and of its last row.
#[derive(Debug, Default)]
struct RowEnds {
    head: Vec<u8>,
    /// Set once the head is complete.
    head_print: Option<Print>,
    last: Print,
}

impl RowEnds {
    fn of(conn: &Connection, known: &KnownSource) -> Result<RowEnds> {
        let mut ends = RowEnds { last: known.marker, ..RowEnds::default() };
        if known.head_length >= HEAD {
            ends.head_print = Some(known.head);
        } else {
            // The whole session is shorter than a head.
            spans::stream(conn, known.generation, &mut |part| {
                ends.head.extend_from_slice(part);
                Ok(())
            })?;
        }
        Ok(ends)
    }

    fn add(&mut self, line: &[u8]) {
        self.last = fingerprint(line);
        if self.head_print.is_none() {
            let missing = HEAD.saturating_sub(self.head.len());
            self.head.extend_from_slice(line.get(..missing).unwrap_or(line));
        }
    }

    fn prints(&self) -> Prints {
        match self.head_print {
            Some(head) => Prints { head, head_length: HEAD, marker: self.last },
            None => Prints {
                head: fingerprint(&self.head),
                head_length: self.head.len(),
                marker: self.last,
            },
        }
    }
}

/// Returns the current lines of other sources of the session, and the lines of this source's
/// generation before its newest: the newest has few lines if the session was rewritten while it was
/// read.
pub(super) fn other_lines(
    conn: &Connection,
    format: &dyn Format,
    origin: &Origin,
    known: Option<&KnownSource>,
    work: &mut Work,
) -> Result<OldLines> {
    let (agent, id) = (origin.agent.as_deref(), origin.session.as_deref());
    let session = session_sources::find(
        conn,
        format.name(),
        agent.unwrap_or_default(),
        id.unwrap_or_default(),
    )?;
    let sources = match session {
        Some(session) => session_sources::of_part(conn, session, origin.part.as_str())?,
        None => Vec::new(),
    };
    let mut generations: Vec<GenerationId> = Vec::new();
    for source in sources {
        if known.is_some_and(|known| known.source == source) {
            continue;
        }
        let newest: Option<Option<GenerationId>> = conn
            .prepare_cached("SELECT generation FROM sources WHERE id = ?1 AND refused IS NULL")?
            .query_row([source], |row| row.get(0))
            .optional()?;
        generations.extend(newest.flatten());
    }
    if let Some(known) = known {
        let before = conn
            .prepare_cached("SELECT id FROM generations WHERE source = ?1 AND number = ?2")?
            .query_row((known.source, known.number - 1), |row| row.get(0))
            .optional()?;
        generations.extend::<Option<GenerationId>>(before);
    }
    let mut lines = OldLines::default();
    for generation in generations {
        lines.read(conn, generation, u64::MAX, work)?;
    }
    Ok(lines)
}
