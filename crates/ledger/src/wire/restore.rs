//! Files that were given back.

use serde::Serialize;

/// What was given back.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RestoreReport {
    /// Files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Of these files, how many were compressed and are not any more.
    pub decompressed: u64,
    /// Of these files, how many could not be decompressed to their end and are as they were.
    pub as_found: u64,
    /// Each of them.
    pub restored: Vec<RestoredFile>,
    /// Files that were there already, with the same bytes.
    pub there: u64,
    /// Files of which the ledger is damaged: nothing was written of these.
    pub damaged: Vec<MissingFile>,
    /// Files that could not be written: something else has the name, or the file system refused.
    pub skipped: Vec<MissingFile>,
}

impl RestoreReport {
    /// Returns whether there was nothing to give back.
    pub fn is_empty(&self) -> bool {
        self.files == 0 && self.there == 0 && self.damaged.is_empty() && self.skipped.is_empty()
    }
}

/// A file that could not be given back.
#[derive(Debug, Clone, Serialize)]
pub struct MissingFile {
    /// Where it would be.
    pub path: String,
    /// Which of its lives.
    pub generation: i64,
    /// What is damaged, or in the way.
    pub why: String,
}

/// A file that was given back.
#[derive(Debug, Clone, Serialize)]
pub struct RestoredFile {
    /// Where it is now.
    pub path: String,
    /// The name that it would have, if that were not another file's, a folder's, or too long.
    pub instead_of: Option<String>,
    /// Its format.
    pub format: String,
    /// Which of its lives.
    pub generation: i64,
    /// Its length.
    pub bytes: u64,
    /// The file was compressed; this is what was in it, without the `.zst` in its name.
    pub decompressed: bool,
    /// The file is compressed and could not be decompressed to its end: this is what it was.
    pub as_found: bool,
    /// There was no such file: it was rows of a database, and is one event per line now.
    pub from_rows: bool,
    /// Lines of forgotten sessions in it; blanks stand there instead.
    pub forgotten_lines: u64,
}
