//! The person's choice of files to collect. It only narrows the formats' claims: no setting reaches
//! a file that no format claims.

use quipu_transcript::format::{Archive, Format, Part};

/// The selected priorities and archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    /// The highest priority number that is collected: 0 transcripts and indexes, 1 scheduled jobs,
    /// 2 notes. See [`Part::priority`].
    pub priority: u8,
    /// True if transcripts are collected that the agent has deleted and archived.
    pub deleted: bool,
}

impl Default for Selection {
    /// Selects everything.
    fn default() -> Selection {
        Selection { priority: 2, deleted: true }
    }
}

impl Selection {
    /// Returns the reason why a claimed file is left out, if it is.
    pub(crate) fn leaves_out(
        self,
        format: &dyn Format,
        path: &[u8],
        part: Part,
    ) -> Option<&'static str> {
        if part.priority() > self.priority {
            return Some(match self.priority {
                0 => "left out by the setting collect.priority = 0",
                _ => "left out by the setting collect.priority = 1",
            });
        }
        let is_deleted =
            || part.is_transcript() && format.origin(path).archive == Some(Archive::Deleted);
        (!self.deleted && is_deleted()).then_some("left out by the setting collect.deleted = false")
    }
}
