//! A file as the ledger may see it: where a line of a file that many sessions share belongs to a
//! forgotten one, there are blanks. Whatever compares or stores reads through here.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use quipu_transcript::record::{DECODE_LIMIT, OVERSIZE_HEAD};

use super::read::{READ, Work};
use crate::truth::forgotten::shared_lines::{Judge, Verdict};

/// An open file, without lines of forgotten sessions.
#[derive(Debug)]
pub(crate) struct View {
    file: File,
    /// Bytes that read as blanks, in order.
    blanks: Vec<Range<u64>>,
}

impl View {
    /// With a judge, looks through the first `size` bytes of the file.
    pub(super) fn of(
        file: File,
        size: u64,
        judge: Option<&Judge<'_>>,
        work: &mut Work,
    ) -> Result<View> {
        let blanks = match judge {
            Some(judge) => blanks(&file, size, judge, work)?,
            None => Vec::new(),
        };
        Ok(View { file, blanks })
    }

    /// The same, where nobody counts.
    pub(crate) fn through(file: File, size: u64, judge: Option<&Judge<'_>>) -> Result<View> {
        View::of(file, size, judge, &mut Work::default())
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

/// Where lines of forgotten sessions stand, without their newlines.
fn blanks(file: &File, size: u64, judge: &Judge<'_>, work: &mut Work) -> Result<Vec<Range<u64>>> {
    let mut blanks = Vec::new();
    let mut line = Line::default();
    let mut buffer = vec![0; READ];
    let mut at = 0;
    while at < size {
        let wanted = READ.min(usize::try_from(size - at).unwrap_or(READ));
        let got = match file.read_at(buffer.get_mut(..wanted).unwrap_or_default(), at) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // The next read may get further, and what was forgotten would be collected again.
            Err(error) => return Err(error),
        };
        work.bytes_verified += got as u64;
        let mut rest = buffer.get(..got).unwrap_or_default();
        while let Some(newline) = memchr::memchr(b'\n', rest) {
            let (now, later) = rest.split_at(newline);
            line.add(now);
            at += now.len() as u64;
            blanks.extend(line.end(at, judge));
            at += 1;
            rest = later.get(1..).unwrap_or_default();
        }
        line.add(rest);
        at += rest.len() as u64;
    }
    blanks.extend(line.end(at, judge));
    Ok(blanks)
}

/// A line as it is read. Of one that is too long for memory, both ends are kept.
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

    /// Ends the line at `at`. Returns where it stands if it is forgotten.
    fn end(&mut self, at: u64, judge: &Judge<'_>) -> Option<Range<u64>> {
        let line = std::mem::take(self);
        let verdict = match line.is_long {
            true => judge.judge_torn(&line.bytes),
            false => judge.judge(&line.bytes),
        };
        (verdict == Verdict::Forgotten && line.length > 0).then(|| at - line.length..at)
    }
}
