//! What can go wrong with a ledger, each with what a person needs to act on it.

use std::path::PathBuf;

/// The result of a ledger operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a ledger operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// SQLite refused.
    #[error("the ledger could not be read or written")]
    Sqlite(#[from] rusqlite::Error),

    /// Another process holds the ledger longer than we are willing to wait.
    #[error("another process is writing to {}; waited {seconds} seconds", path.display())]
    Busy {
        /// The ledger.
        path: PathBuf,
        /// How long we waited.
        seconds: u64,
    },

    /// The projection lacks records, so a session may be missing from it: another process derives it
    /// again, or a rebuild was interrupted. Nothing was written.
    #[error(
        "the readable tables of {} are being rebuilt: {done} of {total} records are done",
        path.display()
    )]
    Behind {
        /// The ledger.
        path: PathBuf,
        /// How many records are in the projection.
        done: u64,
        /// How many there are.
        total: u64,
    },

    /// Nothing is free on the ledger's disk, and even reading takes a little.
    #[error("there is no room left on the disk of {}", path.display())]
    NoRoom {
        /// The ledger.
        path: PathBuf,
    },

    /// A file or folder of ours could not be used.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What we wanted to do.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },

    /// A file that is collected from could not be read. Collecting goes on without it.
    #[error("cannot read a source")]
    Source(#[source] std::io::Error),

    /// The file is not a quipu ledger. It is left untouched.
    #[error("{} is not a quipu ledger: {why}", path.display())]
    NotALedger {
        /// The file.
        path: PathBuf,
        /// How we know.
        why: String,
    },

    /// The ledger was written by a newer quipu. It is left untouched.
    #[error("{} was written by a newer quipu (schema {found}, this one knows {known})", path.display())]
    Newer {
        /// The ledger.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },

    /// The ledger was written by an older quipu: it has to be migrated before it can be read.
    #[error("{} was written by an older quipu and is not up to date", path.display())]
    Older {
        /// The ledger.
        path: PathBuf,
    },

    /// The tables are not those of the version that the file says it is of, and cannot be brought up
    /// to date. It is left untouched.
    #[error("the ledger cannot be brought up to date from schema {version}: {what}")]
    Shape {
        /// The version that it says.
        version: i64,
        /// What is missing, or should not be there.
        what: String,
    },

    /// The ledger was upgraded by another process while we had it open.
    #[error("the ledger was upgraded by a newer quipu, restart this one")]
    Upgraded,

    /// Whoever asked for the work wants it to end. What is stored is complete.
    #[error("stopped before everything was done")]
    Stopped,

    /// There is no ledger to read.
    #[error("there is no ledger at {}", path.display())]
    Absent {
        /// Where we looked.
        path: PathBuf,
    },

    /// The newest records are in a log that cannot be opened without writing beside it. What the
    /// file alone says may be half of something.
    #[error(
        "the newest records of {} are in its write-ahead log, which cannot be read without writing \
         to its folder",
        path.display()
    )]
    HiddenLog {
        /// The ledger.
        path: PathBuf,
    },

    /// Stored bytes are not what they were when they were stored.
    #[error("the ledger is damaged: {what}")]
    Damaged {
        /// What does not fit.
        what: String,
    },

    /// The search index is not what it should be. Everything else is; it can be derived again.
    #[error("the search index cannot be read: {why}")]
    SearchIndex {
        /// What does not fit.
        why: String,
    },

    /// A regular expression that makes no sense, or would take too much.
    #[error("the pattern cannot be used: {why}")]
    Pattern {
        /// What is wrong with it.
        why: String,
    },

    /// A copy that `backup` made: what it holds is what was backed up, and stays so.
    #[error("{} is a backup, which is not written to", path.display())]
    IsBackup {
        /// The copy.
        path: PathBuf,
    },

    /// Another file took the ledger's place while we had it open.
    #[error("{} was replaced by another ledger", path.display())]
    Replaced {
        /// Where it was.
        path: PathBuf,
    },

    /// A ledger cannot be swapped while others have it open.
    #[error("another process has {} open; waited {seconds} seconds", path.display())]
    InUse {
        /// The ledger.
        path: PathBuf,
        /// How long we waited.
        seconds: u64,
    },

    /// A backup cannot be written there.
    #[error("cannot write a backup to {}: {why}", path.display())]
    Target {
        /// Where it was asked for.
        path: PathBuf,
        /// What is in the way.
        why: &'static str,
    },

    /// Something stands where a backup is to be written.
    #[error("{} exists already", path.display())]
    TargetExists {
        /// Where it was asked for.
        path: PathBuf,
    },

    /// A ledger cannot be restored from itself.
    #[error("{} is the ledger itself", path.display())]
    SameFile {
        /// What was to be restored.
        path: PathBuf,
    },

    /// SQLite could not write a copy of the ledger.
    #[error("cannot copy the ledger to {}", path.display())]
    Copy {
        /// The copy.
        path: PathBuf,
        /// Why not.
        source: rusqlite::Error,
    },

    /// A copy was checked and is not sound.
    #[error("{} is not a sound copy of a ledger: {what}", path.display())]
    Unsound {
        /// The copy, or what it was made from.
        path: PathBuf,
        /// What does not fit.
        what: String,
    },

    /// A person's statement cannot be run.
    #[error("{message}")]
    Sql {
        /// Why not.
        message: String,
    },

    /// A person's statement was ended by its caller.
    #[error("interrupted")]
    Interrupted,

    /// Nothing in the ledger has that name.
    #[error("no {what} matches `{name}`")]
    NoMatch {
        /// `session`, `file`, `generation`, `entry`.
        what: &'static str,
        /// What was asked for.
        name: String,
    },

    /// What is called so is a transcript without a line: there is no session in it.
    #[error("session `{id}` is empty: there is no line in {}", .path.display())]
    Empty {
        /// Its id, as its name says it.
        id: String,
        /// The file.
        path: PathBuf,
    },

    /// An entry, a key or a value that cannot be kept. Nothing was written.
    #[error("{why}")]
    Refused {
        /// What is wrong with it.
        why: String,
    },

    /// The leaf of a session is not the one that the writer expected. Nothing was written.
    #[error("the leaf of session {session} is {}", leaf.as_deref().unwrap_or("before its first entry"))]
    Conflict {
        /// The session.
        session: String,
        /// Its leaf now.
        leaf: Option<String>,
    },

    /// An entry with another body was appended under the same idempotency key. Nothing was written.
    #[error("the key `{key}` was used for entry {entry}, which has another body")]
    KeyUsed {
        /// The key.
        key: String,
        /// The entry of the first try.
        entry: String,
    },

    /// Something of that name is there already.
    #[error("the {what} `{name}` is there already")]
    Exists {
        /// `session`, `entry`.
        what: &'static str,
        /// Its name.
        name: String,
    },

    /// A session that was collected belongs to the agent that wrote it.
    #[error("session {id} was collected from {format}: it can be read and forked, not written to")]
    Collected {
        /// The session.
        id: String,
        /// Whose it is.
        format: String,
    },

    /// Several things in the ledger have that name.
    #[error("`{name}` matches {count} {what}")]
    Ambiguous {
        /// What kind of things, in the plural.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// How many.
        count: usize,
        /// What it may mean: the first of them.
        candidates: Vec<String>,
    },
}

