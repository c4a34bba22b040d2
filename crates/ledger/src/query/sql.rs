//! A person's own question, in SQL. It can read everything that is documented and change nothing.
//!
//! Four walls, any of which would do: the file is opened read-only, the connection is `query_only`,
//! an authorizer refuses whatever is not reading while the statement is prepared, and a statement
//! that SQLite itself does not call read-only is not run.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, ErrorCode};

use crate::ledger::Ledger;
use crate::wire::SqlValue;
use crate::{Error, Result};

/// When a statement ends that does not end by itself.
#[derive(Debug, Clone, Default)]
pub struct SqlLimits {
    /// As soon as this is set.
    pub stop: Arc<AtomicBool>,
    /// After this time.
    pub longest: Option<Duration>,
}

/// What a statement gives, in order: the names of its columns, then its rows.
#[derive(Debug)]
pub enum SqlAnswer<'a> {
    /// First of all, once.
    Columns(&'a [String]),
    /// One row, with as many values as there are columns.
    Row(&'a [SqlValue]),
}

/// SQLite may use this much memory for one statement: enough for any sorted list, and not for a
/// recursion without an end.
const MOST_MEMORY: i64 = 1 << 30;

/// No value is larger.
const LONGEST_VALUE: i32 = 256 << 20;

/// No statement is longer.
const LONGEST_SQL: i32 = 1 << 20;

/// How many steps SQLite takes between two looks at the clock.
const STEPS: i32 = 10_000;

/// Runs one statement on the ledger at `path`. `take` gets the answer piece by piece and says
/// whether it wants more.
pub fn sql(
    path: &Path,
    statement: &str,
    limits: &SqlLimits,
    take: &mut dyn FnMut(SqlAnswer<'_>) -> bool,
) -> Result<()> {
    let mut ledger = Ledger::open_read_only(path)?;
    confine(ledger.conn_mut(), limits)?;
    run(ledger.conn(), statement, take).map_err(|error| said(error, limits))
}

fn confine(conn: &mut Connection, limits: &SqlLimits) -> Result<()> {
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "hard_heap_limit", MOST_MEMORY)?;
    conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)?;
    conn.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, LONGEST_SQL)?;
    conn.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    let stop = Arc::clone(&limits.stop);
    let end = limits.longest.map(|longest| Instant::now() + longest);
    let is_over =
        move || stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end);
    conn.progress_handler(STEPS, Some(is_over))?;
    conn.authorizer(Some(|context: AuthContext<'_>| may(&context.action)))?;
    Ok(())
}

/// What a statement may do. Whatever is not named is refused.
fn may(action: &AuthAction<'_>) -> Authorization {
    let is_reading = match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => {
            !REFUSED_FUNCTIONS.iter().any(|refused| refused.eq_ignore_ascii_case(function_name))
        }
        // Said without a value, these only tell.
        AuthAction::Pragma { pragma_name, .. } => {
            TELLING_PRAGMAS.iter().any(|telling| telling.eq_ignore_ascii_case(pragma_name))
        }
        _ => false,
    };
    if is_reading { Authorization::Allow } else { Authorization::Deny }
}

/// Functions that reach outside of the file, in case a build of SQLite has them.
const REFUSED_FUNCTIONS: &[&str] = &[
    "load_extension",
    "readfile",
    "writefile",
    "edit",
    "fts3_tokenizer",
    "sqlite_log",
    "zipfile",
    "fsdir",
];

/// Pragmas that describe the tables; with or without a value, none of them changes anything.
const TELLING_PRAGMAS: &[&str] = &[
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
    "function_list",
    "collation_list",
    "compile_options",
    "data_version",
];

fn run(
    conn: &Connection,
    sql: &str,
    take: &mut dyn FnMut(SqlAnswer<'_>) -> bool,
) -> Result<(), Failed> {
    let mut statements = Batch::new(conn, sql);
    let Some(mut statement) = statements.next()? else { return Err(Failed::Nothing) };
    if statements.next()?.is_some() {
        return Err(Failed::Several);
    }
    if !statement.readonly() {
        return Err(Failed::Writes);
    }
    if statement.parameter_count() > 0 {
        return Err(Failed::Parameters);
    }
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    if !take(SqlAnswer::Columns(&columns)) {
        return Ok(());
    }
    let mut values = Vec::with_capacity(columns.len());
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        values.clear();
        for index in 0..columns.len() {
            values.push(value(row.get_ref(index)?));
        }
        if !take(SqlAnswer::Row(&values)) {
            break;
        }
    }
    Ok(())
}

fn value(value: ValueRef<'_>) -> SqlValue {
    match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Integer(number),
        ValueRef::Real(number) => SqlValue::Real(number),
        ValueRef::Text(text) => SqlValue::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => SqlValue::Blob(bytes.to_vec()),
    }
}

/// Why a statement was not run, or not to its end.
enum Failed {
    Nothing,
    Several,
    Writes,
    Parameters,
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Failed {
        Failed::Sqlite(error)
    }
}

/// The failure in words.
fn said(failed: Failed, limits: &SqlLimits) -> Error {
    let refused = "only reading is possible";
    let message = match failed {
        Failed::Nothing => "there is no statement".to_owned(),
        Failed::Several => "one statement at a time, please".to_owned(),
        Failed::Writes => refused.to_owned(),
        Failed::Parameters => "values have to stand in the statement; it has a `?`".to_owned(),
        Failed::Sqlite(error) => match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) if limits.stop.load(Ordering::Relaxed) => {
                "interrupted".to_owned()
            }
            Some(ErrorCode::OperationInterrupted) => "it took too long".to_owned(),
            Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) => {
                refused.to_owned()
            }
            Some(ErrorCode::OutOfMemory) => "it needs too much memory".to_owned(),
            // These are about the file, not about what was asked.
            Some(
                ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseBusy
                | ErrorCode::CannotOpen,
            ) => return Error::Sqlite(error),
            _ => match error {
                rusqlite::Error::SqlInputError { msg, .. }
                | rusqlite::Error::SqliteFailure(_, Some(msg)) => msg,
                error => error.to_string(),
            },
        },
    };
    Error::Sql { message }
}
