//! Files that many sessions share, such as a list of all prompts: finds lines of forgotten sessions
//! and overwrites them with blanks.
//!
//! A forgotten line keeps its position and length, so that every offset stays valid. Blanks carry
//! no text and decode to nothing.

use memchr::memmem;
use quipu_transcript::entry::{Kind, SessionFact};
use quipu_transcript::format::{Format, Framing, Origin};
use quipu_transcript::key::{self, SessionKey};
use quipu_transcript::record;

use crate::truth::forgotten::Forgotten;

/// Returns whether each line of a file names the session it belongs to.
pub(crate) fn is_shared(origin: &Origin) -> bool {
    // A transcript whose path names no session still belongs to one session.
    origin.session.is_none()
        && origin.part.framing() == Framing::Lines
        && !origin.part.is_transcript()
}

/// Decides which lines of one shared file belong to forgotten sessions.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'a> {
    forgotten: &'a Forgotten,
    format: &'static dyn Format,
    origin: &'a Origin,
}

/// The session that a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A forgotten session.
    Forgotten,
    /// Another session, or none.
    Kept,
    /// Unknown: the line cannot be decoded whole.
    Torn,
}

impl<'a> Judge<'a> {
    /// Creates a judge; `None` if the file cannot hold a line of a forgotten session.
    pub(crate) fn new(
        forgotten: &'a Forgotten,
        format: &'static dyn Format,
        origin: &'a Origin,
    ) -> Option<Judge<'a>> {
        let is_needed = is_shared(origin) && forgotten.concerns(format);
        is_needed.then_some(Judge { forgotten, format, origin })
    }

    /// Judges a line, with or without its newline. If two records are welded into one line and one
    /// of them is forgotten, the whole line is.
    pub(crate) fn judge(&self, line: &[u8]) -> Verdict {
        let agent = self.origin.agent.as_deref().unwrap_or_default();
        let (mut entries, mut is_forgotten) = (0, false);
        let problems = record::read(self.format, self.origin, line, &mut |entry| {
            entries += 1;
            // A cron run is in a file of the job, and any agent may have run it.
            if let Kind::CronRun(run) = &entry.kind {
                // A run without a session id may have it at the end of its key.
                let key = run.session_key.as_deref().map(SessionKey::parse);
                let in_key = key.as_ref().and_then(|key| match key.kind() {
                    key::Kind::Cron { run, .. } => run,
                    _ => None,
                });
                is_forgotten |= run
                    .session_id
                    .as_deref()
                    .or(in_key)
                    .is_some_and(|id| self.forgotten.has_id(self.format.name(), id));
            }
            is_forgotten |= entry.facts.iter().any(|fact| match fact {
                SessionFact::SessionId(id) => self.forgotten.has(self.format.name(), agent, id),
                _ => false,
            });
        });
        let is_blank = line.trim_ascii().is_empty();
        if is_forgotten {
            Verdict::Forgotten
        } else if is_blank || (entries > 0 && problems.is_empty()) {
            Verdict::Kept
        } else {
            self.judge_torn(line)
        }
    }

    /// Judges a part of a line that cannot be decoded whole.
    pub(crate) fn judge_torn(&self, bytes: &[u8]) -> Verdict {
        let mut ids = self.forgotten.ids(self.format.name());
        if ids.any(|id| memmem::find(bytes, id.as_bytes()).is_some()) {
            Verdict::Forgotten
        } else {
            Verdict::Torn
        }
    }
}

/// Overwrites a line with blanks. The newline stays.
pub(crate) fn blank(line: &mut [u8]) {
    let end = line.len() - usize::from(line.last() == Some(&b'\n'));
    line.iter_mut().take(end).for_each(|byte| *byte = b' ');
}

/// Returns the blanks that replace a line.
pub(crate) fn blanks(length: usize, has_newline: bool) -> Vec<u8> {
    let mut line = vec![b' '; length];
    if let (true, Some(last)) = (has_newline, line.last_mut()) {
        *last = b'\n';
    }
    line
}

/// A counter of blank lines in bytes that come in pieces.
#[derive(Debug, Default)]
pub(crate) struct BlankLines {
    pub(crate) count: u64,
    blanks: u64,
    is_other: bool,
}

impl BlankLines {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => {
                    self.count += u64::from(self.blanks > 0 && !self.is_other);
                    (self.blanks, self.is_other) = (0, false);
                }
                b' ' => self.blanks += 1,
                _ => self.is_other = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_keep_the_length_and_the_newline() {
        let mut line = *b"{\"a\":1}\n";
        blank(&mut line);
        assert_eq!(&line, b"       \n");
        assert_eq!(blanks(8, true), line);
        let mut torn = *b"{\"a";
        blank(&mut torn);
        assert_eq!(&torn, b"   ");
        let mut nothing = [];
        blank(&mut nothing);
    }

    #[test]
    fn lines_of_blanks_are_counted_across_pieces() {
        let mut lines = BlankLines::default();
        for piece in [&b"a \n  "[..], b"  \n\n", b" ", b"x\n   \n "] {
            lines.add(piece);
        }
        assert_eq!(lines.count, 2);
    }
}
