//! The shapes of what calls of tools did to files.

use serde::Serialize;

/// A file that calls of tools read or changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TouchedFile {
    /// Its path. A relative one is completed with the first folder of its session.
    pub path: String,
    /// The number of sessions with such a call.
    pub sessions: u64,
    /// The number of turns with such a call.
    pub turns: u64,
    /// The number of calls that read or changed it.
    pub tool_calls: u64,
    /// The number of calls that changed it. A failed call changes nothing.
    pub edits: u64,
    /// The time of the first call, milliseconds UTC.
    pub first_at: Option<i64>,
    /// The time of the last call, milliseconds UTC.
    pub last_at: Option<i64>,
}

/// What one turn of a session did to a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileUse {
    /// The path of the file.
    pub path: String,
    /// The session's id.
    pub session_id: String,
    /// The session's format.
    pub format: String,
    /// The session's agent.
    pub agent: Option<String>,
    /// The project's name: the last folder of its path.
    pub project: Option<String>,
    /// The session's title, or its first prompt.
    pub title: Option<String>,
    /// The parent session, for which this one works.
    pub parent_session_id: Option<String>,
    /// The number of the turn in its session, from 1.
    pub turn_number: Option<u64>,
    /// The beginning of the turn's prompt.
    pub prompt: Option<String>,
    /// The entry with the last of the calls.
    pub entry_id: String,
    /// The names of the tools that were called.
    pub tools: Vec<String>,
    /// The number of calls that read or changed the file.
    pub tool_calls: u64,
    /// The number of calls that changed it. A failed call changes nothing.
    pub edits: u64,
    /// The time of the last of the calls, milliseconds UTC.
    pub time: Option<i64>,
}
