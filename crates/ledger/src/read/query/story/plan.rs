//! The order in which a session's records are shown.
//!
//! A session in one file that was never rewritten is shown in the order of its records, at no cost
//! for any size. Otherwise the files and their generations are merged: the newest generation of the
//! live file comes first, and a record that only another one holds is inserted after the entry that
//! preceded it there. No record is decoded.

use foldhash::{HashMap, HashSet};
use quipu_transcript::format;
use rusqlite::Connection;

use super::rows;
use crate::Result;
use crate::base::ids::{EntryId, GenerationId, Seq, SessionRow, SourceId, seq_of_entry};
use crate::project::session_sources::holds_transcript;
use crate::truth::spans;

/// Consecutive records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: i64,
    pub(super) last: i64,
    /// The number of records that are shown before this run.
    pub(super) position: u64,
}

impl Run {
    fn length(&self) -> u64 {
        (self.last - self.first + 1).max(0).cast_unsigned()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first > self.last
    }

    /// Removes up to `count` records from the beginning and returns them.
    pub(super) fn take_front(&mut self, count: i64) -> Run {
        let taken = Run { last: self.last.min(self.first + count - 1), ..*self };
        self.position += taken.length();
        self.first = taken.last + 1;
        taken
    }

    /// Removes up to `count` records from the end and returns them.
    pub(super) fn take_back(&mut self, count: i64) -> Run {
        let first = self.first.max(self.last - count + 1);
        let position = self.position + (first - self.first).cast_unsigned();
        let taken = Run { first, last: self.last, position };
        self.last = first - 1;
        taken
    }
}

/// The order of a session's records.
#[derive(Debug, Default)]
pub(super) struct Plan {
    runs: Vec<Run>,
    /// Indexes into `runs`, sorted by the first record of each run.
    by_seq: Vec<usize>,
    /// True if some records may be gone from their file.
    pub(super) was_rewritten: bool,
}

/// A file of the session.
struct File {
    /// The generations of the file, newest first.
    generations: Vec<GenerationId>,
}

impl Plan {
    pub(super) fn of(conn: &Connection, session: SessionRow) -> Result<Plan> {
        let files = files(conn, session)?;
        let mut plan = Plan::default();
        match files.as_slice() {
            // The session is known only from a list of prompts, or from the trajectory of its runs.
            [] => {
                let mut records = needed(conn, session, false)?;
                records.extend(rows::unreadable(conn, session, Seq(0), Seq(i64::MAX))?);
                records.sort_unstable();
                records.into_iter().for_each(|seq| plan.push(seq, seq));
            }
            [File { generations }] if generations.len() == 1 => {
                let mut spans = conn.prepare_cached(
                    "SELECT first_seq, last_seq FROM spans
                      WHERE generation = ?1 AND first_seq IS NOT NULL ORDER BY start",
                )?;
                let mut rows = spans.query([generations.first()])?;
                while let Some(row) = rows.next()? {
                    plan.push(row.get(0)?, row.get(1)?);
                }
            }
            files => {
                plan.was_rewritten = files.iter().any(|file| file.generations.len() > 1);
                for seq in merge_generations(conn, session, files)? {
                    plan.push(seq, seq);
                }
            }
        }
        plan.sort_by_seq();
        Ok(plan)
    }

    /// Returns this plan with further records, each before the record at a position of this plan.
    pub(super) fn with(&self, mut more: Vec<(u64, i64)>) -> Plan {
        more.sort_unstable();
        let mut more = more.into_iter().peekable();
        let mut plan = Plan { was_rewritten: self.was_rewritten, ..Plan::default() };
        for run in &self.runs {
            let mut rest = *run;
            let end = rest.position + rest.length();
            while let Some((position, seq)) = more.next_if(|(position, _)| *position < end) {
                let before = position.saturating_sub(rest.position).cast_signed();
                let before = rest.take_front(before);
                if !before.is_empty() {
                    plan.push(before.first, before.last);
                }
                plan.push(seq, seq);
            }
            plan.push(rest.first, rest.last);
        }
        more.for_each(|(_, seq)| plan.push(seq, seq));
        plan.sort_by_seq();
        plan
    }

    fn sort_by_seq(&mut self) {
        let runs = &self.runs;
        self.by_seq = (0..runs.len()).collect();
        self.by_seq.sort_by_key(|index| runs.get(*index).map(|run| run.first));
    }

