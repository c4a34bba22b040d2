//! Writes sessions to any writer.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;

use quipu_ledger::export::{self, Transcript, transcripts};
use quipu_ledger::ids::SessionRow;
use quipu_ledger::query::{Choice, Story};
use quipu_ledger::wire::Session;
use quipu_ledger::{Error, Ledger, Trouble};
use quipu_transcript::redact::Redactor;
use quipu_transcript::render::Header;
use quipu_transcript::story::StoryDetail;

use super::kind::Kind;
use crate::error::CommandError;
use crate::output::Output;

/// The reason why a session was not written.
#[derive(Debug)]
pub(super) enum Failure {
    /// The session could not be read.
    Ledger(Error),
    /// The output could not be written.
    Out(io::Error),
}

impl Failure {
    /// Returns whether the ledger is damaged at this session; others may be intact.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Failure::Ledger(error) if error.trouble() == Trouble::Damaged)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Ledger(error) => error.fmt(f),
            Failure::Out(error) => error.fmt(f),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Ledger(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Out(error)
    }
}

/// Used only for writing to standard output.
impl From<Failure> for CommandError {
    fn from(failure: Failure) -> CommandError {
        match failure {
            Failure::Ledger(error) => error.into(),
            Failure::Out(error) => error.into(),
        }
    }
}

type Result<T, E = Failure> = std::result::Result<T, E>;

/// Writes sessions in one format.
pub(super) struct Exporter<'l> {
    ledger: &'l Ledger,
    pub(super) kind: Kind,
    detail: StoryDetail,
    redactor: Option<Redactor>,
}