/// At most this many things that a name may mean are named.
const MOST_CANDIDATES: usize = 20;

/// What a person can do something about, where the error alone does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// Another process is in the way.
    Busy,
    /// No room is left.
    DiskFull,
    /// We may not write there.
    ReadOnly,
    /// Something stands there already.
    Exists,
    /// The file is not what SQLite left behind.
    Damaged,
    /// The disk, or a limit of the system.
    Disk,
    /// Anything else.
    Other,
}

impl Error {
    /// Several things have that name: these.
    pub(crate) fn ambiguous(what: &'static str, name: &str, mut candidates: Vec<String>) -> Error {
        let count = candidates.len();
        candidates.truncate(MOST_CANDIDATES);
        Error::Ambiguous { what, name: name.to_owned(), count, candidates }
    }

    /// What a person can do something about.
    pub fn trouble(&self) -> Trouble {
        use std::io::ErrorKind;
        match self {
            Error::Busy { .. } | Error::InUse { .. } | Error::Behind { .. } => Trouble::Busy,
            Error::Damaged { .. } | Error::Unsound { .. } => Trouble::Damaged,
            Error::NoRoom { .. } => Trouble::DiskFull,
            Error::TargetExists { .. } => Trouble::Exists,
            Error::IsBackup { .. } => Trouble::ReadOnly,
            Error::Sqlite(error) | Error::Copy { source: error, .. } => {
                match error.sqlite_error_code() {
                    Some(
                        rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked,
                    ) => Trouble::Busy,
                    Some(rusqlite::ErrorCode::DiskFull) => Trouble::DiskFull,
                    Some(
                        rusqlite::ErrorCode::ReadOnly
                        | rusqlite::ErrorCode::PermissionDenied
                        | rusqlite::ErrorCode::CannotOpen,
                    ) => Trouble::ReadOnly,
                    Some(rusqlite::ErrorCode::SystemIoFailure) => Trouble::Disk,
                    Some(
                        rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase,
                    ) => Trouble::Damaged,
                    _ => Trouble::Other,
                }
            }
            Error::Io { source, .. } => match source.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                    Trouble::DiskFull
                }
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Trouble::ReadOnly,
                ErrorKind::AlreadyExists => Trouble::Exists,
                _ => Trouble::Other,
            },
            _ => Trouble::Other,
        }
    }

    /// Something that cannot be kept, and why.
    pub(crate) fn refused(why: impl Into<String>) -> Error {
        Error::Refused { why: why.into() }
    }

    /// An I/O error about `path`.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { action, path, source }
    }

    /// A sentence about stored bytes that do not fit.
    pub(crate) fn damaged(what: impl Into<String>) -> Error {
        Error::Damaged { what: what.into() }
    }
}

impl From<quipu_fts5::Error> for Error {
    fn from(error: quipu_fts5::Error) -> Error {
        match error {
            quipu_fts5::Error::Sqlite(error) => Error::Sqlite(error),
            error => Error::SearchIndex { why: error.to_string() },
        }
    }
}

impl From<quipu_transcript::native::Refusal> for Error {
    fn from(refusal: quipu_transcript::native::Refusal) -> Error {
        Error::refused(refusal.to_string())
    }
}
