//! Walks one JSON value byte by byte, without recursion, and builds a cleaned copy of it.
//!
//! serde accepts the copy, and it means the same: raw control characters are escaped, bytes that
//! are not UTF-8 and halves of surrogate pairs become replacement characters, numbers outside the
//! range of `f64` and everything nested too deeply become `null`. A value that needs no cleaning is
//! not copied. Broken JSON is never guessed at: the walk stops and returns the offset.

/// Containers nested deeper than this become `null`. It is below the 128 levels at which serde
/// stops.
const DEPTH_LIMIT: usize = 120;

/// Raw control characters after this many become replacement characters: an escape has six bytes,
/// and megabytes of NUL must not grow sixfold.
const ESCAPE_LIMIT: usize = 1 << 16;

/// The keys above the text of a message. The input of a tool call is under other keys.
const TEXT_KEYS: &[&[u8]] = &[b"message", b"content", b"text", b"thinking", b"summary"];

/// The end of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The value is complete; it ends before this offset.
    Whole(usize),
    /// JSON cannot continue at this offset. The line's length means that the value is unfinished.
    Broken(usize),
}

/// Counts of cleaned places.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Oddities {
    pub(super) control_characters: usize,
    pub(super) invalid_utf8: usize,
    pub(super) lone_surrogates: usize,
    pub(super) out_of_range: usize,
    pub(super) too_deep: usize,
}

impl Oddities {
    pub(super) fn add(&mut self, other: Oddities) {
        self.control_characters += other.control_characters;
        self.invalid_utf8 += other.invalid_utf8;
        self.lone_surrogates += other.lone_surrogates;
        self.out_of_range += other.out_of_range;
        self.too_deep += other.too_deep;
    }
}

/// A walk over one value of a line. Walks of one line share their memory, because a hostile line
/// may need millions of short walks.
pub(super) struct Scan<'l> {
    line: &'l [u8],
    start: usize,
    at: usize,
    /// The cleaned copy, complete up to offset `copied` of the line.
    copy: Vec<u8>,
    copied: usize,
    /// The open containers, outermost first: `{` or `[`.
    open: Vec<u8>,
    /// The state of each open container down to [`DEPTH_LIMIT`].
    members: Vec<Members>,
    /// The start of the part that becomes `null`.
    deep_from: Option<usize>,
    last_closed: Option<(usize, usize)>,
    /// The start of the string in which the line ends, and the end of its last whole character.
    unfinished: Option<(usize, usize)>,
    oddities: Oddities,
    walked: usize,
}

/// The state of one open container.
#[derive(Clone, Copy)]
struct Members {
    start: usize,
    /// The end of the last complete member, as an offset in the line.
    cut: usize,
    /// The position of `cut` in the cleaned copy.
    cut_in_copy: usize,
}

/// The tokens that may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    FirstElement,
    FirstKey,
    Key,
    Colon,
    CommaOrEnd,
}

/// The error of a walk that cannot continue; `Scan::at` is the offset.
struct Stuck;

