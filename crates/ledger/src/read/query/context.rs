//! The context of a model for a leaf of a session, as the session's own agent would build it.
//!
//! It is made from the lines of one generation of one file (or database session), never from all
//! collected lines together. The newest generation of the live transcript is tried first. An entry
//! that it lacks is looked up in the other files and generations.

pub(crate) mod recent;

use std::cmp::Reverse;
use std::collections::HashMap;

use quipu_transcript::compaction::{self, Fitted};
use quipu_transcript::context::{
    At, Context, PathEntries, PathPlan, Plan, Reader, Session, pairing,
};
use quipu_transcript::format::{self, Archive};
use quipu_transcript::record::DECODE_LIMIT;
use quipu_transcript::repair::{Repair, RepairPlan};
use quipu_transcript::shorten::Shortened;
use rusqlite::Connection;

use crate::base::ids::{GenerationId, SessionRow};
use crate::file::ledger::Ledger;
use crate::file::snapshot::Snapshot;
use crate::project::session_sources::holds_transcript;
use crate::truth::{spans, tails};
use crate::{Error, Result};

/// The largest size of a transcript, in bytes, that is kept in memory. A larger one is read twice
/// instead. One with 100,000 entries has about 90 MB.
const MAX_BYTES_IN_MEMORY: u64 = 128 << 20;

/// A context, with the repairs that it needed.
#[derive(Debug, Clone, Default)]
pub struct SessionContext {
    /// The context, with tool calls and their results paired.
    pub context: Context,
    /// The changes made by pairing.
    pub repairs: pairing::Repairs,
    /// The number of messages whose long texts are cut, because their lines are longer than
    /// [`DECODE_LIMIT`].
    pub cut: usize,
}

/// The size of a context that was shortened.
#[derive(Debug, Clone, Copy)]
pub struct ContextSize {
    /// The estimated tokens of the context.
    pub tokens: u64,
    /// The number of tool results that were shortened.
    pub shortened: usize,
}

impl SessionContext {
    /// Shortens the oldest tool results until the messages have at most `budget` tokens. They may
    /// have more if everything else takes that much.
    pub fn fit(self, budget: u64) -> (SessionContext, ContextSize) {
        let Fitted { messages, tokens, shortened } = compaction::fit(self.context.messages, budget);
        let context = Context { messages, ..self.context };
        (SessionContext { context, ..self }, ContextSize { tokens, shortened })
    }
}

/// Returns the context of a session for the entry `leaf`, or for the leaf that the format's own
/// rule selects.
pub fn context_of(
    ledger: &Ledger,
    session: SessionRow,
    leaf: Option<&str>,
) -> Result<SessionContext> {
    // One snapshot: the generations and their bytes must fit together.
    let conn = ledger.conn();
    let _snapshot = Snapshot::of(conn)?;
    let at = leaf.map_or(At::Leaf, At::Entry);
    let generations = transcript_generations(conn, session)?;
    for (index, generation) in generations.iter().enumerate() {
        let recent = match at {
            At::Leaf if index == 0 => recent::context(conn, generation, session)?,
            _ => None,
        };
        let context = match recent {
            Some(context) => Some((context, 0)),
            None => generation.context(conn, at)?,
        };
        if let Some((context, cut)) = context {
            let Context { messages, .. } = context;
            let (messages, repairs) = pairing::pair(messages);
            return Ok(SessionContext { context: Context { messages, ..context }, repairs, cut });
        }
    }
    Err(match leaf {
        Some(leaf) if !generations.is_empty() => {
            Error::NoMatch { what: "entry of the session", name: leaf.to_owned() }
        }
        _ => {
            let id = "SELECT session_id FROM sessions WHERE id = ?1";
            let name = conn.query_row(id, [session], |row| row.get(0))?;
            Error::NoMatch { what: "transcript of session", name }
        }
    })
}

/// Returns the entries that the context of a session's leaf comes from. `None` if the session's
/// lines are not entries that can be cut.
pub(crate) fn path_entries(ledger: &Ledger, session: SessionRow) -> Result<Option<PathEntries>> {
    let conn = ledger.conn();
    let _snapshot = Snapshot::of(conn)?;
    let Some(newest) = newest_transcript(conn, session)? else {
        return Ok(Some(PathEntries::default()));
    };
    let selected = newest.select(conn, &|session| session.path_plan(At::Leaf))?;
    Ok(selected.map(|(entries, _)| entries))
}

