//! Finds the records in a line that is not exactly one JSON object.
//!
//! Crashes, full disks and concurrent writers leave lines of a few kinds: complete records joined
//! together, a torn record before a complete one, runs of NUL bytes, byte-order marks, and strings
//! with characters that JSON forbids. Everything that is certainly a record is recovered; all other
//! bytes are counted and stay in the raw record. Nothing is invented.
//!
//! The walk over a torn record stops close to the tear. Inside a string, the next record's first
//! quote closes that string, and the walk stops two bytes later. Between tokens, it stops at the
//! `{` itself. Where a value was due, the next record looks like a nested object that ends where
//! the walk stops. So only these places are tried, each walk begins where the last one stopped, and
//! every byte is read at most about three times.

mod scan;

use std::ops::Range;

use crate::entry::{Entry, Kind, Parent};
use crate::format::{Format, Origin};
use crate::problem::{Problem, ProblemKind};

use scan::{End, Oddities, Scan};

/// Decodes a line that the format's decoder refused.
pub(crate) fn read(
    format: &dyn Format,
    origin: &Origin,
    line: &[u8],
    each: &mut dyn FnMut(&Entry<'_>),
) -> Vec<Problem> {
    let mut recovery = Recovery::new(format, origin, line, each);
    recovery.run();
    recovery.problems()
}

/// Decodes the head of a record of `length` bytes: the complete records in it, and the fields of
/// the last one that are complete before the head ends.
pub(crate) fn read_head(
    format: &dyn Format,
    origin: &Origin,
    head: &[u8],
    length: u64,
    each: &mut dyn FnMut(&Entry<'_>),
) -> Vec<Problem> {
    let mut recovery = Recovery::new(format, origin, head, each);
    recovery.is_cut = true;
    recovery.run();
    let mut problems = recovery.problems();
    let detail = format!("{length} bytes, of which {} were read", head.len());
    problems.push(Problem::new(ProblemKind::Oversize, detail));
    problems
}

/// The reason why a `{` may begin a record, which decides the proof that it needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Evidence {
    /// The `{` begins the line or follows a complete record. Any object is a record.
    InPlace,
    /// The record before it is torn exactly there. It must end where a record can end, and have a
    /// type.
    Torn,
    /// The `{` is only the next one, or looks nested. Its type must also be known to the format.
    Weak,
}

struct Recovery<'r> {
    format: &'r dyn Format,
    origin: &'r Origin,
    line: &'r [u8],
    each: &'r mut dyn FnMut(&Entry<'_>),
    /// True if the line continues after these bytes.
    is_cut: bool,
    /// Records found.
    records: usize,
    /// The start of the bytes that belong to no record.
    lost_from: usize,
    /// The number of such bytes before a record.
    fragments: usize,
    /// The number of such bytes after the last record.
    leftover: usize,
    nuls: usize,
    marks: usize,
    oddities: Oddities,
    instead: Option<Instead>,
}

/// The content of a line without records.
#[derive(Clone, Copy)]
enum Instead {
    /// Bytes of this encoding.
    Encoded(&'static str),
    /// A JSON value that is not an object.
    NotObject,
}

impl<'r> Recovery<'r> {
    fn new(
        format: &'r dyn Format,
        origin: &'r Origin,
        line: &'r [u8],
        each: &'r mut dyn FnMut(&Entry<'_>),
    ) -> Self {
        Recovery {
            format,
            origin,
            line,
            each,
            is_cut: false,
            records: 0,
            lost_from: 0,
            fragments: 0,
            leftover: 0,
            nuls: 0,
            marks: 0,
            oddities: Oddities::default(),
            instead: None,
        }
    }

    /// Finds the records. Returns the number of bytes that all walks together read.
    fn run(&mut self) -> usize {
        if let Some(name) = encoding(self.line) {
            self.instead = Some(Instead::Encoded(name));
            return 0;
        }
        let start = self.pass_filler(0);
        self.lost_from = start;
        let mut scan = Scan::of(self.line);
        if self.peek(start).is_some_and(|byte| byte != b'{')
            && !self.is_cut
            && let End::Whole(end) = scan.run(start)
            && self.filler_end(end) == self.line.len()
        {
            self.pass_filler(end);
            self.instead = Some(Instead::NotObject);
            return scan.walked();
        }
        let mut next = Some((start, Evidence::InPlace));
        while let Some((at, evidence)) = next {
            next = match self.peek(at) {
                None => None,
                Some(b'{') => self.try_at(&mut scan, at, evidence),
                Some(_) => self.next_brace(at),
            };
        }
        self.leftover = self.line.len().saturating_sub(self.lost_from);
        scan.walked()
    }

