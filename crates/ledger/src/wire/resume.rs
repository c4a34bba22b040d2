//! The shapes of what `quipu resume` and `quipu show` print besides entries.

use serde::Serialize;

/// The command that resumes a session.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resumption<'a> {
    /// The session.
    pub session_id: &'a str,
    /// The folder to run the command in.
    pub cwd: Option<&'a str>,
    /// The program and its arguments.
    pub command: &'a [String],
    /// The path of the transcript, if it was restored.
    pub restored_path: Option<String>,
    /// The paths of other files of the session that were restored: sub-agents and tool outputs.
    pub other_restored_paths: Vec<String>,
}

/// All changes of a session to one file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FilePatch<'a> {
    /// The path of the file.
    pub path: &'a str,
    /// The number of changes.
    pub edits: usize,
    /// The changes as a patch.
    pub patch: String,
}

/// A picture that was written to a file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrittenPicture {
    /// The path of the file.
    pub path: String,
    /// The type of the picture: `image/png`.
    pub media_type: String,
    /// Its length in bytes.
    pub bytes: usize,
}
