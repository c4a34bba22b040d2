//! The one place that prints: results to stdout, messages and progress to stderr.
//!
//! It decides about colour and width, and it takes only [`Text`], whose every piece went through
//! [`safe`](safe::safe): no string from outside reaches a terminal as it is.

mod ask;
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

use serde::Serialize;

pub(crate) use markdown::{markdown, plain};
pub(crate) use number::{
    ID_LETTERS, ShortIds, ago, bytes, count, day, dollars, elapsed, long_lines, minute, now_ms,
    number, ratio, second, short, short_id,
};
pub(crate) use progress::{Bar, Line};
pub(crate) use safe::safe;
pub(crate) use table::{Column, WIDEST_IN_PIPE};
pub(crate) use text::{Look, Text};

use crate::args::ColorWhen;
use crate::error::CommandError;
use crate::shell::Shell;
use pager::Sink;

/// The width of a terminal that does not say how wide it is.
const ORDINARY_WIDTH: usize = 80;

/// Labels of facts are followed by at least this many columns, or stand on a line of their own.
const ROOM_FOR_FACTS: usize = 24;

/// How much is said besides results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loudness {
    /// Errors only.
    Quiet,
    /// Warnings, summaries and progress.
    Ordinary,
    /// Log lines too, which progress would get in the way of.
    Verbose,
}

/// Where everything that is said goes through.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: Sink,
    loudness: Loudness,
    colours_stdout: bool,
    colours_stderr: bool,
    /// `None` where nobody's terminal limits a line: results in a pipe are not cut or wrapped.
    width: Option<usize>,
    stderr_width: Option<usize>,
    /// What the commands that a hint names begin with.
    shell: Shell,
}

impl Output {
    /// Looks at the terminal.
    pub(crate) fn new(color: ColorWhen, loudness: Loudness) -> Output {
        let stdout = io::stdout();
        let width = width_of(&stdout);
        let mut output = Output {
            stdout: Sink::new(),
            loudness,
            colours_stdout: false,
            colours_stderr: false,
            width,
            stderr_width: width_of(&io::stderr()),
            shell: Shell::default(),
        };
        output.set_color(color);
        output
    }

    /// Decides about colour again.
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

    /// From now on the commands that hints name have these options.
    pub(crate) fn set_shell(&mut self, shell: Shell) {
        self.shell = shell;
    }