    /// Walks the object that begins at `at`; returns the next offset to try.
    fn try_at(
        &mut self,
        scan: &mut Scan<'_>,
        at: usize,
        evidence: Evidence,
    ) -> Option<(usize, Evidence)> {
        let stuck = match scan.run(at) {
            End::Whole(end) => {
                let is_believed = evidence == Evidence::InPlace || self.can_follow(end);
                if is_believed && self.offer(scan.oddities(), scan.cleaned(), at..end, evidence) {
                    self.account(at, end);
                    return Some((self.lost_from, Evidence::InPlace));
                }
                return self.next_brace(end);
            }
            End::Broken(stuck) => stuck,
        };
        let last_closed = scan.last_closed();
        if stuck >= self.line.len()
            && self.is_cut
            && self.offer(scan.oddities(), scan.closed(), at..self.line.len(), evidence)
        {
            self.account(at, self.line.len());
            return None;
        }
        // The record may be torn where a value was due. The walk then read the next record as a
        // nested object, and stopped right after it.
        if let Some((start, end)) = last_closed
            && start > at
            && self.line.get(end..stuck).unwrap_or_default().trim_ascii().is_empty()
            && self.can_follow(stuck)
            && scan.run(start) == End::Whole(end)
            && self.offer(scan.oddities(), scan.cleaned(), start..end, Evidence::Weak)
        {
            self.account(start, end);
            return Some((self.lost_from, Evidence::InPlace));
        }
        if self.has_key(stuck) {
            return Some((stuck, Evidence::Torn));
        }
        if let Some(brace) = self.brace_before_quote(stuck)
            && brace > at
        {
            return Some((brace, Evidence::Torn));
        }
        let behind = self.filler_end(stuck);
        if self.has_key(behind) {
            return Some((behind, Evidence::Torn));
        }
        self.next_brace(stuck.max(at + 1))
    }

    /// Decodes a cleaned copy of a part of the line, and passes the entry on if it is accepted.
    fn offer(
        &mut self,
        oddities: Oddities,
        json: &[u8],
        part: Range<usize>,
        evidence: Evidence,
    ) -> bool {
        let Ok(mut entry) = self.format.decode(self.origin, json) else { return false };
        if !evidence.admits(&entry) {
            return false;
        }
        entry.part = (part != (0..self.line.len())).then_some(part);
        (self.each)(&entry);
        self.records += 1;
        self.oddities.add(oddities);
        true
    }

    /// Counts a record at `start..end`; unaccounted bytes before it are a fragment.
    fn account(&mut self, start: usize, end: usize) {
        self.fragments += start.saturating_sub(self.lost_from);
        self.lost_from = self.pass_filler(end);
    }

    /// Returns whether a record can end here: only filler or another object follows.
    fn can_follow(&self, end: usize) -> bool {
        matches!(self.peek(self.filler_end(end)), None | Some(b'{'))
    }

    /// Returns the `{` of a `{"` whose quote ended a torn string, for a walk that stopped at
    /// `stuck`.
    fn brace_before_quote(&self, stuck: usize) -> Option<usize> {
        let before = self.line.get(..stuck)?.strip_suffix(b"\"")?.trim_ascii_end();
        (before.last() == Some(&b'{')).then(|| before.len() - 1)
    }

    /// Returns whether an object with a key begins here.
    fn has_key(&self, at: usize) -> bool {
        let Some((b'{', behind)) = self.line.get(at..).and_then(<[u8]>::split_first) else {
            return false;
        };
        behind.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'"')
    }

    /// Returns the next object with a key.
    fn next_brace(&self, from: usize) -> Option<(usize, Evidence)> {
        memchr::memchr_iter(b'{', self.line.get(from..)?)
            .map(|at| from + at)
            .find(|at| self.has_key(*at))
            .map(|at| (at, Evidence::Weak))
    }

    /// Counts the filler that begins at `from`, and returns its end.
    fn pass_filler(&mut self, from: usize) -> usize {
        let end = self.filler_end(from);
        let filler = self.line.get(from..end).unwrap_or_default();
        self.nuls += memchr::memchr_iter(0, filler).count();
        self.marks += memchr::memchr_iter(BYTE_ORDER_MARK[0], filler).count();
        end
    }

    /// Returns the end of the whitespace, NUL bytes and byte-order marks that begin at `from`.
    fn filler_end(&self, from: usize) -> usize {
        let mut at = from;
        loop {
            match self.peek(at) {
                Some(0 | b' ' | b'\t' | b'\r' | b'\n') => at += 1,
                Some(byte)
                    if byte == BYTE_ORDER_MARK[0]
                        && self.line.get(at..at + 3) == Some(&BYTE_ORDER_MARK) =>
                {
                    at += 3
                }
                _ => return at,
            }
        }
    }

    fn peek(&self, at: usize) -> Option<u8> {
        self.line.get(at).copied()
    }

    /// Returns the problems, one of each kind, without any text of the line.
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |count: usize, kind, what: &str| {
            if count > 0 {
                problems.push(Problem::new(kind, format!("{count} {what}")));
            }
        };
        match self.instead {
            Some(Instead::Encoded(name)) => {
                return vec![Problem::new(
                    ProblemKind::Encoding,
                    format!("{} bytes of {name}", self.line.len()),
                )];
            }
            Some(Instead::NotObject) => add(self.line.len(), ProblemKind::NotObject, "bytes"),
            None if self.records == 0 => add(self.leftover, ProblemKind::Opaque, "bytes"),
            None => {
                add(self.fragments, ProblemKind::Fragment, "bytes before a record");
                add(self.leftover, ProblemKind::Opaque, "bytes after the last record");
            }
        }
        if self.records > 1 {
            add(self.records, ProblemKind::Welded, "records");
        }
        add(self.nuls, ProblemKind::NulRun, "bytes");
        add(self.marks, ProblemKind::ByteOrderMark, "marks");
        add(self.oddities.control_characters, ProblemKind::ControlCharacter, "characters");
        add(self.oddities.invalid_utf8, ProblemKind::InvalidUtf8, "bytes");
        add(self.oddities.lone_surrogates, ProblemKind::LoneSurrogate, "escapes");
        add(self.oddities.out_of_range, ProblemKind::NumberRange, "numbers");
        add(self.oddities.too_deep, ProblemKind::TooDeep, "subtrees");
        problems
    }
}

