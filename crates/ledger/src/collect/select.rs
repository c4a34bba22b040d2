//! What a person wants collected. Nothing else decides: what a format does not claim is out of reach
//! of every setting.

use quipu_transcript::format::{Archive, Format, Part};

/// Up to which priority, and which archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    /// The highest priority number that is collected: 0 transcripts and indexes, 1 scheduled jobs,
    /// 2 notes. See [`Part::priority`].
    pub priority: u8,
    /// Whether transcripts are collected that the agent has deleted and put aside.
    pub deleted: bool,
}

impl Default for Selection {
    /// Everything.
    fn default() -> Selection {
        Selection { priority: 2, deleted: true }
    }
}

impl Selection {
    /// Why a claimed file is left out, if it is.
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
