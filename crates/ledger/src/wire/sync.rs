//! The shapes of reports about a sync and a rebuild.
//!
//! Holds data only, and the reasons that other modules store and compare.

use serde::Serialize;

use crate::base::ids::Seq;

/// The result of a sync.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SyncReport {
    /// The number of files, and of transcripts in databases, that were found and are collected.
    pub sources: u64,
    /// The number of `sources` that are transcripts in databases.
    pub database_sources: u64,
    /// The number of `sources` that had to be read.
    pub sources_changed: u64,
    /// The number of `sources` that are new.
    pub sources_added: u64,
    /// The number of records that were added.
    pub records_added: u64,
    /// The number of new bytes read from sources.
    pub bytes_read: u64,
    /// The number of old bytes read again to see whether a source was rewritten.
    pub bytes_verified: u64,
    /// The number of lines and documents that were decoded.
    pub lines_parsed: u64,
    /// The number of chunks that were opened to compare sources with the ledger.
    #[serde(skip)]
    pub chunks_opened: u64,
    /// The number of records of other files that were compared, so that equal lines are stored
    /// once.
    #[serde(skip)]
    pub old_lines: u64,
    /// The number of databases that changed and were opened.
    pub databases_opened: u64,
    /// The number of new problems, without those that a later record resolved.
    pub problems: u64,
    /// The first record that was written.
    #[serde(skip)]
    pub(crate) since: Option<Seq>,
    /// The number of sources that were rewritten.
    pub rewritten_sources: u64,
    /// The number of sources that were renamed.
    pub renamed_sources: u64,
    /// The number of sources that are no longer on disk.
    pub gone_sources: u64,
    /// Files that were not collected, or only in part.
    pub skipped: Vec<SkippedFiles>,
    /// Warnings about collected files.
    pub warnings: Vec<SkippedFiles>,
}

impl SyncReport {
    /// Returns the files that could not be read, each with the reason.
    pub fn unreadable(&self) -> impl Iterator<Item = (&SkippedFiles, &str)> {
        self.skipped
            .iter()
            .filter_map(|skipped| Some((skipped, skipped.reason.strip_prefix(UNREADABLE)?)))
    }

    /// Returns the files that could not be decompressed to their end, each with the damage.
    pub fn damaged(&self) -> impl Iterator<Item = (&SkippedFiles, &str)> {
        self.skipped
            .iter()
            .filter_map(|skipped| Some((skipped, skipped.reason.strip_prefix(DAMAGED)?)))
    }

    /// Returns the symbolic links whose target does not exist.
    pub fn nowhere(&self) -> impl Iterator<Item = &SkippedFiles> {
        self.skipped.iter().filter(|skipped| skipped.reason == NOWHERE)
    }

    /// Returns the named pipes, sockets and devices under names that would be collected.
    pub fn not_files(&self) -> impl Iterator<Item = &SkippedFiles> {
        self.skipped.iter().filter(|skipped| skipped.reason == NOT_A_FILE)
    }

    /// Returns the symbolic links that lead out of their root.
    pub fn outside(&self) -> impl Iterator<Item = &SkippedFiles> {
        self.skipped.iter().filter(|skipped| skipped.reason == OUTSIDE)
    }

    /// Returns the collected files that are not what their names suggest, each with the reason.
    pub fn odd(&self) -> impl Iterator<Item = (&SkippedFiles, &str)> {
        self.skipped.iter().filter_map(|skipped| Some((skipped, skipped.reason.strip_prefix(ODD)?)))
    }
}

/// The beginning of the reason for a file that could not be read.
pub(crate) const UNREADABLE: &str = "unreadable: ";

/// The beginning of the reason for a file that could not be decompressed to its end.
pub(crate) const DAMAGED: &str = "damaged: ";

/// The reason for a symbolic link that is not followed.
pub(crate) const OUTSIDE: &str = "symbolic link out of its root; not followed";

/// The reason for a symbolic link whose target does not exist.
pub(crate) const NOWHERE: &str = "broken symbolic link";

/// The reason for something that is not a regular file.
pub(crate) const NOT_A_FILE: &str = "not a regular file";

/// The beginning of the reason for a collected file that is worth a warning.
pub(crate) const ODD: &str = "odd: ";

/// Files that are not collected, or only in part, for one reason.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkippedFiles {
    /// The format of their root.
    pub format: String,
    /// The reason.
    pub reason: String,
    /// The number of files, without folders.
    pub files: u64,
    /// The number of folders, each with everything in it. Their paths end in `/`; `.` is the root
    /// itself.
    pub folders: u64,
    /// The first paths, relative to their root, at most twenty. `status` lists all symbolic links
    /// that are not followed, up to 5,000.
    pub paths: Vec<String>,
    /// True for transcripts in a database; their paths begin with the database's.
    pub is_in_database: bool,
}

impl SkippedFiles {
    /// Returns the number of files and folders.
    pub fn all(&self) -> u64 {
        self.files + self.folders
    }

    /// Returns whether they are symbolic links that are not followed.
    pub fn are_links(&self) -> bool {
        [OUTSIDE, NOWHERE].contains(&self.reason.as_str())
    }
}

/// The result of a rebuild.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RebuildReport {
    /// The number of records that were projected.
    pub records: u64,
    /// The number of sessions in the ledger, without sub-agents.
    pub sessions: u64,
    /// The number of sub-agents in the ledger.
    pub subagents: u64,
    /// The number of problems.
    pub problems: u64,
    /// The number of chunks that were opened to read the records.
    #[serde(skip)]
    pub chunks_opened: u64,
}

/// The result of collecting once during a watch.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchReport<'a> {
    /// The time when it was stored, milliseconds UTC.
    pub time: i64,
    /// The result of the sync.
    #[serde(flatten)]
    pub sync: &'a SyncReport,
}
