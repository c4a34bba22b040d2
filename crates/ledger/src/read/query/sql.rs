//! Runs a user's SQL statement. It can read every documented table and change nothing.
//!
//! Four independent barriers: the file is opened read-only, the connection is `query_only`, an
//! authorizer refuses every action but reading while the statement is prepared, and a statement
//! that SQLite does not report as read-only is not run.

mod raw;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, ErrorCode};

use crate::file::ledger::Ledger;
use crate::wire::SqlValue;
use crate::{Error, Result};

/// The conditions that end a statement early.
#[derive(Debug, Clone, Default)]
pub struct SqlLimits {
    /// A flag that ends the statement when it is set.
    pub stop: Arc<AtomicBool>,
    /// The time after which the statement is ended.
    pub longest: Option<Duration>,
}

/// A part of the answer. The names of the columns come first, then the rows.
#[derive(Debug)]
pub enum SqlAnswer<'a> {
    /// The names of the columns, once.
    Columns(&'a [String]),
    /// One row, with as many values as there are columns.
    Row(&'a [SqlValue]),
}

/// The largest memory of SQLite for one statement, in bytes. It is enough for any sorted list and
/// stops an endless recursion.
const MAX_MEMORY: i64 = 1 << 30;

/// The largest size of a value, in bytes. It stops functions that build huge strings.
const MAX_VALUE_BYTES: i32 = 256 << 20;

/// The largest length of a statement, in bytes. It bounds the work of the parser.
const MAX_SQL_BYTES: i32 = 1 << 20;

/// The number of SQLite's steps between two checks of the clock. It keeps the cost of the checks
/// small.
const STEPS_PER_CHECK: i32 = 10_000;

/// The approximate size of a batch of rows, in bytes. Larger batches need fewer switches between
/// threads.
const BATCH_BYTES: usize = 1 << 16;

/// The time between two checks of the limits while the caller waits for rows. It is short, so that
/// a stop is noticed quickly.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The time that a statement has to end after its limit. Rows that it produced before the limit are
/// then delivered. SQLite checks between two steps, never inside a function.
const GRACE: Duration = Duration::from_millis(300);

/// Runs one statement on `ledger` in the snapshot that it holds. The ledger must be opened
/// read-only.
///
/// `take` gets the answer in parts and returns whether it wants more.
///
/// The statement runs in its own thread. SQLite cannot be interrupted inside a function (`LIKE`,
/// `replace` and `printf` can take hours), so a thread that does not end is abandoned. It can only
/// read, and it ends with its function or with the process.
pub fn sql(
    ledger: Ledger,
    statement: &str,
    limits: &SqlLimits,
    take: &mut dyn FnMut(SqlAnswer<'_>) -> bool,
) -> Result<()> {
    let end = limits.longest.map(|longest| Instant::now() + longest);
    let limits = Limits { stop: Arc::clone(&limits.stop), end };
    // One batch is printed while the next is filled.
    let (sender, receiver) = mpsc::sync_channel(1);
    let (statement, thread_limits) = (statement.to_owned(), limits.clone());
    let work = move || {
        let mut batch = Batched { sender, rows: Vec::new(), bytes: 0 };
        let done = run_in_thread(ledger, &statement, thread_limits, &mut batch);
        batch.flush();
        // The caller may have returned already.
        let _ = batch.sender.send(Piece::Done(done));
    };
    std::thread::Builder::new()
        .name("sql".to_owned())
        .spawn(work)
        .map_err(Error::io("start a thread for", "the statement"))?;
    let mut over_since = None;
    loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(Piece::Columns(columns)) => {
                if !take(SqlAnswer::Columns(&columns)) {
                    return Ok(());
                }
            }
            Ok(Piece::Rows(rows)) => {
                if rows.iter().any(|row| !take(SqlAnswer::Row(row))) {
                    return Ok(());
                }
            }
            Ok(Piece::Done(done)) => return done,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::Sql { message: "the query ended without a result".into() });
            }
        }
        if limits.is_over() && over_since.get_or_insert_with(Instant::now).elapsed() >= GRACE {
            return Err(limits.error());
        }
    }
}

/// A message from the statement's thread to the caller.
enum Piece {
    Columns(Vec<String>),
    Rows(Vec<Vec<SqlValue>>),
    Done(Result<()>),
}

