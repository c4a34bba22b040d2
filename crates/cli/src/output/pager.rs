//! The destination of results: standard output, or a pager if they are longer than the screen.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use signal_hook::consts::SIGINT;

use super::backlog::Backlog;

/// The destination of results.
#[derive(Debug)]
pub(super) enum Sink {
    Stdout(BufWriter<Backlog<io::Stdout>>),
    /// The results fit on the screen so far.
    Screen {
        buffered: Vec<u8>,
        lines: usize,
        rows: usize,
        mark: Mark,
    },
    Pager {
        // Dropped before the child, which has to see the end of its input.
        input: BufWriter<Backlog<ChildStdin>>,
        child: Child,
    },
}

/// A line that the pager shows first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// There is none: the pager starts at the beginning.
    None,
    /// It is not written yet. Until then the pager is not started, because its command names it.
    Awaited,
    /// Its number, counted from 1.
    Line(usize),
}

impl Sink {
    pub(super) fn new() -> Sink {
        Sink::Stdout(BufWriter::new(Backlog::new(io::stdout())))
    }

    /// Sends results longer than a screen to a pager from now on, if stdout is a terminal.
    pub(super) fn page(&mut self) -> io::Result<()> {
        let Sink::Stdout(stdout) = self else { return Ok(()) };
        let out = stdout.get_ref().out();
        if !out.is_terminal() || command().is_none() {
            return Ok(());
        }
        let Ok(size) = rustix::termios::tcgetwinsize(out) else { return Ok(()) };
        let rows = usize::from(size.ws_row);
        if rows > 0 {
            stdout.flush()?;
            *self = Sink::Screen { buffered: Vec::new(), lines: 0, rows, mark: Mark::None };
        }
        Ok(())
    }

    /// Does not start the pager before [`mark`](Sink::mark) is called.
    pub(super) fn await_mark(&mut self) {
        if let Sink::Screen { mark, .. } = self {
            *mark = Mark::Awaited;
        }
    }

    /// Marks the next line as the one that the pager shows first.
    pub(super) fn mark(&mut self) -> io::Result<()> {
        if let Sink::Screen { lines, mark, rows, .. } = self {
            *mark = Mark::Line(*lines + 1);
            if *lines + 1 > *rows {
                self.start()?;
            }
        }
        Ok(())
    }

    /// Writes the rest, and waits until the pager has ended.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match std::mem::replace(self, Sink::new()) {
            Sink::Stdout(mut stdout) => stdout.flush(),
            // The line that `await_mark` announced was never written.
            Sink::Screen { buffered, lines, rows, .. } if lines + 1 > rows => {
                *self = pager(Mark::None).unwrap_or_else(Sink::new);
                self.write_all(&buffered)?;
                self.finish()
            }
            Sink::Screen { buffered, .. } => {
                self.write_all(&buffered)?;
                self.flush()
            }
            Sink::Pager { mut input, mut child } => {
                let flushed = input.flush();
                // The pager has to see the end of its input.
                drop(input);
                let waited = child.wait();
                flushed.and(waited.map(drop))
            }
        }
    }

    /// Starts the pager. Without one, everything goes to the terminal.
    fn start(&mut self) -> io::Result<()> {
        let Sink::Screen { buffered, mark, .. } = self else { return Ok(()) };
        let (buffered, mark) = (std::mem::take(buffered), *mark);
        *self = pager(mark).unwrap_or_else(Sink::new);
        self.write_all(&buffered)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Stdout(stdout) => stdout.write(bytes),
            Sink::Pager { input, .. } => input.write(bytes),
            Sink::Screen { buffered, lines, rows, mark } => {
                buffered.extend_from_slice(bytes);
                *lines += memchr::memchr_iter(b'\n', bytes).count();
                // The shell's next prompt needs a line too.
                if *lines + 1 > *rows && *mark != Mark::Awaited {
                    self.start()?;
                }
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Stdout(stdout) => stdout.flush(),
            Sink::Screen { .. } => Ok(()),
            Sink::Pager { input, .. } => input.flush(),
        }
    }
}

/// Returns the pager's command; `None` if the variable is empty or `cat`.
fn command() -> Option<OsString> {
    let pager = std::env::var_os("QUIPU_PAGER").or_else(|| std::env::var_os("PAGER"));
    pager.map_or_else(
        || Some("less".into()),
        |pager| (!pager.is_empty() && pager != "cat").then_some(pager),
    )
}

/// Number of lines that stay visible above a marked line.
const LINES_ABOVE_MARK: usize = 3;

/// Returns the option that makes `less` begin with a line.
fn first_line(program: &OsStr, mark: Mark) -> Option<String> {
    let is_less = Path::new(program).file_name().is_some_and(|name| name == "less");
    match mark {
        Mark::Line(line) if is_less && line > LINES_ABOVE_MARK => {
            Some(format!("+{}", line - LINES_ABOVE_MARK))
        }
        _ => None,
    }
}

/// Starts the pager. Returns `None` if it cannot be started.
fn pager(mark: Mark) -> Option<Sink> {
    let pager = command()?;
    let is_plain = |text: &str| !text.contains(|sign: char| "|&;<>()$`\\\"'*?[#~=%".contains(sign));
    // The command comes from the user's environment; results are passed as data only.
    let mut shell = match pager.to_str().filter(|pager| is_plain(pager)) {
        // Without a shell, a missing program is noticed at once.
        Some(plain) => {
            let mut words = plain.split_whitespace();
            let name = words.next()?;
            let mut program = Command::new(name);
            program.args(words).args(first_line(name.as_ref(), mark));
            program
        }
        None => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(pager);
            shell
        }
    };
    shell.stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        shell.env("LESS", "FRX");
    }
    // The output is UTF-8 in every locale.
    if std::env::var_os("LESSCHARSET").is_none() {
        shell.env("LESSCHARSET", "utf-8");
    }
    let mut child = shell.spawn().ok()?;
    let input = BufWriter::new(Backlog::new(child.stdin.take()?));
    // Ctrl-C is for the pager now. When it ends, writing to it fails.
    let _ = signal_hook::flag::register(SIGINT, Arc::default());
    Some(Sink::Pager { input, child })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_less_begins_with_a_line() {
        let first = |program: &str, mark| first_line(program.as_ref(), mark);
        assert_eq!(first("less", Mark::Line(40)).as_deref(), Some("+37"));
        assert_eq!(first("/usr/bin/less", Mark::Line(4)).as_deref(), Some("+1"));
        assert_eq!(first("less", Mark::Line(2)), None);
        assert_eq!(first("less", Mark::None), None);
        assert_eq!(first("more", Mark::Line(40)), None);
    }
}