impl<'l> Exporter<'l> {
    pub(super) fn new(
        ledger: &'l Ledger,
        kind: Kind,
        detail: StoryDetail,
        redacts: bool,
    ) -> Exporter<'l> {
        Exporter { ledger, kind, detail, redactor: redacts.then(Redactor::new) }
    }

    pub(super) fn ledger(&self) -> &'l Ledger {
        self.ledger
    }

    pub(super) fn redacts(&self) -> bool {
        self.redactor.is_some()
    }

    pub(super) fn redactor(&self) -> Option<&Redactor> {
        self.redactor.as_ref()
    }

    /// Returns how many secrets of each kind were masked.
    pub(super) fn redacted(&self) -> Option<BTreeMap<String, u32>> {
        let redactor = self.redactor.as_ref()?;
        Some(redactor.counts().map(|(kind, count)| (kind.to_owned(), count)).collect())
    }

    /// Lets the redactor learn the secrets of a session.
    pub(super) fn learn(&mut self, row: SessionRow, session: &Session) -> Result<()> {
        let Some(redactor) = &mut self.redactor else { return Ok(()) };
        if self.kind != Kind::Csv {
            let story = Story::open(self.ledger, row)?;
            let everything = Choice { detail: StoryDetail::FULL, ..Choice::default() };
            story.each_item(&everything, &mut |item| {
                redactor.mask_item(item);
                ControlFlow::Continue(())
            })?;
            if self.kind == Kind::Jsonl {
                for transcript in transcripts(self.ledger, row)? {
                    let mut lines = Lines::default();
                    transcript.stream(self.ledger, &mut |part| {
                        lines.each(part, &mut |line| {
                            redactor.mask_record(line);
                            Ok(())
                        })
                    })?;
                    lines.end(&mut |line| {
                        redactor.mask_record(line);
                        Ok(())
                    })?;
                }
            }
        }
        // The row holds cut texts, so it is masked after the secrets are known.
        export::mask_session(session, redactor);
        Ok(())
    }

    /// Ends learning.
    pub(super) fn end_learning(&mut self) {
        if let Some(redactor) = &mut self.redactor {
            redactor.rebuild_finder();
        }
    }

    /// Returns a session's row with secrets masked.
    pub(super) fn seen(&mut self, session: &Session) -> Session {
        match &mut self.redactor {
            Some(redactor) => export::mask_session(session, redactor),
            None => session.clone(),
        }
    }

    /// Returns a session's header with secrets masked.
    pub(super) fn header(&mut self, session: &Session, story: Option<&Story<'_>>) -> Header {
        let header = export::header(&self.seen(session), story.map(Story::head));
        match &mut self.redactor {
            Some(redactor) => header.masked(redactor),
            None => header,
        }
    }

    /// Writes one session, or a table of them. Returns how many files of the session were left out.
    pub(super) fn write_all(
        &mut self,
        sessions: &[(SessionRow, Session)],
        out: &mut dyn Write,
    ) -> Result<usize> {
        if self.kind == Kind::Csv {
            export::csv_header(out)?;
            for (_, session) in sessions {
                let seen = self.seen(session);
                export::csv_row(&seen, out)?;
            }
            return Ok(0);
        }
        let mut more = 0;
        for (row, session) in sessions {
            if self.kind == Kind::Jsonl {
                let files = transcripts(self.ledger, *row)?;
                self.transcript(*row, files.first(), out)?;
                more += files.len().saturating_sub(1);
            } else {
                self.story(*row, session, out)?;
            }
        }
        Ok(more)
    }

    /// Writes a session's story.
    pub(super) fn story(
        &mut self,
        row: SessionRow,
        session: &Session,
        out: &mut dyn Write,
    ) -> Result<()> {
        let seen = self.seen(session);
        let Some(mut rendering) = self.kind.rendering(&seen, self.detail) else { return Ok(()) };
        let story = Story::open(self.ledger, row)?;
        rendering.begin(&self.header(session, Some(&story)), out)?;
        let choice = Choice { detail: self.detail, ..Choice::default() };
        let redactor = &mut self.redactor;
        let mut written = Ok(());
        story.each_item(&choice, &mut |item| {
            written = match redactor {
                Some(redactor) => rendering.item(&redactor.mask_item(item), out),
                None => rendering.item(item, out),
            };
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        written?;
        Ok(rendering.end(out)?)
    }

    /// Writes a file of a session byte for byte. For a session without a file, writes the records
    /// that mention it.
    pub(super) fn transcript(
        &mut self,
        row: SessionRow,
        file: Option<&Transcript>,
        out: &mut dyn Write,
    ) -> Result<()> {
        let redactor = &mut self.redactor;
        let mut lines = Lines::default();
        let mut written = Ok(());
        let mut each = |part: &[u8]| {
            written = match redactor {
                // A secret may begin in one part and end in the next.
                Some(redactor) => {
                    lines.add(part, &mut |line| out.write_all(&redactor.mask_record(line)))
                }
                None => out.write_all(part),
            };
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        match file {
            Some(file) => file.stream(self.ledger, &mut each)?,
            None => {
                let everything = Choice { detail: StoryDetail::FULL, ..Choice::default() };
                Story::open(self.ledger, row)?.raw(&everything, &mut each)?;
            }
        }
        written?;
        match redactor {
            Some(redactor) => {
                Ok(lines.end(&mut |line| out.write_all(&redactor.mask_record(line)))?)
            }
            None => Ok(()),
        }
    }
}

/// Joins parts into lines. A line includes its newline.
#[derive(Debug, Default)]
struct Lines {
    held: Vec<u8>,
}

impl Lines {
    fn add(
        &mut self,
        part: &[u8],
        each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            if !piece.ends_with(b"\n") {
                self.held.extend_from_slice(piece);
            } else if self.held.is_empty() {
                each(piece)?;
            } else {
                self.held.extend_from_slice(piece);
                each(&self.held)?;
                self.held.clear();
            }
        }
        Ok(())
    }

    fn each(
        &mut self,
        part: &[u8],
        each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> ControlFlow<()> {
        match self.add(part, each) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    fn end(&mut self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if self.held.is_empty() { Ok(()) } else { each(&std::mem::take(&mut self.held)) }
    }
}

/// Standard output. A terminal gets whole lines, escaped.
pub(super) struct Stdout<'o> {
    output: &'o mut Output,
    is_seen: bool,
    lines: Lines,
}

impl<'o> Stdout<'o> {
    pub(super) fn new(output: &'o mut Output) -> Stdout<'o> {
        let is_seen = output.is_seen();
        Stdout { output, is_seen, lines: Lines::default() }
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        let output = &mut self.output;
        self.lines.end(&mut |line| output.exact(line))
    }
}

impl Write for Stdout<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let output = &mut self.output;
        if self.is_seen {
            self.lines.add(bytes, &mut |line| output.exact(line))?;
        } else {
            output.exact(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use quipu_ledger::collect::{RootPath, Selection};
    use quipu_transcript::format;

    use super::*;

    /// A writer that records the length of the longest write.
    #[derive(Default)]
    struct Largest {
        all: usize,
        most: usize,
    }

    impl Write for Largest {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.all += bytes.len();
            self.most = self.most.max(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_long_line_is_written_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = folder.path().join("agents/main/sessions");
        std::fs::create_dir_all(&sessions).unwrap();
        let line = format!(
            "{{\"type\":\"message\",\"id\":\"a\",\"parentId\":null,\"message\":{{\"role\":\"user\",\"content\":\"{}\"}}}}\n",
            "words ".repeat((12 << 20) / 6)
        );
        std::fs::write(sessions.join("s1.jsonl"), &line).unwrap();
        let root = RootPath {
            format: format::by_name("openclaw").unwrap(),
            path: folder.path().to_owned(),
            selection: Selection::default(),
            retention: Default::default(),
        };
        let mut ledger = Ledger::open_to_collect(&folder.path().join("ledger.db")).unwrap();
        quipu_ledger::collect::collect(&mut ledger, &[root], &mut |_| {}).unwrap();
        let row = quipu_ledger::query::find_session(&ledger, "s1").unwrap();
        let files = transcripts(&ledger, row).unwrap();
        for file in [files.first(), None] {
            let mut out = Largest::default();
            Exporter::new(&ledger, Kind::Jsonl, StoryDetail::default(), false)
                .transcript(row, file, &mut out)
                .unwrap();
            assert_eq!(out.all, line.len());
            assert!(out.most <= 2 << 20, "{} bytes at once", out.most);
        }
    }
}
