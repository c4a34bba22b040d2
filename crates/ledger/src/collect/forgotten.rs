//! Keeps forgotten sessions out of collecting. Other files of this layer ask about forgotten
//! sessions only here; a test fails if one of them uses `truth::forgotten`.
//!
//! The steps, in the order of a sync:
//! - planning leaves out paths that name a forgotten session, and sources that belong to one;
//! - a reader leaves out a file whose first lines name one ([`Reader::is_forgotten`]);
//! - in files that many sessions share, blanks replace the lines of forgotten sessions; an index is
//!   stored without its entries about them ([`FileGate`]);
//! - if a session is forgotten during the sync, a writer drops what was read of it before
//!   ([`Gate::changed`]).

use std::borrow::Cow;

use quipu_transcript::entry::SessionFact;
use quipu_transcript::format::{self, Format, Origin, Part};
use rusqlite::Connection;

use super::discover::{Discovery, Reason, RootPath, Skipped};
use super::known::KnownSource;
use super::plan::Plan;
use super::read::{Reader, session_of};
use crate::Result;
use crate::file::ledger::Ledger;
use crate::truth::forgotten::shared_lines::{self, Judge, Verdict};
use crate::truth::forgotten::{FORGOTTEN, Forgotten, clean};

/// Continues removing forgotten bytes from the file, if that was interrupted.
pub(super) fn resume_cleaning(ledger: &mut Ledger) {
    clean::resume(ledger);
}

/// Returns whether nothing is collected from a source because its session is forgotten.
pub(super) fn is_refused(known: &KnownSource) -> bool {
    known.refused.as_deref() == Some(FORGOTTEN)
}

/// Keeps what belongs to forgotten sessions out of the ledger.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    marks: Forgotten,
}

impl Gate {
    pub(crate) fn load(conn: &Connection) -> Result<Gate> {
        Ok(Gate { marks: Forgotten::load(conn)? })
    }

    /// Returns a new gate if the set of forgotten sessions has changed since this one was loaded.
    pub(super) fn changed(&self, conn: &Connection) -> Result<Option<Gate>> {
        Ok(Some(Gate::load(conn)?).filter(|now| now.marks != self.marks))
    }

    /// Leaves out every file whose path names a forgotten session: its transcript, its archives,
    /// and the files in its folder. The same names in another folder or under another root count
    /// too.
    pub(crate) fn leave_out(&self, roots: &[RootPath], discovery: &mut Discovery) {
        let skipped = &mut discovery.skipped;
        discovery.found.retain(|found| {
            let is_forgotten = roots
                .get(found.root)
                .is_some_and(|root| self.names_forgotten(root.format, &found.path));
            if is_forgotten {
                skipped.push(skip(found.root, &found.path));
            }
            !is_forgotten
        });
    }

    /// Leaves out renamed files of forgotten sessions: a source always belongs to the session that
    /// its first path names.
    pub(super) fn leave_out_known(&self, plan: &mut Plan, discovery: &mut Discovery) {
        let is_forgotten = |known: &KnownSource| {
            is_refused(known)
                || format::by_name(&known.format)
                    .is_some_and(|format| self.names_forgotten(format, &known.first_path))
        };
        plan.jobs.retain(|job| {
            let is_forgotten = job.known.as_ref().is_some_and(is_forgotten);
            if is_forgotten {
                discovery.skipped.push(skip(job.root, &job.path));
            }
            !is_forgotten
        });
        plan.standing.retain(|known| !is_forgotten(known));
    }

    fn names_forgotten(&self, format: &dyn Format, path: &[u8]) -> bool {
        self.marks.concerns(format) && self.marks.claims(format, &format.origin(path))
    }

    /// Returns whether a session was forgotten. `agent` is empty where a format has no agents.
    pub(super) fn is_forgotten(&self, format: &dyn Format, agent: &str, session_id: &str) -> bool {
        self.marks.has(format.name(), agent, session_id)
    }

