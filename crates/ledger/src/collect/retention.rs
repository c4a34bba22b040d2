//! How long an agent keeps a transcript that nobody touches. Agents say so in settings that are never
//! opened, because secrets stand beside them; so a person says it, or the default is assumed.

use quipu_transcript::format::Format;

/// What a person says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Retention {
    /// Nothing: the agent's default is assumed.
    #[default]
    Assumed,
    /// So many days.
    Days(u32),
    /// The agent deletes nothing.
    Forever,
}

impl Retention {
    /// After how many days the agent deletes a transcript, if it does.
    pub fn days(self, format: &dyn Format) -> Option<u32> {
        match self {
            Retention::Assumed => format.cleanup_days(),
            Retention::Days(days) => Some(days),
            Retention::Forever => None,
        }
    }

    /// Where the number comes from, as it stands on the wire.
    pub(crate) fn from(self) -> &'static str {
        match self {
            Retention::Assumed => "default",
            Retention::Days(_) | Retention::Forever => "configuration",
        }
    }
}