    /// Returns the runs before a position.
    pub(super) fn runs_until(&self, end: u64) -> impl Iterator<Item = Run> + '_ {
        let runs = self.runs.iter().take_while(move |run| run.position < end);
        runs.map(move |run| {
            let kept = run.length().min(end - run.position);
            Run { last: run.first + kept.cast_signed() - 1, ..*run }
        })
    }

    /// Returns the runs from a position on.
    pub(super) fn runs_from(&self, start: u64) -> impl Iterator<Item = Run> + '_ {
        let from = self.runs.partition_point(|run| run.position + run.length() <= start);
        self.runs.iter().skip(from).map(move |run| {
            let skipped = start.saturating_sub(run.position);
            Run {
                first: run.first + skipped.cast_signed(),
                position: run.position + skipped,
                ..*run
            }
        })
    }

    /// Returns the position after the last record.
    pub(super) fn end(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.position + run.length())
    }

    /// Returns whether the record of an entry has a place in the order.
    pub(super) fn holds(&self, entry: EntryId) -> bool {
        self.position(entry) < self.end()
    }

    /// Returns the position of an entry. Provisional entries come last.
    pub(super) fn position(&self, entry: EntryId) -> u64 {
        let Some(Seq(seq)) = entry.seq() else { return u64::MAX };
        let run = |index: &usize| self.runs.get(*index);
        let after = self.by_seq.partition_point(|index| run(index).is_some_and(|r| r.first <= seq));
        let found = after.checked_sub(1).and_then(|index| self.by_seq.get(index)).and_then(run);
        match found {
            Some(run) if seq <= run.last => run.position + (seq - run.first).cast_unsigned(),
            _ => self.end(),
        }
    }

    fn push(&mut self, first: i64, last: i64) {
        let position = self.end();
        match self.runs.last_mut() {
            Some(run) if run.last + 1 == first => run.last = last,
            _ => self.runs.push(Run { first, last, position }),
        }
    }
}

/// Returns the files that hold the conversation of a session. Live files come first, then files
/// that are gone, then archives.
fn files(conn: &Connection, session: SessionRow) -> Result<Vec<File>> {
    let mut statement = conn.prepare_cached(concat!(
        "SELECT s.id, s.format, s.path, s.is_gone, g.cursor
           FROM session_sources ss
           JOIN sources s ON s.id = ss.source
           JOIN generations g ON g.id = s.generation
          WHERE ss.session = ?1 AND ",
        holds_transcript!("ss.part"),
    ))?;
    let mut rows = statement.query([session])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(1)?;
        let path = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        let is_archive =
            format::by_name(&name).is_some_and(|format| format.origin(path).archive.is_some());
        let is_gone: bool = row.get(3)?;
        let length: i64 = row.get(4)?;
        let source: SourceId = row.get(0)?;
        found.push(((is_archive, is_gone, -length, source), source));
    }
    found.sort();
    let mut generations =
        conn.prepare_cached("SELECT id FROM generations WHERE source = ?1 ORDER BY number DESC")?;
    found
        .into_iter()
        .map(|(_, source)| {
            let generations =
                generations.query_map([source], |row| row.get(0))?.collect::<Result<_, _>>()?;
            Ok(File { generations })
        })
        .collect()
}

/// Returns the records of all entries of a session that no newer version replaces, in order. Whole
/// files are left out, and with `is_conversation` also the prompts of a prompt list.
fn needed(conn: &Connection, session: SessionRow, is_conversation: bool) -> Result<Vec<i64>> {
    let mut seqs: Vec<i64> = conn
        .prepare_cached(concat!(
            "SELECT DISTINCT ",
            seq_of_entry!("e.id"),
            " FROM entry_rows e
              WHERE e.session = ?1 AND e.superseded_by IS NULL AND e.id > 0
                AND (NOT ?2 OR NOT EXISTS (SELECT 1 FROM prompts p WHERE p.id = e.id))
                AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.id = e.id)",
        ))?
        .query_map((session, is_conversation), |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    seqs.sort_unstable();
    Ok(seqs)
}

/// Merges the generations of several files into one order.
fn merge_generations(conn: &Connection, session: SessionRow, files: &[File]) -> Result<Vec<i64>> {
    let mut needed: HashSet<i64> = needed(conn, session, true)?.into_iter().collect();
    needed.extend(rows::unreadable(conn, session, Seq(0), Seq(i64::MAX))?);
    let mut order = Order::default();
    // The newest generation of each file comes first. Older ones follow, for records that the
    // newest ones lack.
    let newest = files.iter().filter_map(|file| file.generations.first());
    let older = files.iter().flat_map(|file| file.generations.iter().skip(1));
    for generation in newest.chain(older) {
        if needed.is_empty() {
            break;
        }
        let lines = lines(conn, *generation)?;
        order.insert_lines(conn, &lines, &mut needed)?;
    }
    let mut rest: Vec<i64> = needed.into_iter().collect();
    rest.sort_unstable();
    let mut in_order = order.in_order();
    in_order.extend(rest);
    Ok(in_order)
}

