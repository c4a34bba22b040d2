//! Where results go: to standard output, or, when they are longer than the screen and somebody
//! looks, to a pager.

use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use signal_hook::consts::SIGINT;

/// Where results go.
#[derive(Debug)]
pub(super) enum Sink {
    Stdout(BufWriter<io::Stdout>),
    /// Not more than a screen so far.
    Screen {
        held: Vec<u8>,
        lines: usize,
        rows: usize,
    },
    Pager {
        // Before the child: it has to see the end of its input.
        input: BufWriter<ChildStdin>,
        child: Child,
    },
}

impl Sink {
    pub(super) fn new() -> Sink {
        Sink::Stdout(BufWriter::new(io::stdout()))
    }

    /// From now on what is longer than a screen goes to a pager, if somebody looks.
    pub(super) fn page(&mut self) -> io::Result<()> {
        let Sink::Stdout(stdout) = self else { return Ok(()) };
        if !stdout.get_ref().is_terminal() || command().is_none() {
            return Ok(());
        }
        let Ok(size) = rustix::termios::tcgetwinsize(stdout.get_ref()) else { return Ok(()) };
        let rows = usize::from(size.ws_row);
        if rows > 0 {
            stdout.flush()?;
            *self = Sink::Screen { held: Vec::new(), lines: 0, rows };
        }
        Ok(())
    }

    /// Shows what is still held back, and waits until it was read.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match std::mem::replace(self, Sink::new()) {
            Sink::Stdout(mut stdout) => stdout.flush(),
            Sink::Screen { held, .. } => {
                self.write_all(&held)?;
                self.flush()
            }
            Sink::Pager { input, mut child } => {
                let flushed = input.into_inner().map(drop).map_err(|error| error.into_error());
                let waited = child.wait();
                flushed.and(waited.map(drop))
            }
        }
    }

    /// More than a screen: starts the pager. Without one, everything goes to the terminal.
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
                // The prompt that comes after it takes a line, too.
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

/// What to page with; `None` if that is nothing: a variable that is there and empty says so.
fn command() -> Option<OsString> {
    let said = std::env::var_os("QUIPU_PAGER").or_else(|| std::env::var_os("PAGER"));
    said.map_or_else(
        || Some("less".into()),
        |said| (!said.is_empty() && said != "cat").then_some(said),
    )
}

/// Starts the pager. `None` if it cannot be started; then everything goes to the terminal.
fn pager() -> Option<Sink> {
    let said = command()?;
    let is_plain = |text: &str| !text.contains(|sign: char| "|&;<>()$`\\\"'*?[#~=%".contains(sign));
    // Only what the person said is a command; what is shown goes in as data.
    let mut shell = match said.to_str().filter(|said| is_plain(said)) {
        // Without a shell in between, it is known at once whether there is such a program.
        Some(plain) => {
            let mut words = plain.split_whitespace();
            let mut program = Command::new(words.next()?);
            program.args(words);
            program
        }
        None => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(said);
            shell
        }
    };
    shell.stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        shell.env("LESS", "FRX");
    }
    // What is shown is UTF-8 whatever the locale says.
    if std::env::var_os("LESSCHARSET").is_none() {
        shell.env("LESSCHARSET", "utf-8");
    }
    let mut child = shell.spawn().ok()?;
    let input = BufWriter::new(child.stdin.take()?);
    // Ctrl-C is for the pager now; when it ends, writing to it does.
    let _ = signal_hook::flag::register(SIGINT, Arc::default());
    Some(Sink::Pager { input, child })
}
