//! A file without the lines of forgotten sessions: where many sessions share a file, such lines
//! read as blanks. Everything that compares or stores bytes of a source reads through this module.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use quipu_transcript::record::{DECODE_LIMIT, OVERSIZE_HEAD};

use super::forgotten::FileGate;
use super::read::{READ_BYTES, Work};

/// An open file in which lines of forgotten sessions read as blanks.
#[derive(Debug)]
pub(crate) struct View {
    file: File,
    /// The ranges that read as blanks, in order.
    blanks: Vec<Range<u64>>,
}

impl View {
    /// Wraps a file. If lines have to be judged, reads its first `size` bytes to find forgotten
    /// ones.
    pub(super) fn of(file: File, size: u64, gate: FileGate<'_>, work: &mut Work) -> Result<View> {
        let blanks = match gate.judges_lines() {
            true => blanks(&file, size, gate, work)?,
            false => Vec::new(),
        };
        Ok(View { file, blanks })
    }

    /// Wraps a file without counting the work.
    pub(crate) fn through(file: File, size: u64, gate: FileGate<'_>) -> Result<View> {
        View::of(file, size, gate, &mut Work::default())
    }

    pub(super) fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize> {
        let got = self.file.read_at(buffer, at)?;
        let end = at + got as u64;
        let first = self.blanks.partition_point(|range| range.end <= at);
        for range in self.blanks.iter().skip(first).take_while(|range| range.start < end) {
            let within = range.start.max(at) - at..range.end.min(end) - at;
            buffer
                .get_mut(within.start as usize..within.end as usize)
                .unwrap_or_default()
                .fill(b' ');
        }
        Ok(got)
    }

    pub(super) fn read_exact_at(&self, mut buffer: &mut [u8], mut at: u64) -> Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, at) {
                Ok(0) => return Err(Error::from(ErrorKind::UnexpectedEof)),
                Ok(got) => {
                    buffer = buffer.get_mut(got..).unwrap_or_default();
                    at += got as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns the ranges of lines of forgotten sessions, without their newlines.
fn blanks(file: &File, size: u64, gate: FileGate<'_>, work: &mut Work) -> Result<Vec<Range<u64>>> {
    let mut blanks = Vec::new();
    let mut line = Line::default();
    let mut buffer = vec![0; READ_BYTES];
    let mut at = 0;
    while at < size {
        let wanted = READ_BYTES.min(usize::try_from(size - at).unwrap_or(READ_BYTES));
        let got = match file.read_at(buffer.get_mut(..wanted).unwrap_or_default(), at) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // A later read may get further and would collect forgotten lines, so the error is
            // returned.
            Err(error) => return Err(error),
        };
        work.bytes_verified += got as u64;
        let mut rest = buffer.get(..got).unwrap_or_default();
        while let Some(newline) = memchr::memchr(b'\n', rest) {
            let (now, later) = rest.split_at(newline);
            line.add(now);
            at += now.len() as u64;
            blanks.extend(line.end(at, gate));
            at += 1;
            rest = later.get(1..).unwrap_or_default();
        }
        line.add(rest);
        at += rest.len() as u64;
    }
    blanks.extend(line.end(at, gate));
    Ok(blanks)
}

/// A line as it is read. Of a line that is too long for memory, both ends are kept.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    length: u64,
    is_long: bool,
}

impl Line {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.length += bytes.len() as u64;
        self.is_long |= self.bytes.len() > DECODE_LIMIT;
        if self.is_long && self.bytes.len() > 4 * OVERSIZE_HEAD {
            let end = self.bytes.len() - OVERSIZE_HEAD;
            self.bytes.drain(OVERSIZE_HEAD..end);
        }
    }

    /// Ends the line at `at`. Returns its range if it is forgotten.
    fn end(&mut self, at: u64, gate: FileGate<'_>) -> Option<Range<u64>> {
        let line = std::mem::take(self);
        let is_forgotten = match line.is_long {
            true => gate.is_long_line_forgotten(&line.bytes),
            false => gate.is_line_forgotten(&line.bytes),
        };
        (is_forgotten && line.length > 0).then(|| at - line.length..at)
    }
}