    /// Returns the gate for one file.
    pub(crate) fn file<'a>(
        &'a self,
        format: &'static dyn Format,
        origin: &'a Origin,
    ) -> FileGate<'a> {
        let judge = Judge::new(&self.marks, format, origin);
        FileGate { marks: &self.marks, format, origin, judge }
    }
}

fn skip(root: usize, path: &[u8]) -> Skipped {
    Skipped { root, path: path.to_vec(), reason: Reason::Forgotten }
}

/// The [`Gate`] for one file.
#[derive(Clone, Copy)]
pub(crate) struct FileGate<'a> {
    marks: &'a Forgotten,
    format: &'static dyn Format,
    origin: &'a Origin,
    /// Set if the file may hold lines of forgotten sessions among those of other sessions.
    judge: Option<Judge<'a>>,
}

impl FileGate<'_> {
    /// Returns whether the file may hold bytes of a forgotten session, judging by its path.
    pub(super) fn may_hold_forgotten(&self) -> bool {
        self.marks.claims(self.format, self.origin) || shared_lines::is_shared(self.origin)
    }

    /// Returns whether lines have to be judged one by one.
    pub(super) fn judges_lines(&self) -> bool {
        self.judge.is_some()
    }

    /// Returns whether a line belongs to a forgotten session.
    pub(super) fn is_line_forgotten(&self, line: &[u8]) -> bool {
        self.judge.is_some_and(|judge| judge.judge(line) == Verdict::Forgotten)
    }

    /// Returns whether a line that is too long for memory belongs to a forgotten session, judging
    /// by its first and last bytes.
    pub(super) fn is_long_line_forgotten(&self, ends: &[u8]) -> bool {
        self.judge.is_some_and(|judge| judge.judge_torn(ends) == Verdict::Forgotten)
    }

    /// Returns whether an unfinished last line must not be stored yet, because it belongs to a
    /// forgotten session or may turn out to.
    pub(super) fn holds_back(&self, line: &[u8]) -> bool {
        self.judge.is_some_and(|judge| judge.judge(line) != Verdict::Kept)
    }

    /// Returns a line, or the blanks that replace it if it belongs to a forgotten session.
    pub(super) fn line<'l>(&self, line: &'l [u8]) -> Cow<'l, [u8]> {
        let mut line = Cow::Borrowed(line);
        if self.is_line_forgotten(&line) {
            shared_lines::blank(line.to_mut());
        }
        line
    }

    /// Returns the bytes of an index without its entries about forgotten sessions.
    pub(super) fn index<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        self.marks.shorten_index(self.format, self.origin, bytes)
    }

    fn is_session_forgotten(&self, id: &str) -> bool {
        let agent = self.origin.agent.as_deref().unwrap_or_default();
        self.marks.has(self.format.name(), agent, id)
    }
}

impl Reader<'_, '_> {
    /// Returns whether the file belongs to a forgotten session although its path does not show it.
    pub(super) fn is_forgotten(&mut self) -> Result<bool> {
        if !self.gate.marks.concerns(self.format) {
            return Ok(false);
        }
        Ok(self.is_forgotten_by_header()? || self.works_for_forgotten()?)
    }

    /// Returns whether the header names a forgotten session. Only the header of a transcript is
    /// read, and only if the path names no session.
    fn is_forgotten_by_header(&self) -> Result<bool> {
        if self.origin.session.is_some() || !self.origin.part.is_transcript() {
            return Ok(false);
        }
        let session = session_of(self.format, self.origin, &self.head()?);
        Ok(session.is_some_and(|session| self.gate.is_session_forgotten(&session)))
    }

    /// Returns whether a sub-agent's file names a forgotten session as its parent. Its path does
    /// not show that if the file is beside the parent's file, not in the parent's folder.
    fn works_for_forgotten(&mut self) -> Result<bool> {
        if self.origin.part != Part::Agent {
            return Ok(false);
        }
        let gate = self.gate;
        self.any_first_entry(&mut |entry| {
            let names_forgotten = |fact: &SessionFact<'_>| match fact {
                SessionFact::ParentSession(id) => gate.is_session_forgotten(id),
                _ => false,
            };
            entry.facts.iter().any(names_forgotten)
        })
    }
}