impl<'l> Scan<'l> {
    /// Returns a walk of `line` that has not begun.
    pub(super) fn of(line: &'l [u8]) -> Scan<'l> {
        Scan {
            line,
            start: 0,
            at: 0,
            copy: Vec::new(),
            copied: 0,
            open: Vec::new(),
            members: Vec::new(),
            deep_from: None,
            last_closed: None,
            unfinished: None,
            oddities: Oddities::default(),
            walked: 0,
        }
    }

    /// Walks the value that begins at `start`, and discards the results of earlier walks.
    pub(super) fn run(&mut self, start: usize) -> End {
        self.start = start;
        self.at = start;
        self.copied = start;
        self.copy.clear();
        self.open.clear();
        self.members.clear();
        self.deep_from = None;
        self.last_closed = None;
        self.unfinished = None;
        self.oddities = Oddities::default();
        let walk = self.walk();
        self.walked += self.at - start;
        match walk {
            Ok(()) => End::Whole(self.at),
            Err(Stuck) => End::Broken(self.at),
        }
    }

    /// Returns the number of bytes that all walks so far read.
    pub(super) fn walked(&self) -> usize {
        self.walked
    }

    /// Returns the start and end of the object that was closed last.
    pub(super) fn last_closed(&self) -> Option<(usize, usize)> {
        self.last_closed
    }

    /// Returns the counts of cleaned places.
    pub(super) fn oddities(&self) -> Oddities {
        self.oddities
    }

    /// Returns the value in a form that serde accepts, after a walk that ended [`End::Whole`].
    pub(super) fn cleaned(&mut self) -> &[u8] {
        if self.copied == self.start {
            return self.line.get(self.start..self.at).unwrap_or_default();
        }
        self.flush(self.at);
        &self.copy
    }

    /// Closes an unfinished value. If the line ends in the text of a message, the text stays up to
    /// its last space. Any other unfinished member is left out, and in a list the whole element:
    /// half of a tool call would look like a call, and half of an id like an id.
    pub(super) fn closed(&mut self) -> &[u8] {
        if let Some((from, to)) = self.unfinished
            && self.members.len() == self.open.len()
            && self.is_message_text(from)
        {
            // The last word may be incomplete.
            let from = self.copied.max(from + 1);
            let words = self.line.get(from..to).unwrap_or_default();
            self.flush(memchr::memrchr(b' ', words).map_or(to, |space| from + space));
            self.copy.push(b'"');
            return self.close_all(self.open.len());
        }
        let list = self.open.iter().position(|bracket| *bracket == b'[');
        let depth = list.map_or(self.members.len(), |list| list + 1).min(self.members.len());
        let Some(members) = depth.checked_sub(1).and_then(|at| self.members.get(at)).copied()
        else {
            return &[];
        };
        if members.cut >= self.copied {
            self.flush(members.cut);
        } else {
            self.copy.truncate(members.cut_in_copy);
        }
        self.close_all(depth)
    }

    /// Closes the outermost `depth` containers in the copy.
    fn close_all(&mut self, depth: usize) -> &[u8] {
        let closers = self.open.iter().take(depth).rev();
        self.copy.extend(closers.map(|bracket| if *bracket == b'[' { b']' } else { b'}' }));
        &self.copy
    }

    /// Returns whether a string that begins at `from` is text of a message: each key above it is
    /// one of [`TEXT_KEYS`].
    fn is_message_text(&self, from: usize) -> bool {
        let starts = self.members.iter().skip(1).map(|members| members.start).chain([from]);
        self.open.iter().zip(starts).all(|(bracket, start)| {
            *bracket == b'[' || self.key_before(start).is_some_and(|key| TEXT_KEYS.contains(&key))
        })
    }

    /// Returns the key of the member whose value begins at `at`.
    fn key_before(&self, at: usize) -> Option<&'l [u8]> {
        let before = self.line.get(..at)?.trim_ascii_end().strip_suffix(b":")?;
        let quoted = before.trim_ascii_end().strip_suffix(b"\"")?;
        quoted.get(memchr::memrchr(b'"', quoted)? + 1..)
    }

    fn walk(&mut self) -> Result<(), Stuck> {
        let mut expect = Expect::Value;
        loop {
            self.skip_white_space();
            let byte = self.peek().ok_or(Stuck)?;
            expect = match (expect, byte) {
                (Expect::FirstKey, b'}') | (Expect::FirstElement, b']') => self.close(byte)?,
                (Expect::CommaOrEnd, b'}' | b']') => self.close(byte)?,
                (Expect::CommaOrEnd, b',') => {
                    self.at += 1;
                    if self.open.last() == Some(&b'{') { Expect::Key } else { Expect::Value }
                }
                (Expect::FirstKey | Expect::Key, b'"') => {
                    self.string()?;
                    Expect::Colon
                }
                (Expect::Colon, b':') => {
                    self.at += 1;
                    Expect::Value
                }
                (Expect::Value | Expect::FirstElement, b'{' | b'[') => self.open(byte),
                (Expect::Value | Expect::FirstElement, _) => {
                    self.scalar(byte)?;
                    self.member_is_complete();
                    Expect::CommaOrEnd
                }
                _ => return Err(Stuck),
            };
            if expect == Expect::CommaOrEnd && self.open.is_empty() {
                return Ok(());
            }
        }
    }

    fn open(&mut self, bracket: u8) -> Expect {
        let start = self.at;
        self.at += 1;
        self.open.push(bracket);
        if self.open.len() <= DEPTH_LIMIT {
            let cut_in_copy = self.place_in_copy();
            self.members.push(Members { start, cut: self.at, cut_in_copy });
        } else if self.deep_from.is_none() {
            self.deep_from = Some(start);
        }
        if bracket == b'{' { Expect::FirstKey } else { Expect::FirstElement }
    }

    fn close(&mut self, bracket: u8) -> Result<Expect, Stuck> {
        let opened = if bracket == b'}' { b'{' } else { b'[' };
        if self.open.last() != Some(&opened) {
            return Err(Stuck);
        }
        self.open.pop();
        self.at += 1;
        if self.open.len() < DEPTH_LIMIT {
            let members = self.members.pop();
            if bracket == b'}' {
                self.last_closed = members.map(|members| (members.start, self.at));
            }
        } else if self.open.len() == DEPTH_LIMIT
            && let Some(from) = self.deep_from.take()
        {
            self.oddities.too_deep += 1;
            self.replace(from, self.at, b"null");
        }
        self.member_is_complete();
        Ok(Expect::CommaOrEnd)
    }

