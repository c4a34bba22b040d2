//! Why a database, or a part of it, is not read. Never an error: other sources go on.

use rusqlite::ErrorCode;

use crate::Error;

/// A reason, and whether looking again at the same bytes could help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) why: String,
    /// The same bytes would be refused again.
    pub(super) is_lasting: bool,
}

impl Refusal {
    /// It will not be read before it changes.
    pub(super) fn lasting(why: impl Into<String>) -> Refusal {
        Refusal { why: why.into(), is_lasting: true }
    }

    /// The next sync tries again.
    pub(super) fn passing(why: impl Into<String>) -> Refusal {
        Refusal { why: why.into(), is_lasting: false }
    }

    /// What SQLite said about another program's database.
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
                Refusal::lasting("damaged: its pages lead in circles")
            }
            Some(ErrorCode::TooBig) => Refusal::lasting("a row of it is larger than 256 MiB"),
            Some(ErrorCode::AuthorizationForStatementDenied) => {
                Refusal::lasting("its session tables are not what they seem; not read")
            }
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
                Refusal::passing("its program has not finished writing; the next sync tries again")
            }
            Some(ErrorCode::SystemIoFailure) => {
                Refusal::passing("the disk could not be read; the next sync tries again")
            }
            // A message of SQLite's could quote the schema; the code is enough.
            Some(code) => Refusal::passing(format!("SQLite cannot read it ({code:?})")),
            None => Refusal::lasting("its tables hold what they should not"),
        }
    }
}

/// Why reading stops.
#[derive(Debug)]
pub(super) enum Stop {
    /// Because of the other program's database.
    Theirs(Refusal),
    /// Because of the ledger.
    Ours(Error),
    /// Because somebody waits for an answer.
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

/// An error of the other program's database.
pub(super) fn theirs(error: rusqlite::Error) -> Stop {
    Stop::Theirs(Refusal::of(&error))
}