impl Evidence {
    fn admits(self, entry: &Entry<'_>) -> bool {
        let has_type = || !entry.problems.iter().any(|problem| problem.kind == ProblemKind::NoType);
        match self {
            Evidence::InPlace => true,
            Evidence::Torn => has_type(),
            // In formats whose records have no type, any nested object looks like a record: a
            // message without its envelope, a prompt without its time.
            Evidence::Weak => match entry.kind {
                Kind::Unknown => false,
                Kind::Prompt => entry.time.is_some(),
                // A sub-agent's message inside a progress line has a type and an id, but no parent.
                // A message of the session itself with an id also has a parent.
                Kind::Message if entry.parent == Parent::Implicit && entry.id.is_some() => false,
                _ => has_type() && entry.type_name != "bare",
            },
        }
    }
}

/// A byte-order mark in UTF-8.
const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// First bytes of files that are not lines of text.
const MAGIC: &[(&[u8], &str)] = &[
    (b"\x1f\x8b\x08", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "zip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh91AY&SY", "bzip2"),
    (b"SQLite format 3\0", "SQLite"),
];

/// Returns the encoding of a line that is not UTF-8 text, judged by its beginning.
fn encoding(line: &[u8]) -> Option<&'static str> {
    let known = MAGIC.iter().find(|(magic, _)| line.starts_with(magic)).map(|(_, name)| *name);
    known.or_else(|| is_utf16(line).then_some("UTF-16"))
}

/// Returns true for UTF-16: its JSON is mostly ASCII, so every other byte is NUL. In a mere run of
/// NUL bytes, every byte is.
fn is_utf16(line: &[u8]) -> bool {
    let sample = line.get(..line.len().min(128)).unwrap_or_default();
    let (pairs, _) = sample.as_chunks::<2>();
    let first = pairs.iter().filter(|pair| pair[0] == 0).count();
    let second = pairs.iter().filter(|pair| pair[1] == 0).count();
    let (less, more) = (first.min(second), first.max(second));
    pairs.len() >= 4 && more * 4 >= pairs.len() * 3 && less * 4 <= pairs.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::openclaw::OpenClaw;

    const LENGTH: usize = 1 << 20;

    /// Returns the number of bytes read for a line of repeated `pattern`.
    fn walked(pattern: &[u8], is_cut: bool) -> usize {
        let line: Vec<u8> = pattern.iter().copied().cycle().take(LENGTH).collect();
        let origin = OpenClaw.origin(b"agents/main/sessions/s.jsonl");
        let each = &mut |_: &Entry<'_>| {};
        let mut recovery = Recovery::new(&OpenClaw, &origin, &line, each);
        recovery.is_cut = is_cut;
        recovery.run()
    }

    #[test]
    fn hostile_lines_take_linear_work() {
        let patterns: &[&[u8]] = &[
            b"{\"",
            b"{",
            b"{}",
            b"[",
            b"{\"a\":",
            b"{\"a\":[",
            b"[{\"",
            b"{\"a\":{\"b\":1}",
            b"{\"a\":{\"b\":1}\0",
            b"{\"a\":{\"type\":\"label\",\"targetId\":\"x\"}",
            b"{\"a\":{\"type\":\"label\",\"targetId\":\"x\"},",
            b"{\"type\":\"x\"}",
            b"{\"a\":1}x",
            b"{ \"",
            b"\"{",
            b"{\"a\\",
            b"{\"a\":\"\\ud83d",
            b"{\"a\":\"\x01\xff",
            b"\xef\xbb",
            b"\xef\xbb\xbf{",
        ];
        for pattern in patterns {
            for padding in [0, 1000] {
                let pattern = [pattern, vec![b' '; padding].as_slice()].concat();
                for is_cut in [false, true] {
                    let walked = walked(&pattern, is_cut);
                    assert!(walked <= 3 * LENGTH, "{} walked {walked}", pattern.escape_ascii());
                }
            }
        }
    }
}
