//! The shapes of reports about restored files.

use serde::Serialize;

/// The result of restoring files.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestoreReport {
    /// The number of files written.
    pub files: u64,
    /// The number of bytes written.
    pub bytes: u64,
    /// The number of these files that were compressed and no longer are.
    pub decompressed_files: u64,
    /// The number of these files that could not be decompressed to their end and are restored
    /// compressed.
    pub as_found_files: u64,
    /// The written files.
    pub written: Vec<RestoredFile>,
    /// The number of files that exist already with the same bytes.
    pub existing_files: u64,
    /// Files that were not written, because the ledger is damaged there.
    pub damaged_files: Vec<MissingFile>,
    /// Files that could not be written: the name is taken, or the file system refused.
    pub unwritten_files: Vec<MissingFile>,
}

impl RestoreReport {
    /// Returns whether there was nothing to restore.
    pub fn is_empty(&self) -> bool {
        self.files == 0
            && self.existing_files == 0
            && self.damaged_files.is_empty()
            && self.unwritten_files.is_empty()
    }
}

/// A file that could not be restored.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissingFile {
    /// The path it would have.
    pub path: String,
    /// The number of its generation.
    pub generation: i64,
    /// The damage, or the file in the way.
    pub reason: String,
}

/// A restored file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestoredFile {
    /// The path of the file.
    pub path: String,
    /// The original name, if it was taken by another file or a folder, or too long.
    pub instead_of: Option<String>,
    /// Its format.
    pub format: String,
    /// The number of its generation.
    pub generation: i64,
    /// Its length in bytes.
    pub bytes: u64,
    /// True if the file was compressed. It is restored decompressed, without `.zst` in its name.
    pub is_decompressed: bool,
    /// True if the file could not be decompressed to its end. It is restored compressed.
    pub is_as_found: bool,
    /// True if the source was rows of a database. It is restored as one event per line.
    pub is_from_rows: bool,
    /// The number of lines of forgotten sessions in it, which are blank.
    pub forgotten_lines: u64,
}
