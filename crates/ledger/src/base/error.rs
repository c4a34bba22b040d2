//! Errors of ledger operations, each with the path, id or reason that a person needs to act on it.
//!
//! The library never prints them; the binary adds hints.

use std::path::PathBuf;
use std::time::Duration;

/// The result of a ledger operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a ledger operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// SQLite returned an error.
    #[error("cannot read or write the ledger")]
    Sqlite(#[source] rusqlite::Error),

    /// A row disappeared between two queries.
    #[error("another process changed the ledger while it was read")]
    Vanished,

    /// Another process held the ledger for longer than the wait limit.
    #[error("{} is writing to {}{}; waited {}", Holder::name(holder), path.display(),
        Holder::state(holder), duration(*waited))]
    Busy {
        /// The ledger.
        path: PathBuf,
        /// The wait limit.
        waited: Duration,
        /// The other process, if it is known.
        holder: Option<Holder>,
    },

    /// The projection lacks records, so a session may be missing from it: another process is
    /// rebuilding it, or a rebuild was interrupted. Nothing was written.
    #[error(
        "the readable tables of {} are being rebuilt: {done} of {total} records are done",
        path.display()
    )]
    Behind {
        /// The ledger.
        path: PathBuf,
        /// The number of records that are in the projection.
        done: u64,
        /// The number of records in the ledger.
        total: u64,
    },

    /// The ledger's disk is full. Even reading takes 32 KiB of it.
    #[error("no space left on the disk of {}", path.display())]
    NoRoom {
        /// The ledger.
        path: PathBuf,
    },

    /// A file or folder that quipu owns could not be used.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },

    /// A source could not be read. Collecting continues without it.
    #[error("cannot read a source file")]
    Source(#[source] std::io::Error),

    /// The file is not a quipu ledger. It is left untouched.
    #[error("{} is not a quipu ledger: {why}", path.display())]
    NotALedger {
        /// The file.
        path: PathBuf,
        /// The reason, as the end of a sentence.
        why: String,
    },

    /// A companion of the ledger, such as its write-ahead log, is not a regular file. Opening a
    /// named pipe could take forever, so no file is opened.
    #[error("{} is {what}; SQLite keeps a file of the ledger under that name", path.display())]
    Companion {
        /// The path of the companion.
        path: PathBuf,
        /// The kind of file, with its article.
        what: &'static str,
    },

    /// The ledger was written by a newer quipu. It is left untouched.
    #[error("{} was written by a newer quipu (schema {found}, this one knows {known})", path.display())]
    Newer {
        /// The ledger.
        path: PathBuf,
        /// The schema version of the file.
        found: i64,
        /// The newest schema version that this build knows.
        known: i64,
    },

    /// The ledger was written by an older quipu and has to be migrated before it can be read.
    #[error("{} was written by an older quipu and has to be migrated", path.display())]
    Older {
        /// The ledger.
        path: PathBuf,
    },

    /// The tables differ from those of the schema version in the file's header, so it cannot be
    /// migrated. It is left untouched.
    #[error("the ledger cannot be migrated from schema {version}: {what}")]
    Shape {
        /// The schema version in the file's header.
        version: i64,
        /// The first table, column or index that is missing or unexpected.
        what: String,
    },

    /// Another process upgraded the ledger while this one had it open.
    #[error("the ledger was migrated by a newer quipu; restart this one")]
    Upgraded,

    /// The caller asked for the work to stop. Everything stored so far is complete.
    #[error("stopped before everything was done")]
    Stopped,

    /// There is no ledger to read.
    #[error("there is no ledger at {}", path.display())]
    Absent {
        /// The path without a ledger.
        path: PathBuf,
    },

    /// The newest records are in a write-ahead log that cannot be read without writing beside the
    /// file. The file alone may end in the middle of a transaction.
    #[error(
        "the newest records of {} are in its write-ahead log, which cannot be read without writing \
         to its folder",
        path.display()
    )]
    HiddenLog {
        /// The ledger.
        path: PathBuf,
    },

    /// Stored bytes differ from those that were written.
    #[error("the ledger is damaged: {what}")]
    Damaged {
        /// The row or bytes in which the damage was found.
        what: String,
    },

    /// The search index is damaged. Everything else is intact, and a rebuild derives the index
    /// again.
    #[error("the search index cannot be read: {why}")]
    SearchIndex {
        /// The page or row in which the damage was found.
        why: String,
    },

    /// A regular expression that does not compile or exceeds its size limit.
    #[error("the pattern cannot be used: {why}")]
    Pattern {
        /// The reason.
        why: String,
    },

    /// The file is a copy that `backup` made. A backup is never written to.
    #[error("{} is a backup, and backups are read-only", path.display())]
    IsBackup {
        /// The copy.
        path: PathBuf,
    },

    /// Another file took the ledger's path while this process had the ledger open.
    #[error("{} was replaced by another ledger", path.display())]
    Replaced {
        /// The ledger's path.
        path: PathBuf,
    },

    /// A ledger cannot be swapped while another process has it open.
    #[error("another process has {} open; waited {seconds} seconds", path.display())]
    InUse {
        /// The ledger.
        path: PathBuf,
        /// The wait limit, in seconds.
        seconds: u64,
    },

    /// A backup cannot be written to the requested path.
    #[error("cannot write a backup to {}: {why}", path.display())]
    Target {
        /// The requested path.
        path: PathBuf,
        /// The reason.
        why: &'static str,
    },

    /// A file exists where a backup is to be written.
    #[error("{} already exists", path.display())]
    TargetExists {
        /// The requested path.
        path: PathBuf,
    },

    /// A ledger cannot be restored from itself.
    #[error("{} is the ledger itself", path.display())]
    SameFile {
        /// The file that was to be restored.
        path: PathBuf,
    },

    /// SQLite could not write a copy of the ledger.
    #[error("cannot copy the ledger to {}", path.display())]
    Copy {
        /// The file that the copy was to become.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },

    /// A copy was checked and is damaged.
    #[error("{} is not an intact copy of a ledger: {what}", path.display())]
    Unsound {
        /// The copy, or the file it was made from.
        path: PathBuf,
        /// The row or bytes in which the damage was found.
        what: String,
    },

    /// A person's SQL statement cannot be run.
    #[error("{message}")]
    Sql {
        /// The reason.
        message: String,
    },

    /// The caller interrupted a person's SQL statement.
    #[error("interrupted")]
    Interrupted,

    /// Nothing in the ledger matches a name.
    #[error("no {what} matches `{name}`")]
    NoMatch {
        /// `session`, `file`, `generation`, `entry`.
        what: &'static str,
        /// The name.
        name: String,
    },

    /// The name belongs to a transcript without a line, which holds no session.
    #[error("session `{id}` is empty: {} has no lines", .path.display())]
    Empty {
        /// The id in the name of the file.
        id: String,
        /// The file.
        path: PathBuf,
    },

    /// An entry, a key or a value cannot be stored. Nothing was written.
    #[error("{why}")]
    Refused {
        /// The reason.
        why: String,
    },

    /// The folder to import from has no sessions of OpenClaw. Nothing was written.
    #[error("{} has no OpenClaw sessions", path.display())]
    NotOpenClaw {
        /// The folder.
        path: PathBuf,
    },

    /// The leaf of a session differs from the one that the writer expected. Nothing was written.
    #[error("the leaf of session {session} is {}", leaf.as_deref().unwrap_or("before its first entry"))]
    Conflict {
        /// The session.
        session: String,
        /// The current leaf.
        leaf: Option<String>,
    },

    /// There is no usable summary. The session was not compacted; a memory flush before it may have
    /// stored notes.
    #[error("the summariser `{summariser}` failed: {why}")]
    Summary {
        /// The summariser.
        summariser: String,
        /// The reason, without any text of the transcript.
        why: String,
    },

    /// A model refused the context, and what has to stay does not fit either. Nothing was written.
    #[error("what has to stay in the context has {tokens} tokens, and {limit} fit")]
    TooLong {
        /// The tokens of the last messages, as the model counts them.
        tokens: u64,
        /// The tokens that fit.
        limit: u64,
    },

    /// A model refused the context, and the context does not fit with the summary either. The session
    /// was not compacted.
    #[error(
        "the summary of the summariser `{summariser}` is too long: with it, the context has {tokens} \
         tokens, and {limit} fit"
    )]
    SummaryTooLong {
        /// The summariser.
        summariser: String,
        /// The tokens of the context with the summary, as the model counts them.
        tokens: u64,
        /// The tokens that fit.
        limit: u64,
    },

    /// An entry with another body was appended under the same idempotency key. Nothing was written.
    #[error("the idempotency key `{key}` was used for entry {entry}, which has another body")]
    KeyUsed {
        /// The key.
        key: String,
        /// The entry that was stored under the key.
        entry: String,
    },

    /// The name is taken.
    #[error("the {what} `{name}` already exists")]
    Exists {
        /// `session`, `entry`.
        what: &'static str,
        /// The name.
        name: String,
    },

    /// The session was collected from an agent's files, so only that agent writes to it.
    #[error("session {id} was collected from {format} and is read-only here")]
    Collected {
        /// The session.
        id: String,
        /// The format it was collected from.
        format: String,
    },

    /// The format has no context reader, so its sessions have no context and cannot be forked.
    #[error("the context of a {format} session cannot be selected: quipu has no reader for it")]
    NoContext {
        /// The format.
        format: String,
    },

    /// A name matches more than one thing.
    #[error("`{name}` matches {count} {what}")]
    Ambiguous {
        /// The kind of things, in the plural.
        what: &'static str,
        /// The name.
        name: String,
        /// The number of matches.
        count: usize,
        /// The first matches.
        candidates: Vec<String>,
    },
}