/// Returns what is wrong with a session, and the lines in which it was found.
pub(crate) fn repair_of(
    ledger: &Ledger,
    session: SessionRow,
) -> Result<(Option<TranscriptGeneration>, Repair)> {
    let conn = ledger.conn();
    let _snapshot = Snapshot::of(conn)?;
    let newest = newest_transcript(conn, session)?;
    let selected = match &newest {
        Some(newest) => newest.select(conn, &|session| Some(session.repair_plan()))?,
        None => None,
    };
    let repair = selected.map_or_else(Repair::of_no_lines, |(repair, _)| repair);
    Ok((newest, repair))
}

/// Returns the lines that the session's context comes from.
pub(crate) fn newest_transcript(
    conn: &Connection,
    session: SessionRow,
) -> Result<Option<TranscriptGeneration>> {
    Ok(transcript_generations(conn, session)?.into_iter().next())
}

/// One generation of a file that holds the session.
#[derive(Debug)]
pub(crate) struct TranscriptGeneration {
    id: GenerationId,
    pub(crate) reader: Reader,
    /// Its length in bytes, with what is behind the last newline.
    pub(crate) size: u64,
}

/// Equality of what was read: the same generation, of the same length.
impl PartialEq for TranscriptGeneration {
    fn eq(&self, other: &TranscriptGeneration) -> bool {
        (self.id, self.size) == (other.id, other.size)
    }
}

/// Returns the generations of a session's transcripts, the preferred one first.
pub(crate) fn transcript_generations(
    conn: &Connection,
    session: SessionRow,
) -> Result<Vec<TranscriptGeneration>> {
    let mut statement = conn.prepare(concat!(
        "SELECT g.id, s.format, s.kind, s.path, s.is_gone, g.mtime_ns, g.id IS s.generation,
                g.cursor + g.tail_length
           FROM session_sources ss
           JOIN sources s ON s.id = ss.source
           JOIN generations g ON g.source = s.id
          WHERE ss.session = ?1 AND s.refused IS NULL AND s.kind <> 'journal'
            AND ",
        holds_transcript!("ss.part"),
    ))?;
    let mut rows = statement.query([session])?;
    let mut generations = Vec::new();
    while let Some(row) = rows.next()? {
        let (format, kind): (String, String) = (row.get(1)?, row.get(2)?);
        let path: Vec<u8> = row.get(3)?;
        let read_by = format::by_name(&format);
        let archive = read_by.and_then(|format| format.origin(&path).archive);
        let (is_gone, mtime): (bool, i64) = (row.get(4)?, row.get(5)?);
        let is_newest: bool = row.get(6)?;
        let generation: GenerationId = row.get(0)?;
        // A session that was moved into a database continues there.
        let is_file = kind == "file";
        let put_aside = match archive {
            None => 0,
            Some(Archive::Deleted | Archive::Reset | Archive::Imported | Archive::Cold) => 1,
            Some(Archive::Backup) => 2,
        };
        let order = (!is_newest, put_aside, is_gone, is_file, Reverse((mtime, generation)));
        let reader = read_by.and_then(|format| format.context());
        let reader = reader.ok_or_else(|| Error::NoContext { format: format.clone() })?;
        let size = row.get::<_, i64>(7)?.cast_unsigned();
        generations.push((order, TranscriptGeneration { id: generation, reader, size }));
    }
    generations.sort_by_key(|(order, _)| *order);
    Ok(generations
        .into_iter()
        .map(|(_, generation)| generation)
        .filter(|generation| generation.size > 0)
        .collect())
}

impl TranscriptGeneration {
    /// Returns the context from these lines, and the number of its messages that are cut. `None` if
    /// the entry is not in these lines.
    pub(crate) fn context(
        &self,
        conn: &Connection,
        at: At<'_>,
    ) -> Result<Option<(Context, usize)>> {
        self.select(conn, &|session| session.plan(at))
    }