/// Collects rows into batches.
struct Batched {
    sender: SyncSender<Piece>,
    rows: Vec<Vec<SqlValue>>,
    bytes: usize,
}

impl Batched {
    /// Adds a row, and returns whether more are wanted.
    fn row(&mut self, row: Vec<SqlValue>) -> bool {
        let long = |value: &SqlValue| match value {
            SqlValue::Text(text) => text.len(),
            SqlValue::Blob(bytes) => bytes.len(),
            _ => 0,
        };
        self.bytes += row.iter().map(|value| size_of::<SqlValue>() + long(value)).sum::<usize>();
        self.rows.push(row);
        self.bytes < BATCH_BYTES || self.flush()
    }

    fn flush(&mut self) -> bool {
        self.bytes = 0;
        let rows = std::mem::take(&mut self.rows);
        rows.is_empty() || self.sender.send(Piece::Rows(rows)).is_ok()
    }
}

/// The limits of a running statement.
#[derive(Clone)]
struct Limits {
    stop: Arc<AtomicBool>,
    end: Option<Instant>,
}

impl Limits {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.end.is_some_and(|end| Instant::now() >= end)
    }

    fn error(&self) -> Error {
        match self.stop.load(Ordering::Relaxed) {
            true => Error::Interrupted,
            false => Error::Sql { message: "the query reached its time limit".to_owned() },
        }
    }
}

/// Runs the statement, in its own thread.
fn run_in_thread(
    mut ledger: Ledger,
    statement: &str,
    limits: Limits,
    batch: &mut Batched,
) -> Result<()> {
    if ledger.is_writable() {
        return Err(Error::Sql { message: "the ledger was opened for writing".to_owned() });
    }
    raw::add(ledger.conn(), ledger.path().to_owned())?;
    restrict(ledger.conn_mut(), limits.clone())?;
    run(ledger.conn(), statement, batch).map_err(|error| to_error(error, &limits))
}

fn restrict(conn: &mut Connection, limits: Limits) -> Result<()> {
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "hard_heap_limit", MAX_MEMORY)?;
    conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
    conn.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_SQL_BYTES)?;
    conn.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    conn.progress_handler(STEPS_PER_CHECK, Some(move || limits.is_over()))?;
    conn.authorizer(Some(|context: AuthContext<'_>| authorize(&context.action)))?;
    Ok(())
}

/// Returns whether a statement may perform an action. Every action that is not listed is refused.
fn authorize(action: &AuthAction<'_>) -> Authorization {
    let is_reading = match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => {
            !REFUSED_FUNCTIONS.iter().any(|refused| refused.eq_ignore_ascii_case(function_name))
        }
        // These pragmas only read.
        AuthAction::Pragma { pragma_name, .. } => {
            READING_PRAGMAS.iter().any(|reading| reading.eq_ignore_ascii_case(pragma_name))
        }
        _ => false,
    };
    if is_reading { Authorization::Allow } else { Authorization::Deny }
}

/// Functions that read or write outside of the file, in case a build of SQLite has them.
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

/// Pragmas that describe tables. With or without a value, none of them changes anything.
const READING_PRAGMAS: &[&str] = &[
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

fn run(conn: &Connection, sql: &str, batch: &mut Batched) -> Result<(), Failed> {
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
    let width = columns.len();
    if batch.sender.send(Piece::Columns(columns)).is_err() {
        return Ok(());
    }
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let mut values = Vec::with_capacity(width);
        for index in 0..width {
            values.push(value(row.get_ref(index)?));
        }
        if !batch.row(values) {
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

/// The reason why a statement was not run, or not to its end.
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

/// Returns the error for a failure.
fn to_error(failed: Failed, limits: &Limits) -> Error {
    let refused = "the query is not read-only";
    let message = match failed {
        Failed::Nothing => "the query is empty".to_owned(),
        Failed::Several => "only one statement is allowed".to_owned(),
        Failed::Writes => refused.to_owned(),
        Failed::Parameters => {
            "parameters (`?`) are not supported; write the values into the query".to_owned()
        }
        Failed::Sqlite(error) => match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => return limits.error(),
            Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) => {
                refused.to_owned()
            }
            Some(ErrorCode::OutOfMemory) => "the query needs too much memory".to_owned(),
            // These errors concern the file, not the statement.
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
