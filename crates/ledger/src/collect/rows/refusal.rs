//! Reasons why a database, or a part of it, is not read. Never an error: other sources are
//! collected.

use rusqlite::ErrorCode;

use crate::Error;

/// A reason, and whether reading the same bytes again could help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) why: String,
    /// True if the same bytes would be refused again.
    pub(super) is_lasting: bool,
}

impl Refusal {
    /// Returns a refusal that lasts until the database changes.
    pub(super) fn lasting(why: impl Into<String>) -> Refusal {
        Refusal { why: why.into(), is_lasting: true }
    }

    /// Returns a refusal after which the next sync tries again.
    pub(super) fn passing(why: impl Into<String>) -> Refusal {
        Refusal { why: why.into(), is_lasting: false }
    }

    /// Translates an error of SQLite about another program's database.
    pub(super) fn of(error: &rusqlite::Error) -> Refusal {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Refusal::passing("locked by another program; the next sync tries again")
            }
            Some(ErrorCode::NotADatabase) => {
                Refusal::lasting("not an SQLite database, or an encrypted one")
            }
            Some(ErrorCode::DatabaseCorrupt) => {
                Refusal::lasting("damaged: some of its pages cannot be read")
            }
            Some(ErrorCode::OperationInterrupted) => {
                Refusal::lasting("damaged: its pages form a loop")
            }
            Some(ErrorCode::TooBig) => Refusal::lasting("a row of it is larger than 256 MiB"),
            Some(ErrorCode::AuthorizationForStatementDenied) => {
                Refusal::lasting("reading its session tables would read other tables too; not read")
            }
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
                Refusal::passing("its program has not finished writing; the next sync tries again")
            }
            Some(ErrorCode::SystemIoFailure) => {
                Refusal::passing("the disk could not be read; the next sync tries again")
            }
            // SQLite's message could quote the schema, so only the code is shown.
            Some(code) => Refusal::passing(format!("SQLite cannot read it ({code:?})")),
            None => Refusal::lasting("its tables have unexpected contents"),
        }
    }
}

/// The cause for which reading stops.
#[derive(Debug)]
pub(super) enum Stop {
    /// The other program's database.
    Theirs(Refusal),
    /// The ledger.
    Ours(Error),
    /// The deadline: a reader waits for this sync.
    OutOfTime,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Ours(error)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Theirs(refusal)
    }
}

/// Returns the stop for an error of the other program's database.
pub(super) fn theirs(error: rusqlite::Error) -> Stop {
    Stop::Theirs(Refusal::of(&error))
}