    /// Returns what a plan selects from these lines, and the number of its lines that are cut.
    fn select<P: LinePlan>(
        &self,
        conn: &Connection,
        plan: &dyn Fn(&Session) -> Option<P>,
    ) -> Result<Option<(P::Filled, usize)>> {
        if self.size <= MAX_BYTES_IN_MEMORY {
            return self.select_at_once(conn, plan);
        }
        let mut session = Session::new(self.reader);
        let mut long = Vec::new();
        self.split(conn, DECODE_LIMIT, &mut |line, is_cut| {
            if is_cut {
                long.push(session.lines());
            }
            session.push(&String::from_utf8_lossy(line));
        })?;
        let Some(plan) = plan(&session) else { return Ok(None) };
        drop(session);
        let needed = plan.needed();
        let cut = cut(&needed, &long);
        let lines = self.needed_lines(conn, &needed, DECODE_LIMIT)?;
        Ok(Some((plan.filled(&|line| lines.get(&line).map(String::as_str)), cut)))
    }

    /// Returns the same as [`TranscriptGeneration::select`], for lines that fit into memory.
    fn select_at_once<P: LinePlan>(
        &self,
        conn: &Connection,
        plan: &dyn Fn(&Session) -> Option<P>,
    ) -> Result<Option<(P::Filled, usize)>> {
        let mut bytes = Vec::with_capacity(usize::try_from(self.size).unwrap_or_default());
        let mut take = |part: &[u8]| {
            bytes.extend_from_slice(part);
            Ok(())
        };
        spans::stream(conn, self.id, &mut take)?;
        tails::stream(conn, self.id, &mut take)?;
        // Invalid UTF-8 is replaced within its line: a character that is cut off never removes a
        // newline.
        let text = text(bytes);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let mut lines: Vec<&str> =
            if text.is_empty() { Vec::new() } else { text.split('\n').collect() };
        let short: Vec<(usize, String)> = lines
            .iter()
            .enumerate()
            .filter_map(|(number, line)| Some((number, shortened(line)?)))
            .collect();
        for (number, text) in &short {
            if let Some(line) = lines.get_mut(*number) {
                *line = text;
            }
        }
        let long: Vec<usize> = short.iter().map(|(number, _)| *number).collect();
        let mut session = Session::new(self.reader);
        session.extend(&lines);
        Ok(plan(&session).map(|plan| {
            let cut = cut(&plan.needed(), &long);
            (plan.filled(&|line| lines.get(line).copied()), cut)
        }))
    }

    /// Returns lines by number, however long they are.
    pub(crate) fn whole_lines(
        &self,
        conn: &Connection,
        wanted: &[usize],
    ) -> Result<HashMap<usize, String>> {
        self.needed_lines(conn, wanted, usize::MAX)
    }

    /// Returns the lines that a plan needs, by number.
    fn needed_lines(
        &self,
        conn: &Connection,
        needed: &[usize],
        longest: usize,
    ) -> Result<HashMap<usize, String>> {
        let mut needed_lines: HashMap<usize, String> =
            needed.iter().map(|line| (*line, String::new())).collect();
        let mut number = 0;
        self.split(conn, longest, &mut |line, _| {
            if let Some(needed_line) = needed_lines.get_mut(&number) {
                *needed_line = String::from_utf8_lossy(line).into_owned();
            }
            number += 1;
        })?;
        Ok(needed_lines)
    }

    /// Passes every line to `each`, including a last line without a newline.
    pub(crate) fn lines(&self, conn: &Connection, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.split(conn, usize::MAX, &mut |line, _| each(line))
    }

    /// Passes every line to `each`. A line longer than `longest` is passed with its strings
    /// shortened and `true`.
    fn split(
        &self,
        conn: &Connection,
        longest: usize,
        each: &mut dyn FnMut(&[u8], bool),
    ) -> Result<()> {
        let mut lines = Splitter::new(longest);
        let mut take = |part: &[u8]| {
            lines.take(part, each);
            Ok(())
        };
        spans::stream(conn, self.id, &mut take)?;
        tails::stream(conn, self.id, &mut take)?;
        lines.end_last(each);
        Ok(())
    }
}

/// Joins parts into lines.
struct Splitter {
    longest: usize,
    /// The current line, without its end.
    line: Vec<u8>,
    /// The current line with shortened strings, once it is longer than `longest`.
    short: Option<Shortened>,
    /// The largest number of bytes that were in memory at once.
    max_bytes_held: usize,
}

impl Splitter {
    fn new(longest: usize) -> Splitter {
        Splitter { longest, line: Vec::new(), short: None, max_bytes_held: 0 }
    }