/// Returns the records of a generation in order. A record that repeats an entry is replaced by the
/// first record of that entry.
fn lines(conn: &Connection, generation: GenerationId) -> Result<Vec<i64>> {
    let mut lengths = conn.prepare_cached(concat!(
        "SELECT r.seq, r.length, ",
        seq_of_entry!("s.entry"),
        " FROM records r LEFT JOIN sightings s ON s.seq = r.seq
          WHERE r.seq >= ?1 ORDER BY r.seq",
    ))?;
    let mut lines = Vec::new();
    for run in spans::runs(conn, generation)? {
        let mut left = run.length;
        let mut rows = lengths.query([run.first_seq])?;
        while left > 0
            && let Some(row) = rows.next()?
        {
            left = left.saturating_sub(row.get::<_, i64>(1)?.cast_unsigned());
            lines.push(row.get::<_, Option<i64>>(2)?.unwrap_or(row.get(0)?));
        }
    }
    Ok(lines)
}

/// A linked list of records, for insertions in the middle.
#[derive(Debug, Default)]
struct Order {
    first: Option<i64>,
    last: Option<i64>,
    next: HashMap<i64, i64>,
}

impl Order {
    fn holds(&self, seq: i64) -> bool {
        self.last == Some(seq) || self.next.contains_key(&seq)
    }

    /// Inserts the needed lines of a file, each after the line that precedes it there.
    fn insert_lines(
        &mut self,
        conn: &Connection,
        lines: &[i64],
        needed: &mut HashSet<i64>,
    ) -> Result<()> {
        let shared = lines.iter().position(|seq| self.holds(*seq));
        let mut at = match shared {
            Some(_) => None,
            // Without a common line, the file comes before or after all lines so far, by its times.
            None if self.is_earlier(conn, lines)? => None,
            None => self.last,
        };
        for seq in lines {
            if self.holds(*seq) {
                at = Some(*seq);
            } else if needed.remove(seq) {
                self.insert_after(at, *seq);
                at = Some(*seq);
            }
        }
        Ok(())
    }

    fn is_earlier(&self, conn: &Connection, lines: &[i64]) -> Result<bool> {
        let Some(first) = self.first else { return Ok(false) };
        let mut time = conn.prepare_cached("SELECT (SELECT time FROM entry_rows WHERE id = ?1)")?;
        let mut time_of =
            |seq: i64| -> Result<Option<i64>> { Ok(time.query_row([seq], |row| row.get(0))?) };
        // The first lines of a file may have no time.
        let mut theirs = None;
        for seq in lines.iter().take(16) {
            theirs = theirs.or(time_of(*seq)?);
        }
        let mut ours = None;
        let mut at = Some(first);
        for _ in 0..16 {
            let Some(seq) = at else { break };
            ours = ours.or(time_of(seq)?);
            at = self.next.get(&seq).copied();
        }
        Ok(theirs.zip(ours).is_some_and(|(theirs, ours)| theirs < ours))
    }

    fn insert_after(&mut self, at: Option<i64>, seq: i64) {
        let next = match at {
            Some(at) if self.last != Some(at) => self.next.insert(at, seq),
            Some(at) => {
                self.next.insert(at, seq);
                None
            }
            None => self.first.replace(seq),
        };
        match next {
            Some(next) => {
                self.next.insert(seq, next);
            }
            None => self.last = Some(seq),
        }
    }

    fn in_order(&self) -> Vec<i64> {
        let mut in_order = Vec::with_capacity(self.next.len() + 1);
        let mut at = self.first;
        while let Some(seq) = at {
            in_order.push(seq);
            at = self.next.get(&seq).copied();
        }
        in_order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_inserted_at_their_positions() {
        let mut plan = Plan::default();
        plan.push(10, 14);
        plan.push(3, 4);
        plan.sort_by_seq();
        let with = plan.with(vec![(7, 90), (0, 80), (2, 81), (2, 82), (5, 83)]);
        let order: Vec<i64> = with.runs.iter().flat_map(|run| run.first..=run.last).collect();
        assert_eq!(order, [80, 10, 11, 81, 82, 12, 13, 14, 83, 3, 4, 90]);
        for (position, seq) in order.iter().enumerate() {
            assert_eq!(with.position(EntryId(*seq)), position as u64);
        }
        assert!(with.holds(EntryId(90)) && !plan.holds(EntryId(90)));
    }
}