/// The process that holds the writers' lock of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process id.
    pub id: u32,
    /// The name of its program.
    pub program: String,
    /// True if the process is stopped, for example by Ctrl-Z. It keeps the lock until it continues.
    pub is_stopped: bool,
}

impl Holder {
    fn name(holder: &Option<Holder>) -> String {
        match holder {
            Some(Holder { id, program, .. }) => format!("process {id} ({program})"),
            None => "another process".to_owned(),
        }
    }

    fn state(holder: &Option<Holder>) -> &'static str {
        match holder {
            Some(Holder { is_stopped: true, .. }) => " and is stopped",
            _ => "",
        }
    }
}

/// Returns a wait limit for people, for example `10 seconds` or `50 ms`.
fn duration(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        1 => "1 second".to_owned(),
        seconds => format!("{seconds} seconds"),
    }
}

/// The largest number of candidates that an error lists, so that it fits on a screen.
const MAX_CANDIDATES: usize = 20;

/// The kind of problem behind an error, for choosing a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// Another process holds the ledger.
    Busy,
    /// The disk is full.
    DiskFull,
    /// The file or folder cannot be written to.
    ReadOnly,
    /// A file exists already.
    Exists,
    /// The file was changed or damaged outside of SQLite.
    Damaged,
    /// The disk failed, or a limit of the system was reached.
    Disk,
    /// Anything else.
    Other,
}

