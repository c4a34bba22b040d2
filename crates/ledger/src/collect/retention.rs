//! The time after which an agent deletes an untouched transcript. Agents keep it in settings that
//! are never opened, because secrets are in the same file. So a person configures it here, or the
//! default is assumed.

use quipu_transcript::format::Format;

/// The configured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Retention {
    /// Not configured: the agent's default is assumed.
    #[default]
    Assumed,
    /// This many days.
    Days(u32),
    /// The agent deletes nothing.
    Forever,
}

impl Retention {
    /// Returns the number of days after which the agent deletes a transcript; `None` if it never
    /// does.
    pub fn days(self, format: &dyn Format) -> Option<u32> {
        match self {
            Retention::Assumed => format.cleanup_days(),
            Retention::Days(days) => Some(days),
            Retention::Forever => None,
        }
    }

    /// Returns the origin of the number, as it appears in JSON.
    pub(crate) fn from(self) -> &'static str {
        match self {
            Retention::Assumed => "default",
            Retention::Days(_) | Retention::Forever => "configuration",
        }
    }
}
