//! Writes sessions to any writer, in each format but the agents' own folders.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;

use quipu_transcript::redact::Redactor;
use quipu_transcript::render::Header;
use quipu_transcript::story::StoryDetail;

use super::{ExportKind, Transcript, transcripts};
use crate::base::ids::SessionRow;
use crate::file::ledger::Ledger;
use crate::read::query::{Choice, Story};
use crate::wire::Session;
use crate::{Error, Trouble};

/// The reason why a session was not written.
#[derive(Debug)]
pub enum ExportFailure {
    /// The session could not be read.
    Ledger(Error),
    /// The output could not be written.
    Out(io::Error),
}

impl ExportFailure {
    /// Returns whether the ledger is damaged at this session; others may be intact.
    pub fn is_damage(&self) -> bool {
        matches!(self, ExportFailure::Ledger(error) if error.trouble() == Trouble::Damaged)
    }
}

impl std::fmt::Display for ExportFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExportFailure::Ledger(error) => error.fmt(f),
            ExportFailure::Out(error) => error.fmt(f),
        }
    }
}

impl From<Error> for ExportFailure {
    fn from(error: Error) -> ExportFailure {
        ExportFailure::Ledger(error)
    }
}

impl From<io::Error> for ExportFailure {
    fn from(error: io::Error) -> ExportFailure {
        ExportFailure::Out(error)
    }
}

/// Writes sessions in one format.
pub struct Exporter<'l> {
    ledger: &'l Ledger,
    /// The format.
    pub kind: ExportKind,
    /// The entries that are written.
    choice: Choice,
    redactor: Option<Redactor>,
}

impl<'l> Exporter<'l> {
    /// Returns an exporter of sessions of `ledger`, which masks secrets if `redacts` is set.
    pub fn new(
        ledger: &'l Ledger,
        kind: ExportKind,
        choice: Choice,
        redacts: bool,
    ) -> Exporter<'l> {
        Exporter { ledger, kind, choice, redactor: redacts.then(Redactor::new) }
    }

    /// Returns the ledger.
    pub fn ledger(&self) -> &'l Ledger {
        self.ledger
    }

    /// Returns whether secrets are masked.
    pub fn redacts(&self) -> bool {
        self.redactor.is_some()
    }

    /// Returns the redactor, if secrets are masked.
    pub fn redactor(&self) -> Option<&Redactor> {
        self.redactor.as_ref()
    }

    /// Returns how many secrets of each kind were masked.
    pub fn redacted(&self) -> Option<BTreeMap<String, u32>> {
        let redactor = self.redactor.as_ref()?;
        Some(redactor.counts().map(|(kind, count)| (kind.to_owned(), count)).collect())
    }

    /// Lets the redactor learn the secrets of a session.
    pub fn learn(&mut self, row: SessionRow, session: &Session) -> Result<(), ExportFailure> {
        let Some(redactor) = &mut self.redactor else { return Ok(()) };
        if self.kind != ExportKind::Csv {
            let story = Story::open(self.ledger, row)?;
            let everything = Choice { detail: StoryDetail::FULL, ..Choice::default() };
            story.each_item(&everything, &mut |item| {
                redactor.mask_item(item);
                ControlFlow::Continue(())
            })?;
            if self.kind == ExportKind::Jsonl {
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
        // The row has shortened texts. A shortened secret is found only if the whole is known.
        super::mask_session(session, redactor);
        Ok(())
    }

    /// Prepares the search for all learned secrets, after the last [`Exporter::learn`].
    pub fn end_learning(&mut self) {
        if let Some(redactor) = &mut self.redactor {
            redactor.rebuild_finder();
        }
    }

    /// Returns a session's row with secrets masked.
    pub fn seen(&mut self, session: &Session) -> Session {
        match &mut self.redactor {
            Some(redactor) => super::mask_session(session, redactor),
            None => session.clone(),
        }
    }

    /// Returns a session's header with secrets masked.
    pub fn header(&mut self, session: &Session, story: Option<&Story<'_>>) -> Header {
        let header = super::header(&self.seen(session), story.map(Story::head));
        match &mut self.redactor {
            Some(redactor) => header.masked(redactor),
            None => header,
        }
    }

    /// Writes one session, or a table of them. Returns how many files of the session were left out.
    pub fn write_all(
        &mut self,
        sessions: &[(SessionRow, Session)],
        out: &mut dyn Write,
    ) -> Result<usize, ExportFailure> {
        if self.kind == ExportKind::Csv {
            super::csv_header(out)?;
            for (_, session) in sessions {
                let seen = self.seen(session);
                super::csv_row(&seen, out)?;
            }
            return Ok(0);
        }
        let mut more = 0;
        for (row, session) in sessions {
            if self.kind == ExportKind::Jsonl {
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
    pub fn story(
        &mut self,
        row: SessionRow,
        session: &Session,
        out: &mut dyn Write,
    ) -> Result<(), ExportFailure> {
        let seen = self.seen(session);
        let Some(mut rendering) = self.kind.rendering(&seen, self.choice.detail) else {
            return Ok(());
        };
        let story = Story::open(self.ledger, row)?;
        rendering.begin(&self.header(session, Some(&story)), out)?;
        let redactor = &mut self.redactor;
        let mut written = Ok(());
        story.each_item(&self.choice, &mut |item| {
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
    pub fn transcript(
        &mut self,
        row: SessionRow,
        file: Option<&Transcript>,
        out: &mut dyn Write,
    ) -> Result<(), ExportFailure> {
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
pub struct Lines {
    /// The beginning of a line that is not complete yet.
    unfinished: Vec<u8>,
}

impl Lines {
    /// Adds a part, and passes each line that is complete now to `each`.
    pub fn add(
        &mut self,
        part: &[u8],
        each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            if !piece.ends_with(b"\n") {
                self.unfinished.extend_from_slice(piece);
            } else if self.unfinished.is_empty() {
                each(piece)?;
            } else {
                self.unfinished.extend_from_slice(piece);
                each(&self.unfinished)?;
                self.unfinished.clear();
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

    /// Passes the rest to `each`, if there is one.
    pub fn end(&mut self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if self.unfinished.is_empty() {
            Ok(())
        } else {
            each(&std::mem::take(&mut self.unfinished))
        }
    }
}

#[cfg(test)]
mod tests {
    use quipu_transcript::format;

    use super::*;
    use crate::collect::{RootPath, Selection};

    /// A writer that records the length of the longest write.
    #[derive(Default)]
    struct Largest {
        total: usize,
        longest: usize,
    }

    impl Write for Largest {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.total += bytes.len();
            self.longest = self.longest.max(bytes.len());
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
        crate::collect::collect(&mut ledger, &[root], &mut |_| {}).unwrap();
        let row = crate::query::find_session(&ledger, "s1").unwrap();
        let files = transcripts(&ledger, row).unwrap();
        for file in [files.first(), None] {
            let mut out = Largest::default();
            Exporter::new(&ledger, ExportKind::Jsonl, Choice::default(), false)
                .transcript(row, file, &mut out)
                .unwrap();
            assert_eq!(out.total, line.len());
            assert!(out.longest <= 2 << 20, "{} bytes at once", out.longest);
        }
    }
}
