//! `quipu sql`: a read-only SQL query.

use std::io::{IsTerminal, Read};
use std::sync::Arc;
use std::time::Duration;

use quipu_ledger::answer::SqlRow;
use quipu_ledger::freshness::Freshness;
use quipu_ledger::query::{SqlAnswer, SqlLimits};
use quipu_ledger::wire::SqlValue;
use quipu_transcript::render::csv;
use signal_hook::consts::SIGINT;

use super::Context;
use crate::error::{CommandError, Result};
use crate::output::{Column, Style, Text, count, number};
use crate::reading;

/// Run a read-only SQL query
///
/// The tables are described in docs/schema.md; `SELECT name, sql FROM
/// sqlite_schema` lists them too. One statement; it cannot write, attach or load
/// anything, and Ctrl-C interrupts it. Times are milliseconds since 1970, UTC.
///
/// On a terminal the rows are a table. In a pipe they are tab-separated lines;
/// the first line has the column names, and a tab or line break in a field is
/// written as \t or \n. Blobs are printed as hexadecimal digits.
///
/// Examples:
///   quipu sql "SELECT tool, count(*) FROM tool_calls GROUP BY 1 ORDER BY 2 DESC"
///   quipu sql --csv "SELECT session_id, title FROM sessions" > sessions.csv
///   quipu sql - < question.sql
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A SELECT statement; `-` reads it from standard input
    #[arg(value_name = "SQL")]
    statement: String,

    /// Print comma-separated values (RFC 4180)
    #[arg(long)]
    csv: bool,

    /// Stop the query after this many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,

    #[command(flatten)]
    reading: reading::Args,
}

/// Limit for the rows of a table on a terminal.
const MAX_ROWS: usize = 5000;

/// Limit for the length of a statement, in bytes.
const MAX_STATEMENT_BYTES: u64 = 1 << 20;

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let statement = match args.statement.as_str() {
        "-" => from_stdin()?,
        statement => statement.to_owned(),
    };
    let reading::Reading { ledger, freshness, .. } = reading::open_apart(context, args.reading)?;
    let limits = SqlLimits {
        stop: Arc::default(),
        longest: args.timeout.map(|seconds| Duration::from_secs(seconds.into())),
    };
    // Without a handler, Ctrl-C would end the process without a message. A second Ctrl-C ends it at
    // once, for example while the program that reads the rows has stopped reading.
    let _ = signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&limits.stop));
    let _ = signal_hook::flag::register(SIGINT, Arc::clone(&limits.stop));
    let shape = match (context.is_json, args.csv) {
        (true, _) => Shape::Json,
        (_, true) => Shape::Csv,
        _ if std::io::stdout().is_terminal() => Shape::Table,
        _ => Shape::Tabs,
    };
    if shape == Shape::Table {
        context.output.page()?;
    }
    let mut printer =
        Printer { context, freshness, shape, columns: Vec::new(), rows: Vec::new(), failed: None };
    quipu_ledger::query::sql(ledger, &statement, &limits, &mut |answer| printer.take(answer))?;
    printer.finish()
}

fn from_stdin() -> Result<String> {
    let mut statement = String::new();
    std::io::stdin().take(MAX_STATEMENT_BYTES + 1).read_to_string(&mut statement).map_err(
        |error| {
            CommandError::from_source(
                anyhow::Error::new(error).context("cannot read a statement from standard input"),
            )
        },
    )?;
    Ok(statement)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Json,
    Csv,
    Tabs,
    Table,
}

/// Prints rows as they arrive; a table after the last row, when its columns' widths are known.
struct Printer<'a> {
    context: &'a mut Context,
    freshness: Freshness,
    shape: Shape,
    columns: Vec<String>,
    rows: Vec<Vec<SqlValue>>,
    failed: Option<std::io::Error>,
}

impl Printer<'_> {
    fn take(&mut self, answer: SqlAnswer<'_>) -> bool {
        let output = &mut self.context.output;
        let written = match (answer, self.shape) {
            (SqlAnswer::Columns(columns), shape) => {
                self.columns = SqlRow::keys(columns);
                match shape {
                    Shape::Csv => output.csv(columns),
                    Shape::Tabs => output.tabbed(columns),
                    Shape::Json | Shape::Table => Ok(()),
                }
            }
            (SqlAnswer::Row(values), Shape::Json) => output.json(&SqlRow {
                keys: &self.columns,
                values,
                freshness: Some(&self.freshness),
            }),
            (SqlAnswer::Row(values), Shape::Csv) => {
                output.csv(&values.iter().map(spreadsheet_text).collect::<Vec<_>>())
            }
            (SqlAnswer::Row(values), Shape::Tabs) => {
                output.tabbed(&values.iter().map(SqlValue::to_text).collect::<Vec<_>>())
            }
            (SqlAnswer::Row(values), Shape::Table) => {
                self.rows.push(values.to_vec());
                return self.rows.len() <= MAX_ROWS;
            }
        };
        self.failed = written.err();
        self.failed.is_none()
    }

    fn finish(mut self) -> Result<()> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        if self.shape != Shape::Table {
            return Ok(());
        }
        let is_cut = self.rows.len() > MAX_ROWS;
        self.rows.truncate(MAX_ROWS);
        let shown = self.rows.len();
        let rows: Vec<Vec<Text>> =
            self.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        let columns = columns(&self.columns, &self.rows, &rows);
        let output = &mut self.context.output;
        output.table(0, &columns, rows)?;
        let mut note = count(shown as u64, "row");
        if is_cut {
            note = format!(
                "only the first {} rows; use LIMIT, --csv or --json to see the others",
                number(MAX_ROWS as u64)
            );
        }
        output.line(Text::styled(Style::Dim, note))?;
        Ok(())
    }
}

/// Chooses columns: numbers are aligned right, and the widest other column is cut.
fn columns<'a>(
    names: &'a [String],
    values: &[Vec<SqlValue>],
    cells: &[Vec<Text>],
) -> Vec<Column<'a>> {
    let is_number = |column: usize| {
        let is_text = |row: &Vec<SqlValue>| {
            matches!(row.get(column), Some(SqlValue::Text(_) | SqlValue::Blob(_)))
        };
        !values.is_empty() && !values.iter().any(is_text)
    };
    let width = |column: &usize| {
        cells.iter().filter_map(|row| row.get(*column)).map(Text::width).max().unwrap_or(0)
    };
    let widest = (0..names.len()).filter(|column| !is_number(*column)).max_by_key(width);
    let format_of = |(column, name): (usize, &'a String)| match column {
        column if is_number(column) => Column::numbers(name),
        column if Some(column) == widest => Column::title(name),
        _ => Column::words(name),
    };
    names.iter().enumerate().map(format_of).collect()
}

/// Number of characters after which a value is cut in a table. Other output formats print all of
/// it.
const MAX_CELL_CHARS: usize = 200;

fn cell(value: &SqlValue) -> Text {
    match value {
        SqlValue::Null => Text::styled(Style::Dim, "null"),
        value => {
            let text = value.to_text();
            match text.char_indices().nth(MAX_CELL_CHARS) {
                Some((end, _)) => Text::plain(text.get(..end).unwrap_or_default()).and("…"),
                None => Text::plain(text),
            }
        }
    }
}

/// Returns the value as a spreadsheet may read it: text of a transcript must not become a formula.
fn spreadsheet_text(value: &SqlValue) -> String {
    match value {
        SqlValue::Text(text) if csv::is_formula(text) => format!("'{text}"),
        value => value.to_text(),
    }
}
