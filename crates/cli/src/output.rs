//! Everything that is printed: results to stdout, messages and progress to stderr.
//!
//! Decides about colour and width, and takes only [`Text`], whose every piece went through
//! [`safe`](safe::safe): no string from outside reaches a terminal unescaped.

mod ask;
mod backlog;
mod diff;
mod link;
mod markdown;
mod number;
mod pager;
mod progress;
mod safe;
mod separated;
mod table;
mod text;

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;

use quipu_ledger::wire::ErrorReport;
use serde::Serialize;

pub(crate) use diff::{DiffLine, hunks};
pub(crate) use link::LinkId;
pub(crate) use markdown::{markdown, plain};
pub(crate) use number::{
    ID_LETTERS, ShortIds, ago, bytes, clock, count, day, dollars, duration, elapsed, ledger_ratio,
    long_lines, minute, now_ms, number, second, sessions, short, short_id,
};
pub(crate) use progress::{Bar, Line};
pub(crate) use safe::safe;
pub(crate) use table::{Column, WIDEST_IN_PIPE};
pub(crate) use text::{Style, Text};

use crate::args::ColorWhen;
use crate::error::{CommandError, Kind};
use crate::shell::Shell;
use pager::Sink;

/// Width of a terminal that does not report one.
const ORDINARY_WIDTH: usize = 80;

/// Columns that facts need after their labels; if there are fewer, labels get their own line.
const ROOM_FOR_FACTS: usize = 24;

/// The messages that are printed besides results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Errors only.
    Quiet,
    /// Warnings, summaries and progress.
    Ordinary,
    /// Log lines too, instead of progress.
    Verbose,
}

/// Prints results to stdout and messages to stderr.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: Sink,
    verbosity: Verbosity,
    colours_stdout: bool,
    colours_stderr: bool,
    /// `None` if lines have no limit: results in a pipe are not cut or wrapped.
    width: Option<usize>,
    stderr_width: Option<usize>,
    /// The beginning of commands in hints.
    shell: Shell,
    /// True if errors are printed as JSON.
    is_json: bool,
    /// How current the answer is, for the object of an error.
    freshness: Option<(Option<i64>, Option<u64>)>,
    /// True if an object was printed.
    has_json: bool,
    /// True if long results go to a pager.
    has_pager: bool,
}

impl Output {
    /// Detects the terminal.
    pub(crate) fn new(color: ColorWhen, verbosity: Verbosity) -> Output {
        let stdout = io::stdout();
        let width = width_of(&stdout);
        let mut output = Output {
            stdout: Sink::new(),
            verbosity,
            colours_stdout: false,
            colours_stderr: false,
            width,
            stderr_width: width_of(&io::stderr()),
            shell: Shell::default(),
            is_json: false,
            freshness: None,
            has_json: false,
            has_pager: true,
        };
        output.set_color(color);
        output
    }

