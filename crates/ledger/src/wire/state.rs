//! The state of a session, as it is stored and printed.

use std::fmt;

use quipu_transcript::format::Archive;
use serde::{Serialize, Serializer};

/// The state of a session's files. The variants are in ascending order of precedence: a session has
/// the greatest state of its files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename_all = "lowercase"))]
pub enum SessionState {
    /// No transcript of the session was ever collected.
    #[default]
    Lost,
    /// No file is left on disk.
    Gone,
    /// The agent deleted the session and kept its file under another name.
    Deleted,
    /// The agent archived the session.
    Archived,
    /// The agent's own file is on disk.
    Live,
}

impl SessionState {
    /// All states.
    pub const ALL: [SessionState; 5] = [
        SessionState::Lost,
        SessionState::Gone,
        SessionState::Deleted,
        SessionState::Archived,
        SessionState::Live,
    ];

    /// Returns the state of one file.
    pub fn of_file(is_gone: bool, archive: Option<Archive>) -> SessionState {
        match (is_gone, archive) {
            (true, _) => SessionState::Gone,
            (false, Some(Archive::Deleted)) => SessionState::Deleted,
            (false, Some(Archive::Reset | Archive::Backup | Archive::Imported | Archive::Cold)) => {
                SessionState::Archived
            }
            (false, None) => SessionState::Live,
        }
    }

    /// Returns the stable name that is stored and printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            SessionState::Lost => "lost",
            SessionState::Gone => "gone",
            SessionState::Deleted => "deleted",
            SessionState::Archived => "archived",
            SessionState::Live => "live",
        }
    }

    /// Returns the state with this name.
    pub fn parse(name: &str) -> Option<SessionState> {
        SessionState::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for SessionState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_state() {
        for state in SessionState::ALL {
            assert_eq!(SessionState::parse(state.as_str()), Some(state));
        }
        assert_eq!(SessionState::parse("alive"), None);
    }

    #[test]
    fn the_agents_own_file_takes_precedence_over_archives() {
        let files = [(true, None), (false, Some(Archive::Reset)), (false, Some(Archive::Deleted))];
        let states = files.map(|(is_gone, archive)| SessionState::of_file(is_gone, archive));
        assert_eq!(states.into_iter().max(), Some(SessionState::Archived));
        assert!(states.into_iter().all(|state| state < SessionState::of_file(false, None)));
    }
}