    fn member_is_complete(&mut self) {
        let (cut, cut_in_copy) = (self.at, self.place_in_copy());
        if self.open.len() == self.members.len()
            && let Some(members) = self.members.last_mut()
        {
            members.cut = cut;
            members.cut_in_copy = cut_in_copy;
        }
    }

    fn scalar(&mut self, byte: u8) -> Result<(), Stuck> {
        match byte {
            b'"' => self.string(),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(Stuck),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Stuck> {
        for expected in word {
            if self.peek() != Some(*expected) {
                return Err(Stuck);
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Stuck> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        let has_exponent = matches!(self.peek(), Some(b'e' | b'E'));
        if has_exponent {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        // A number at the very end of an unfinished line may continue.
        if self.peek().is_none() && !self.open.is_empty() {
            return Err(Stuck);
        }
        if has_exponent || self.at - start > 300 {
            let text = self.line.get(start..self.at).unwrap_or_default();
            let number: Option<f64> =
                std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            // Serde is less precise at the limit of `f64`, so numbers near it are cleaned too.
            if !number.is_some_and(|number| number.abs() < 1.79e308) {
                self.replace(start, self.at, b"null");
                self.note(|oddities| oddities.out_of_range += 1);
            }
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Stuck> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Stuck) }
    }

    fn string(&mut self) -> Result<(), Stuck> {
        let start = self.at;
        self.at += 1;
        loop {
            let rest = self.line.get(self.at..).unwrap_or_default();
            let run = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
            self.plain(run);
            let whole = self.at;
            let passed = match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(_) => self.escape(),
                None => Err(Stuck),
            };
            if passed.is_err() {
                self.unfinished = Some((start, whole));
                return passed;
            }
        }
    }

    /// Passes `length` bytes of a string that hold neither quote nor backslash.
    fn plain(&mut self, length: usize) {
        let start = self.at;
        self.at += length;
        let run = self.line.get(start..self.at).unwrap_or_default();
        if self.deep_from.is_some()
            || (std::str::from_utf8(run).is_ok() && !run.iter().any(|byte| *byte < 0x20))
        {
            return;
        }
        let mut at = start;
        for chunk in run.utf8_chunks() {
            for byte in chunk.valid().bytes() {
                if byte < 0x20 {
                    self.control_character(at, byte);
                }
                at += 1;
            }
            let invalid = chunk.invalid().len();
            if invalid > 0 {
                self.replace(at, at + invalid, "\u{fffd}".as_bytes());
                self.oddities.invalid_utf8 += invalid;
                at += invalid;
            }
        }
    }

    fn control_character(&mut self, at: usize, byte: u8) {
        self.oddities.control_characters += 1;
        if self.oddities.control_characters > ESCAPE_LIMIT {
            self.replace(at, at + 1, "\u{fffd}".as_bytes());
            return;
        }
        let low = b"0123456789abcdef".get(usize::from(byte & 15)).copied().unwrap_or(b'0');
        self.replace(at, at + 1, &[b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), low]);
    }

    fn escape(&mut self) -> Result<(), Stuck> {
        let start = self.at;
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => {
                self.at += 1;
                match self.hex()? {
                    0xD800..=0xDBFF if self.low_surrogate_follows() => {
                        self.at += 6;
                        Ok(())
                    }
                    0xD800..=0xDFFF => {
                        self.replace(start, self.at, b"\\ufffd");
                        self.note(|oddities| oddities.lone_surrogates += 1);
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
            _ => Err(Stuck),
        }
    }

    fn hex(&mut self) -> Result<u32, Stuck> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16)).ok_or(Stuck)?;
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }

    fn low_surrogate_follows(&self) -> bool {
        matches!(
            self.line.get(self.at..self.at + 6),
            Some([b'\\', b'u', b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', third, fourth])
                if third.is_ascii_hexdigit() && fourth.is_ascii_hexdigit()
        )
    }

    fn skip_white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    /// Counts an oddity, unless it is inside a part that becomes `null`.
    fn note(&mut self, count: impl FnOnce(&mut Oddities)) {
        if self.deep_from.is_none() {
            count(&mut self.oddities);
        }
    }

    /// Writes `with` into the copy instead of the line's bytes `from..to`.
    fn replace(&mut self, from: usize, to: usize, with: &[u8]) {
        if self.deep_from.is_none() {
            self.flush(from);
            self.copy.extend_from_slice(with);
            self.copied = to;
        }
    }

    fn flush(&mut self, to: usize) {
        self.copy.extend_from_slice(self.line.get(self.copied..to).unwrap_or_default());
        self.copied = to;
    }

    /// Returns the length of the copy once it is complete up to the current offset.
    fn place_in_copy(&self) -> usize {
        self.copy.len() + self.at.saturating_sub(self.copied)
    }
}