    /// Sets the colour mode.
    pub(crate) fn set_color(&mut self, color: ColorWhen) {
        let decide = |is_terminal: bool| match color {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => {
                is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        };
        self.colours_stdout = decide(io::stdout().is_terminal());
        self.colours_stderr = decide(io::stderr().is_terminal());
    }

    /// Sets the options that commands in hints repeat.
    pub(crate) fn set_shell(&mut self, shell: Shell) {
        self.shell = shell;
    }

    /// Starts no pager.
    pub(crate) fn set_no_pager(&mut self) {
        self.has_pager = false;
    }

    /// Prints errors as JSON from now on.
    pub(crate) fn set_json(&mut self) {
        self.is_json = true;
    }

    /// Returns whether errors are printed as JSON.
    pub(crate) fn has_json_errors(&self) -> bool {
        self.is_json
    }

    /// Sets how current the answer is, for the object of an error.
    pub(crate) fn set_freshness(&mut self, fresh_as_of: Option<i64>, pending_bytes: Option<u64>) {
        self.freshness = Some((fresh_as_of, pending_bytes));
    }

    /// Returns whether [`set_freshness`](Output::set_freshness) was called.
    pub(crate) fn has_freshness(&self) -> bool {
        self.freshness.is_some()
    }

    /// Returns whether an object was printed.
    pub(crate) fn has_json(&self) -> bool {
        self.has_json
    }

    /// Returns a link to a file, if the terminal supports links.
    pub(crate) fn link(&self, path: &Path) -> Option<LinkId> {
        if self.has_links() { link::to_file(path) } else { None }
    }

    /// Returns whether the terminal supports links.
    pub(crate) fn has_links(&self) -> bool {
        let variable = |name: &str| std::env::var(name).ok();
        self.colours_stdout && self.is_seen() && link::is_supported(variable)
    }

    /// Returns whether only results and errors are printed (`--quiet`).
    pub(crate) fn is_quiet(&self) -> bool {
        self.verbosity == Verbosity::Quiet
    }

    /// Returns whether more details are printed (`--verbose`).
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    /// Sends results longer than the screen to a pager from now on, if stdout is a terminal.
    pub(crate) fn page(&mut self) -> io::Result<()> {
        if self.has_pager { self.stdout.page() } else { Ok(()) }
    }

    /// Sends results to a pager like [`page`](Output::page), which shows the line that
    /// [`mark`](Output::mark) marks.
    pub(crate) fn page_to_mark(&mut self) -> io::Result<()> {
        self.page()?;
        self.stdout.await_mark();
        Ok(())
    }

    /// Marks the next line of the result as the one to show.
    pub(crate) fn mark(&mut self) -> io::Result<()> {
        self.stdout.mark()
    }

    /// Returns the width of a line of a result; `None` if there is no limit.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Returns whether results go to a terminal.
    pub(crate) fn is_seen(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Writes one line of a result, wrapped.
    pub(crate) fn line(&mut self, text: impl Into<Text>) -> io::Result<()> {
        let text = text.into();
        let lines = match self.width {
            Some(width) => text.wrap_sentence(width),
            None => vec![text],
        };
        for line in lines {
            self.write(&line)?;
        }
        Ok(())
    }

    /// Writes one line of a result, wrapped; all lines but the first are indented by two more columns.
    pub(crate) fn hanging(&mut self, indent: usize, text: &Text) -> io::Result<()> {
        let Some(width) = self.width else {
            return self.write(&Text::plain(" ".repeat(indent)).join(text.clone()));
        };
        let mut start = " ".repeat(indent);
        for line in text.wrap_sentence(width.saturating_sub(indent + 2)) {
            self.write(&Text::plain(&start).join(line))?;
            start = " ".repeat(indent + 2);
        }
        Ok(())
    }

    /// Writes a command for the user to run: alone on its line and never broken, so that it can be
    /// copied.
    pub(crate) fn command(&mut self, indent: &str, command: &str) -> io::Result<()> {
        self.write(&Text::plain(indent).with(Style::Good, command))
    }

    /// Writes an empty line.
    pub(crate) fn gap(&mut self) -> io::Result<()> {
        self.write(&Text::default())
    }

    /// Writes labels and values, one below the other and aligned.
    ///
    /// A value with an empty label belongs to the label before it.
    pub(crate) fn facts(&mut self, indent: usize, facts: &[(&str, Text)]) -> io::Result<()> {
        let labels = facts.iter().map(|(label, _)| Text::plain(label).width()).max().unwrap_or(0);
        let mut column = indent + labels + 2;
        // If everything is short, less room is enough.
        let widest = facts.iter().map(|(_, text)| text.width()).max().unwrap_or(0);
        let room = widest.min(ROOM_FOR_FACTS);
        let is_tight = self.width.is_some_and(|width| width < column + room);
        if is_tight {
            column = indent + 2;
        }
        for (label, text) in facts {
            let label = Text::styled(Style::Dim, *label);
            let mut start = Text::plain(" ".repeat(indent));
            if is_tight && !label.is_empty() {
                self.write(&start.join(label))?;
                start = Text::plain(" ".repeat(column));
            } else {
                let free = column - indent - label.width();
                start = start.join(label).and(" ".repeat(free));
            }
            let lines = match self.width {
                Some(width) => text.wrap_sentence(width.saturating_sub(column)),
                None => vec![text.clone()],
            };
            for line in lines {
                self.write(
                    &std::mem::replace(&mut start, Text::plain(" ".repeat(column))).join(line),
                )?;
            }
        }
        Ok(())
    }

    /// Writes a table.
    pub(crate) fn table(
        &mut self,
        indent: usize,
        columns: &[Column],
        rows: Vec<Vec<Text>>,
    ) -> io::Result<()> {
        let width = self.width.map(|width| width.saturating_sub(indent));
        for line in table::lay_out(columns, rows, width) {
            self.write(&Text::plain(" ".repeat(indent)).join(line))?;
        }
        Ok(())
    }

    /// Writes a line that is laid out already.
    pub(crate) fn laid_out(&mut self, line: &Text) -> io::Result<()> {
        self.write(line)
    }

    /// Writes bytes unescaped, or escaped if results go to a terminal.
    pub(crate) fn exact(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_seen() {
            return self.verbatim(&String::from_utf8_lossy(bytes));
        }
        self.stdout.write_all(bytes)
    }

    /// Writes the lines of a file, neither cut nor wrapped.
    pub(crate) fn verbatim(&mut self, text: &str) -> io::Result<()> {
        for line in text.lines() {
            self.write(&Text::plain(line))?;
        }
        Ok(())
    }

    /// Writes one row of fields between tabs.
    pub(crate) fn tabbed(&mut self, fields: &[String]) -> io::Result<()> {
        self.stdout.write_all(separated::tabbed(fields).as_bytes())?;
        self.stdout.write_all(b"\n")
    }

    /// Writes one row of comma-separated values.
    pub(crate) fn csv(&mut self, fields: &[String]) -> io::Result<()> {
        self.stdout.write_all(separated::csv(fields).as_bytes())?;
        self.stdout.write_all(b"\r\n")
    }

    /// Writes a file that quipu generated, for example a script or a manual page.
    pub(crate) fn file(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stdout.write_all(bytes)
    }

    /// Writes one JSON object on one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let json = serde_json::to_string(value)?;
        self.has_json = true;
        self.stdout.write_all(safe::safe_json(&json).as_bytes())?;
        self.stdout.write_all(b"\n")
    }

    /// Writes clap's help, with or without colours.
    pub(crate) fn help(&mut self, help: &clap::builder::StyledStr) -> io::Result<()> {
        if self.colours_stdout {
            write!(self.stdout, "{}", help.ansi())
        } else {
            write!(self.stdout, "{help}")
        }
    }

    /// Writes clap's error about the arguments.
    pub(crate) fn usage_error(&self, error: &clap::builder::StyledStr) {
        let shown = if self.colours_stderr { error.ansi().to_string() } else { error.to_string() };
        // A failure to write to stderr cannot be reported.
        let _ = io::stderr().write_all(shown.as_bytes());
    }

    /// Writes a note to stderr, for example how a result was made.
    pub(crate) fn note(&self, note: &str) {
        if !self.is_quiet() {
            self.message(Style::Dim, "", note);
        }
    }

    /// Writes a warning to stderr.
    pub(crate) fn warn(&self, warning: &str, hint: Option<&str>) {
        if self.is_quiet() {
            return;
        }
        self.message(Style::Warning, "warning: ", warning);
        if let Some(hint) = hint {
            self.message(Style::Dim, "hint: ", &self.shell.sentence(hint));
        }
    }

    /// Writes an error, what caused it and what to do about it to stderr.
    pub(crate) fn error(&self, error: &CommandError) {
        if self.is_json {
            return self.error_object(error);
        }
        let mut causes = error.causes();
        if let Some(first) = causes.next() {
            self.message(Style::Bad, "error: ", &first);
        }
        for cause in causes {
            self.message(Style::Plain, "  caused by: ", &cause);
        }
        for hint in &error.hints {
            // An indented hint continues the one before.
            let label = if hint.starts_with(' ') { "    " } else { "hint: " };
            self.message(Style::Dim, label, &self.shell.sentence(hint));
        }
    }

    fn error_object(&self, error: &CommandError) {
        let causes: Vec<String> = error.causes().collect();
        let hints: Vec<String> = error.hints.iter().map(|hint| self.shell.sentence(hint)).collect();
        let freshness = self.freshness.filter(|_| error.kind == Kind::NoMatch);
        let object = ErrorReport {
            error: error.word(),
            message: causes.join(": "),
            hint: (!hints.is_empty()).then(|| hints.join("\n")),
            fresh_as_of: freshness.map(|(fresh_as_of, _)| fresh_as_of),
            pending_bytes: freshness.map(|(_, pending_bytes)| pending_bytes),
        };
        if let Ok(json) = serde_json::to_string(&object) {
            let line = format!("{}\n", safe::safe_json(&json));
            // A failure to write to stderr cannot be reported.
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    /// Asks for confirmation. Returns `None` without a terminal.
    pub(crate) fn ask(&mut self, question: impl Into<Text>) -> io::Result<Option<bool>> {
        // The result so far has to be visible before the question.
        self.stdout.flush()?;
        let question = question.into();
        let lines = match self.stderr_width {
            Some(width) => question.wrap_sentence(width.saturating_sub(ask::ROOM)),
            None => vec![question],
        };
        ask::ask(&lines, self.colours_stderr)
    }

    /// Returns the width of a choice of [`pick`](Output::pick).
    pub(crate) fn choice_width(&self) -> usize {
        self.stderr_width.unwrap_or(ORDINARY_WIDTH).saturating_sub(ask::NUMBER)
    }

    /// Asks which one of several is meant. Returns `None` without a terminal or an answer.
    pub(crate) fn pick(&mut self, question: &str, choices: Vec<Text>) -> io::Result<Option<usize>> {
        self.pick_with(question, choices, None)
    }

    fn pick_with(
        &mut self,
        question: &str,
        choices: Vec<Text>,
        default: Option<usize>,
    ) -> io::Result<Option<usize>> {
        self.stdout.flush()?;
        let width = self.choice_width();
        let choices: Vec<Text> = choices.into_iter().map(|choice| choice.shorten(width)).collect();
        ask::pick(&Text::plain(question), &choices, default, self.colours_stderr)
    }

    /// Asks which one of several is meant; Return means the first one. Without a terminal, returns
    /// the first one. Returns `None` if the input ends without an answer.
    pub(crate) fn pick_or_first(
        &mut self,
        question: &str,
        choices: Vec<Text>,
    ) -> io::Result<Option<usize>> {
        if !(self.is_seen() && ask::has_terminal()) {
            return Ok(Some(0));
        }
        self.pick_with(question, choices, Some(0))
    }

    /// Starts a progress bar, which shows only on a terminal.
    pub(crate) fn bar(&self) -> Bar {
        let is_seen = self.verbosity == Verbosity::Ordinary && io::stderr().is_terminal();
        Bar::new(is_seen, self.colours_stderr)
    }

    /// Returns a line for a changing state, which shows only on a terminal and if wanted.
    pub(crate) fn status_line(&self, is_wanted: bool) -> Line {
        let is_seen = self.verbosity == Verbosity::Ordinary
            && io::stderr().is_terminal()
            && io::stdout().is_terminal()
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Line::new(self.stderr_width.filter(|_| is_wanted && is_seen))
    }

    /// Writes all buffered output, for a caller that waits for it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }

    /// Writes the rest of the buffered output, and waits for the pager.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.stdout.finish()
    }

    fn write(&mut self, line: &Text) -> io::Result<()> {
        let line = line.render(self.colours_stdout);
        self.stdout.write_all(line.trim_end_matches(' ').as_bytes())?;
        self.stdout.write_all(b"\n")
    }

    fn message(&self, style: Style, label: &str, message: &str) {
        let mut start = Text::styled(style, label);
        let indent = start.width();
        let message = Text::plain(message);
        let lines = match self.stderr_width {
            Some(width) => message.wrap_sentence(width.saturating_sub(indent)),
            None => vec![message],
        };
        let mut shown = String::new();
        for line in lines {
            let line = std::mem::replace(&mut start, " ".repeat(indent).into()).join(line);
            shown.push_str(&line.render(self.colours_stderr));
            shown.push('\n');
        }
        // One write per message. A failure cannot be reported.
        let _ = io::stderr().write_all(shown.as_bytes());
    }
}

/// Returns the width of lines of standard output; `None` if there is no limit.
pub(crate) fn stdout_width() -> Option<usize> {
    width_of(&io::stdout())
}

/// A writer for log lines, which escapes them too.
#[derive(Debug)]
pub(crate) struct LogLines;

impl Write for LogLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = safe(text.strip_suffix('\n').unwrap_or(&text)).into_owned();
        io::stderr().write_all(format!("{text}\n").as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Returns the width of lines: from the terminal, from `COLUMNS`, or the default.
fn width_of(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    if !stream.is_terminal() {
        return columns_variable();
    }
    let size = rustix::termios::tcgetwinsize(stream).ok();
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    Some(columns.or_else(columns_variable).unwrap_or(ORDINARY_WIDTH))
}

fn columns_variable() -> Option<usize> {
    let columns = std::env::var_os("COLUMNS");
    columns.as_deref().and_then(OsStr::to_str)?.parse().ok().filter(|columns| *columns > 0)
}
