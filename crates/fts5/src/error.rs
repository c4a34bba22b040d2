//! What can go wrong.

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// SQLite refused.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),

    /// The index is not what FTS5 writes.
    #[error("{why}")]
    Index {
        /// What does not fit.
        why: String,
    },
}
