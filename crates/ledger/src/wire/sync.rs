//! What a sync did and what it left out; what a rebuild did.

use serde::Serialize;

use crate::base::ids::Seq;

/// What a sync did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SyncReport {
    /// Files, and transcripts in databases, that quipu follows and found.
    pub sources: u64,
    /// Of these, how many are transcripts in databases.
    pub database_sources: u64,
    /// Of these, how many had to be looked into.
    pub sources_changed: u64,
    /// Of these, how many were new.
    pub sources_added: u64,
    /// Records that were added.
    pub records_added: u64,
    /// New bytes read from sources.
    pub bytes_read: u64,
    /// Old bytes read again to see whether a source was rewritten.
    pub bytes_verified: u64,
    /// Lines and documents that were decoded.
    pub lines_parsed: u64,
    /// Chunks of the ledger that were opened for that.
    #[serde(skip)]
    pub chunks_opened: u64,
    /// Records of other files that were looked at, to find lines that are not stored again.
    #[serde(skip)]
    pub old_lines: u64,
    /// Databases that were opened, because they changed since the last sync.
    pub databases_opened: u64,
    /// Oddities that were noted, without those that what came later explained.
    pub problems: u64,
    /// The first record that was written.
    #[serde(skip)]
    pub(crate) since: Option<Seq>,
    /// Sources that were found rewritten.
    pub rewritten: u64,
    /// Sources that were found under another name.
    pub renamed: u64,
    /// Sources that were found gone.
    pub gone: u64,
    /// What was seen and not collected, or not wholly.
    pub skipped: Vec<SkippedFiles>,
    /// What to know about what was collected.
    pub warnings: Vec<SkippedFiles>,
}

impl SyncReport {
    /// What is there and could not be read, with the reason.
    pub fn unreadable(&self) -> impl Iterator<Item = (&SkippedFiles, &str)> {
        self.skipped
            .iter()
            .filter_map(|skipped| Some((skipped, skipped.reason.strip_prefix(UNREADABLE)?)))
    }

    /// What could not be decompressed to its end, with what is wrong and what is kept.
    pub fn damaged(&self) -> impl Iterator<Item = (&SkippedFiles, &str)> {
        self.skipped
            .iter()
            .filter_map(|skipped| Some((skipped, skipped.reason.strip_prefix(DAMAGED)?)))
    }

    /// Symbolic links that lead nowhere.
    pub fn nowhere(&self) -> impl Iterator<Item = &SkippedFiles> {
        self.skipped.iter().filter(|skipped| skipped.reason == NOWHERE)
    }

    /// Symbolic links that lead out of their root.
    pub fn outside(&self) -> impl Iterator<Item = &SkippedFiles> {
        self.skipped.iter().filter(|skipped| skipped.reason == OUTSIDE)
    }

    /// What was collected and is not what it says it is.
    pub fn odd(&self) -> impl Iterator<Item = (&SkippedFiles, &str)> {
        self.skipped.iter().filter_map(|skipped| Some((skipped, skipped.reason.strip_prefix(ODD)?)))
    }
}

/// How the reason begins for which something could not be read.
pub(crate) const UNREADABLE: &str = "unreadable: ";

/// How the reason begins for which something could not be decompressed to its end.
pub(crate) const DAMAGED: &str = "damaged: ";

/// The reason for which a symbolic link is not followed.
pub(crate) const OUTSIDE: &str = "symbolic link that leaves its root; not followed";

/// The reason for which a symbolic link cannot be followed.
pub(crate) const NOWHERE: &str = "symbolic link that leads nowhere";

/// How the reason begins for which something that was collected is worth a word.
pub(crate) const ODD: &str = "odd: ";

/// Files that are not collected, for one reason.
#[derive(Debug, Clone, Serialize)]
pub struct SkippedFiles {
    /// Whose root they are under.
    pub format: String,
    /// Why.
    pub reason: String,
    /// How many, without folders.
    pub files: u64,
    /// How many folders, with all that is in them. Their paths end in `/`; `.` is the root itself.
    pub folders: u64,
    /// The first of them, relative to their root, at most twenty. `status` names all symbolic links
    /// that are not followed, up to 5,000.
    pub paths: Vec<String>,
    /// They are transcripts in a database; their paths begin with the database's.
    pub in_database: bool,
}

impl SkippedFiles {
    /// Files and folders.
    pub fn all(&self) -> u64 {
        self.files + self.folders
    }

    /// They are symbolic links that are not followed.
    pub fn are_links(&self) -> bool {
        [OUTSIDE, NOWHERE].contains(&self.reason.as_str())
    }
}

/// What a rebuild did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RebuildReport {
    /// Records that were projected.
    pub records: u64,
    /// Sessions that there are now.
    pub sessions: u64,
    /// Oddities that were noted.
    pub problems: u64,
}
