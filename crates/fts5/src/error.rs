//! The errors of this crate.

/// The result of reading or writing the index.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why the index could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// SQLite returned an error.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),

    /// The index is malformed, or of a version that FTS5 does not know. It must be built again.
    #[error("{why}")]
    Index {
        /// The reason.
        why: String,
    },
}