    /// True if only results and errors are wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.loudness == Loudness::Quiet
    }

    /// Everything there is to say is asked for.
    pub(crate) fn is_verbose(&self) -> bool {
        self.loudness == Loudness::Verbose
    }

    /// From now on results that are longer than the screen go to a pager, if somebody looks.
    pub(crate) fn page(&mut self) -> io::Result<()> {
        self.stdout.page()
    }

    /// How wide a line of a result may be; `None` where nothing limits it.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// True if a person sees the results as they come.
    pub(crate) fn is_seen(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Writes one line of a result, wrapped.
    pub(crate) fn line(&mut self, text: impl Into<Text>) -> io::Result<()> {
        let text = text.into();
        let lines = match self.width {
            Some(width) => text.wrap(width),
            None => vec![text],
        };
        for line in lines {
            self.write(&line)?;
        }
        Ok(())
    }

    /// Writes an empty line.
    pub(crate) fn gap(&mut self) -> io::Result<()> {
        self.write(&Text::default())
    }

    /// Writes labels and what they stand for, one below the other and aligned.
    ///
    /// An empty label goes on with the one before.
    pub(crate) fn facts(&mut self, indent: usize, facts: &[(&str, Text)]) -> io::Result<()> {
        let labels = facts.iter().map(|(label, _)| Text::plain(label).width()).max().unwrap_or(0);
        let mut column = indent + labels + 2;
        // Where everything is short, little room is enough.
        let widest = facts.iter().map(|(_, text)| text.width()).max().unwrap_or(0);
        let room = widest.min(ROOM_FOR_FACTS);
        let is_tight = self.width.is_some_and(|width| width < column + room);
        if is_tight {
            column = indent + 2;
        }
        for (label, text) in facts {
            let label = Text::of(Look::Dim, *label);
            let mut start = Text::plain(" ".repeat(indent));
            if is_tight && !label.is_empty() {
                self.write(&start.join(label))?;
                start = Text::plain(" ".repeat(column));
            } else {
                let free = column - indent - label.width();
                start = start.join(label).and(" ".repeat(free));
            }
            let lines = match self.width {
                Some(width) => text.wrap(width.saturating_sub(column)),
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

    /// Writes bytes as they are. Only for where no terminal sees them.
    pub(crate) fn exact(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_seen() {
            return self.verbatim(&String::from_utf8_lossy(bytes));
        }
        self.stdout.write_all(bytes)
    }

    /// Writes the lines of a file as they are, neither cut nor wrapped.
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

    /// Writes a file that quipu made of itself, as it is: a script, a manual page.
    pub(crate) fn file(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stdout.write_all(bytes)
    }

    /// Writes one JSON object on one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let json = serde_json::to_string(value)?;
        self.stdout.write_all(safe::safe_json(&json).as_bytes())?;
        self.stdout.write_all(b"\n")
    }

    /// Writes what clap says about itself, with or without its own colours.
    pub(crate) fn help(&mut self, help: &clap::builder::StyledStr) -> io::Result<()> {
        if self.colours_stdout {
            write!(self.stdout, "{}", help.ansi())
        } else {
            write!(self.stdout, "{help}")
        }
    }

    /// Writes what clap found wrong with the arguments.
    pub(crate) fn usage_error(&self, error: &clap::builder::StyledStr) {
        let shown = if self.colours_stderr { error.ansi().to_string() } else { error.to_string() };
        // There is nowhere left to report a failure to.
        let _ = io::stderr().write_all(shown.as_bytes());
    }

    /// Writes what happened on the way to a result to stderr.
    pub(crate) fn note(&self, note: &str) {
        if !self.is_quiet() {
            self.message(Look::Dim, "", note);
        }
    }

    /// Writes a warning to stderr.
    pub(crate) fn warn(&self, warning: &str, hint: Option<&str>) {
        if self.is_quiet() {
            return;
        }
        self.message(Look::Warning, "warning: ", warning);
        if let Some(hint) = hint {
            self.message(Look::Dim, "hint: ", &self.shell.sentence(hint));
        }
    }

    /// Writes an error, what caused it and what to do about it to stderr.
    pub(crate) fn error(&self, error: &CommandError) {
        let mut causes = error.causes();
        if let Some(first) = causes.next() {
            self.message(Look::Bad, "error: ", &first);
        }
        for cause in causes {
            self.message(Look::Plain, "  caused by: ", &cause);
        }
        for hint in &error.hints {
            // An indented hint goes on with the one before.
            let label = if hint.starts_with(' ') { "    " } else { "hint: " };
            self.message(Look::Dim, label, &self.shell.sentence(hint));
        }
    }

    /// Asks whether to go on. `None` if nobody is there to answer.
    pub(crate) fn ask(&mut self, question: impl Into<Text>) -> io::Result<Option<bool>> {
        // What is asked about has to be seen first.
        self.stdout.flush()?;
        let question = question.into();
        let lines = match self.stderr_width {
            Some(width) => question.wrap(width.saturating_sub(ask::ROOM)),
            None => vec![question],
        };
        ask::ask(&lines, self.colours_stderr)
    }

    /// How wide a choice of [`pick`](Output::pick) may be.
    pub(crate) fn choice_width(&self) -> usize {
        self.stderr_width.unwrap_or(ORDINARY_WIDTH).saturating_sub(ask::NUMBER)
    }

    /// Asks which of some things is meant. `None` if nobody says.
    pub(crate) fn pick(&mut self, question: &str, choices: Vec<Text>) -> io::Result<Option<usize>> {
        self.stdout.flush()?;
        let width = self.choice_width();
        let choices: Vec<Text> = choices.into_iter().map(|choice| choice.shorten(width)).collect();
        ask::pick(&Text::plain(question), &choices, self.colours_stderr)
    }

    /// Starts to show how far something is, if anybody looks.
    pub(crate) fn bar(&self) -> Bar {
        let is_seen = self.loudness == Loudness::Ordinary && io::stderr().is_terminal();
        Bar::new(is_seen, self.colours_stderr)
    }

    /// A line for a state that changes, if it is wanted and anybody looks.
    pub(crate) fn status_line(&self, is_wanted: bool) -> Line {
        let is_seen = self.loudness == Loudness::Ordinary
            && io::stderr().is_terminal()
            && io::stdout().is_terminal()
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Line::new(self.stderr_width.filter(|_| is_wanted && is_seen))
    }

    /// Hands over what was written so far: somebody waits for it before the next thing happens.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }

    /// Writes what is still held back.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.stdout.finish()
    }

    fn write(&mut self, line: &Text) -> io::Result<()> {
        let line = line.render(self.colours_stdout);
        self.stdout.write_all(line.trim_end_matches(' ').as_bytes())?;
        self.stdout.write_all(b"\n")
    }

    fn message(&self, look: Look, label: &str, message: &str) {
        let mut start = Text::of(look, label);
        let indent = start.width();
        let message = Text::plain(message);
        let lines = match self.stderr_width {
            Some(width) => message.wrap(width.saturating_sub(indent)),
            None => vec![message],
        };
        let mut shown = String::new();
        for line in lines {
            let line = std::mem::replace(&mut start, " ".repeat(indent).into()).join(line);
            shown.push_str(&line.render(self.colours_stderr));
            shown.push('\n');
        }
        // One write per message; there is nowhere left to report a failure to.
        let _ = io::stderr().write_all(shown.as_bytes());
    }
}

/// A writer for log lines: they too pass the choke point.
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

/// How wide lines may be: what the terminal says, `COLUMNS`, or what is usual.
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
