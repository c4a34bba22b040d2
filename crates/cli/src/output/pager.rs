//! The destination of results: standard output, or a pager if they are longer than the screen.

use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use signal_hook::consts::SIGINT;

use super::backlog::Backlog;

/// The destination of results.
#[derive(Debug)]
pub(super) enum Sink {
    Stdout(BufWriter<Backlog<io::Stdout>>),
    /// Not more than a screen so far.
    Screen {
        held: Vec<u8>,
        lines: usize,
        rows: usize,
    },
    Pager {
        // Dropped before the child, which has to see the end of its input.
        input: BufWriter<Backlog<ChildStdin>>,
        child: Child,
    },
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
            *self = Sink::Screen { held: Vec::new(), lines: 0, rows };
        }
        Ok(())
    }

    /// Writes the rest, and waits until the pager has ended.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match std::mem::replace(self, Sink::new()) {
            Sink::Stdout(mut stdout) => stdout.flush(),
            Sink::Screen { held, .. } => {
                self.write_all(&held)?;
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
        let Sink::Screen { held, .. } = self else { return Ok(()) };
        let held = std::mem::take(held);
        *self = pager().unwrap_or_else(Sink::new);
        self.write_all(&held)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Stdout(stdout) => stdout.write(bytes),
            Sink::Pager { input, .. } => input.write(bytes),
            Sink::Screen { held, lines, rows } => {
                held.extend_from_slice(bytes);
                *lines += memchr::memchr_iter(b'\n', bytes).count();
                // The shell's prompt after it needs a line too.
                if *lines + 1 > *rows {
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

/// Starts the pager. Returns `None` if it cannot be started.
fn pager() -> Option<Sink> {
    let pager = command()?;
    let is_plain = |text: &str| !text.contains(|sign: char| "|&;<>()$`\\\"'*?[#~=%".contains(sign));
    // The command comes from the user's environment; results are passed as data only.
    let mut shell = match pager.to_str().filter(|pager| is_plain(pager)) {
        // Without a shell, a missing program is noticed at once.
        Some(plain) => {
            let mut words = plain.split_whitespace();
            let mut program = Command::new(words.next()?);
            program.args(words);
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
