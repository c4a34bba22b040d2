//! Writes exported sessions to standard output.

use std::io::{self, Write};

use quipu_ledger::export::{ExportFailure, Lines};

use crate::error::CommandError;
use crate::output::Output;

/// Used only for writing to standard output.
impl From<ExportFailure> for CommandError {
    fn from(failure: ExportFailure) -> CommandError {
        match failure {
            ExportFailure::Ledger(error) => error.into(),
            ExportFailure::Out(error) => error.into(),
        }
    }
}

/// Standard output. A terminal gets whole lines, escaped.
pub(super) struct Stdout<'o> {
    output: &'o mut Output,
    is_seen: bool,
    lines: Lines,
}

impl<'o> Stdout<'o> {
    pub(super) fn new(output: &'o mut Output) -> Stdout<'o> {
        let is_seen = output.is_seen();
        Stdout { output, is_seen, lines: Lines::default() }
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        let output = &mut self.output;
        self.lines.end(&mut |line| output.exact(line))
    }
}

impl Write for Stdout<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let output = &mut self.output;
        if self.is_seen {
            self.lines.add(bytes, &mut |line| output.exact(line))?;
        } else {
            output.exact(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