    fn take(&mut self, mut part: &[u8], each: &mut dyn FnMut(&[u8], bool)) {
        while let Some(end) = memchr::memchr(b'\n', part) {
            let (line, further) = part.split_at(end);
            if self.line.is_empty() && self.short.is_none() && line.len() <= self.longest {
                each(line, false);
            } else {
                self.append_to_line(line);
                self.end(each);
            }
            part = further.get(1..).unwrap_or_default();
        }
        self.append_to_line(part);
    }

    /// Adds to the current line.
    fn append_to_line(&mut self, part: &[u8]) {
        match &mut self.short {
            Some(short) => short.push(part),
            None => {
                self.line.extend_from_slice(part);
                if self.line.len() > self.longest {
                    self.max_bytes_held = self.max_bytes_held.max(self.line.len());
                    let mut short = Shortened::default();
                    short.push(&std::mem::take(&mut self.line));
                    self.short = Some(short);
                }
            }
        }
        self.max_bytes_held = self
            .max_bytes_held
            .max(self.line.len() + self.short.as_ref().map_or(0, Shortened::len));
    }

    fn end(&mut self, each: &mut dyn FnMut(&[u8], bool)) {
        match self.short.take() {
            Some(short) => each(&short.finish(), true),
            None => each(&self.line, false),
        }
        self.line.clear();
    }

    /// Ends the last line, if it has no newline.
    fn end_last(&mut self, each: &mut dyn FnMut(&[u8], bool)) {
        if !self.line.is_empty() || self.short.is_some() {
            self.end(each);
        }
    }
}

/// Returns the number of needed lines that were shortened.
fn cut(needed: &[usize], long: &[usize]) -> usize {
    needed.iter().filter(|line| long.binary_search(line).is_ok()).count()
}

/// A plan that names the lines it needs.
trait LinePlan {
    type Filled;

    fn needed(&self) -> Vec<usize>;

    fn filled<'a>(self, line: &(dyn Fn(usize) -> Option<&'a str> + Sync)) -> Self::Filled;
}

impl LinePlan for Plan {
    type Filled = Context;

    fn needed(&self) -> Vec<usize> {
        self.lines().collect()
    }

    fn filled<'a>(self, line: &(dyn Fn(usize) -> Option<&'a str> + Sync)) -> Context {
        self.fill(line)
    }
}

impl LinePlan for PathPlan {
    type Filled = PathEntries;

    fn needed(&self) -> Vec<usize> {
        self.lines().collect()
    }

    fn filled<'a>(self, line: &(dyn Fn(usize) -> Option<&'a str> + Sync)) -> PathEntries {
        self.fill(line)
    }
}

impl LinePlan for RepairPlan {
    type Filled = Repair;

    fn needed(&self) -> Vec<usize> {
        self.lines()
    }

    fn filled<'a>(self, line: &(dyn Fn(usize) -> Option<&'a str> + Sync)) -> Repair {
        self.fill(line)
    }
}

/// Returns a line above [`DECODE_LIMIT`] with its long strings cut; `None` for any other line.
pub(crate) fn shortened(line: &str) -> Option<String> {
    if line.len() <= DECODE_LIMIT {
        return None;
    }
    let mut short = Shortened::default();
    short.push(line.as_bytes());
    Some(text(short.finish()))
}

/// Returns bytes as text. Invalid UTF-8 is replaced.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use quipu_transcript::record::OVERSIZE_HEAD;

    use super::*;

    #[test]
    fn memory_does_not_grow_with_a_line() {
        const MAX_LINE_BYTES: usize = 256 << 10;
        const PART_BYTES: usize = 100 << 10;
        let mut lines = Splitter::new(MAX_LINE_BYTES);
        let mut seen = Vec::new();
        let mut each = |line: &[u8], is_long| seen.push((line.len(), is_long));
        lines.take(b"one\n\n\"", &mut each);
        for _ in 0..1000 {
            lines.take(&[b'x'; PART_BYTES], &mut each);
        }
        lines.take(b"\"\nthree\nfo", &mut each);
        lines.take(b"ur\n\"", &mut each);
        lines.take(&[&[b'y'; MAX_LINE_BYTES], &b"\"\nend"[..]].concat(), &mut each);
        lines.end_last(&mut each);
        let long = (OVERSIZE_HEAD + 2, true);
        assert_eq!(seen, [(3, false), (0, false), long, (5, false), (4, false), long, (3, false)]);
        assert!(
            lines.max_bytes_held <= MAX_LINE_BYTES + MAX_LINE_BYTES,
            "{}",
            lines.max_bytes_held
        );
    }
}