impl Error {
    /// Returns the error for a name with several matches.
    pub(crate) fn ambiguous(what: &'static str, name: &str, mut candidates: Vec<String>) -> Error {
        let count = candidates.len();
        candidates.truncate(MAX_CANDIDATES);
        Error::Ambiguous { what, name: name.to_owned(), count, candidates }
    }

    /// Returns the kind of problem, for choosing a hint.
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

    /// Returns the error for a value that cannot be stored.
    pub(crate) fn refused(why: impl Into<String>) -> Error {
        Error::Refused { why: why.into() }
    }

    /// Returns a function that makes an I/O error about `path`.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { action, path, source }
    }

    /// Returns the error for stored bytes that are damaged.
    pub(crate) fn damaged(what: impl Into<String>) -> Error {
        Error::Damaged { what: what.into() }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        match error {
            rusqlite::Error::QueryReturnedNoRows => Error::Vanished,
            error => Error::Sqlite(error),
        }
    }
}

impl From<quipu_fts5::Error> for Error {
    fn from(error: quipu_fts5::Error) -> Error {
        match error {
            quipu_fts5::Error::Sqlite(error) => error.into(),
            error => Error::SearchIndex { why: error.to_string() },
        }
    }
}

impl From<quipu_transcript::native::Refusal> for Error {
    fn from(refusal: quipu_transcript::native::Refusal) -> Error {
        Error::refused(refusal.to_string())
    }
}
