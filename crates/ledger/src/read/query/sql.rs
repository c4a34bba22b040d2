//! A person's own question, in SQL. It can read everything that is documented and change nothing.
//!
//! Four walls, any of which would do: the file is opened read-only, the connection is `query_only`,
//! an authorizer refuses whatever is not reading while the statement is prepared, and a statement
//! that SQLite itself does not call read-only is not run.

use std::path::Path;
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

/// Rows are handed over in batches of about so many bytes.
const BATCH: usize = 1 << 16;

/// How often the caller looks whether it is over while it waits for rows.
const LOOK: Duration = Duration::from_millis(20);

/// How long a statement may take to end by itself once it is over, so that the rows before that
/// are not lost. SQLite looks between two steps, never inside a function.
const GRACE: Duration = Duration::from_millis(300);

/// Runs one statement on the ledger at `path`. `take` gets the answer piece by piece and says
/// whether it wants more.
///
/// The statement runs on a thread of its own. SQLite cannot be interrupted inside a function
/// (`LIKE`, `replace` and `printf` can take hours), so a thread that does not end is left behind: it
/// can only read, and ends with its function or with the process.
pub fn sql(
    path: &Path,
    statement: &str,
    limits: &SqlLimits,
    take: &mut dyn FnMut(SqlAnswer<'_>) -> bool,
) -> Result<()> {
    let end = limits.longest.map(|longest| Instant::now() + longest);
    let over = Over { stop: Arc::clone(&limits.stop), end };
    // One batch is printed while the next is filled.
    let (sender, receiver) = mpsc::sync_channel(1);
    let (path, statement, its_over) = (path.to_owned(), statement.to_owned(), over.clone());
    let work = move || {
        let mut batch = Batched { sender, rows: Vec::new(), bytes: 0 };
        let done = question(&path, &statement, its_over, &mut batch);
        batch.flush();
        // The caller may have left.
        let _ = batch.sender.send(Piece::Done(done));
    };
    std::thread::Builder::new()
        .name("sql".to_owned())
        .spawn(work)
        .map_err(Error::io("start a thread for", "the statement"))?;
    let mut over_since = None;
    loop {
        match receiver.recv_timeout(LOOK) {
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
                return Err(Error::Sql { message: "the statement ended without an answer".into() });
            }
        }
        if over.is_over() && over_since.get_or_insert_with(Instant::now).elapsed() >= GRACE {
            return Err(over.error());
        }
    }
}

/// A part of the answer, on its way to the caller.
enum Piece {
    Columns(Vec<String>),
    Rows(Vec<Vec<SqlValue>>),
    Done(Result<()>),
}

/// Collects rows until they are worth handing over.
struct Batched {
    sender: SyncSender<Piece>,
    rows: Vec<Vec<SqlValue>>,
    bytes: usize,
}

impl Batched {
    /// Takes a row, and returns whether more are wanted.
    fn row(&mut self, row: Vec<SqlValue>) -> bool {
        let long = |value: &SqlValue| match value {
            SqlValue::Text(text) => text.len(),
            SqlValue::Blob(bytes) => bytes.len(),
            _ => 0,
        };
        self.bytes += row.iter().map(|value| size_of::<SqlValue>() + long(value)).sum::<usize>();
        self.rows.push(row);
        self.bytes < BATCH || self.flush()
    }

    fn flush(&mut self) -> bool {
        self.bytes = 0;
        let rows = std::mem::take(&mut self.rows);
        rows.is_empty() || self.sender.send(Piece::Rows(rows)).is_ok()
    }
}

/// When a statement has to end.
#[derive(Clone)]
struct Over {
    stop: Arc<AtomicBool>,
    end: Option<Instant>,
}

impl Over {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.end.is_some_and(|end| Instant::now() >= end)
    }

    fn error(&self) -> Error {
        match self.stop.load(Ordering::Relaxed) {
            true => Error::Interrupted,
            false => Error::Sql { message: "it took too long".to_owned() },
        }
    }
}

/// Asks, on the statement's own thread.
fn question(path: &Path, statement: &str, over: Over, batch: &mut Batched) -> Result<()> {
    let mut ledger = Ledger::open_read_only(path)?;
    confine(ledger.conn_mut(), over.clone())?;
    run(ledger.conn(), statement, batch).map_err(|error| said(error, &over))
}

fn confine(conn: &mut Connection, over: Over) -> Result<()> {
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "hard_heap_limit", MOST_MEMORY)?;
    conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)?;
    conn.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, LONGEST_SQL)?;
    conn.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    conn.progress_handler(STEPS, Some(move || over.is_over()))?;
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
fn said(failed: Failed, over: &Over) -> Error {
    let refused = "only reading is possible";
    let message = match failed {
        Failed::Nothing => "there is no statement".to_owned(),
        Failed::Several => "one statement at a time, please".to_owned(),
        Failed::Writes => refused.to_owned(),
        Failed::Parameters => "values have to stand in the statement; it has a `?`".to_owned(),
        Failed::Sqlite(error) => match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => return over.error(),
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
