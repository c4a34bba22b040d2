//! The context of a long session from its last lines alone.
//!
//! Nothing before the entries that the last compaction keeps is needed if all later lines are
//! plain: each is one entry with an id, a known type, and a parent among these lines. Only the
//! thinking level may have been set earlier. In all other cases this file returns `None`, and
//! `context` reads every line.

use foldhash::HashMap;
use quipu_transcript::context::{Context, Session};
use quipu_transcript::native;
use rusqlite::{Connection, OptionalExtension};

use super::{TranscriptGeneration, text};
use crate::Result;
use crate::base::ids::{EntryId, PackedId, Seq, SessionRow};
use crate::truth::chunks::RecordReader;
use crate::truth::spans;

/// The size of a session, in bytes, below which all lines are read: that takes no longer than
/// reading the rows.
const MIN_TRANSCRIPT_BYTES: u64 = 1 << 20;

/// Returns the context for the session's own leaf, or `None` if more lines are needed.
pub(super) fn context(
    conn: &Connection,
    generation: &TranscriptGeneration,
    session: SessionRow,
) -> Result<Option<Context>> {
    if generation.size < MIN_TRANSCRIPT_BYTES {
        return Ok(None);
    }
    context_from_end(conn, generation, session)
}

/// Returns the same as [`context`], for a session of any length.
pub(crate) fn context_from_end(
    conn: &Connection,
    generation: &TranscriptGeneration,
    session: SessionRow,
) -> Result<Option<Context>> {
    let Some(first) = first_kept(conn, session)? else { return Ok(None) };
    let Some((before, since)) = records(conn, generation, first)? else { return Ok(None) };
    let mut kinds = Kinds::new(conn, generation.reader.plain_types());
    if !is_plain(conn, session, first, &since, &mut kinds)? {
        return Ok(None);
    }
    let Some(&header) = before.first().map(|(first, _)| first) else { return Ok(None) };
    let mut reader = RecordReader::new(conn);
    let mut lines = vec![text(reader.read(Seq(header))?)];
    for seq in since.iter().flat_map(|(first, last)| *first..=*last) {
        lines.push(text(reader.read(Seq(seq))?));
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end_matches('\n')).collect();
    let mut read = Session::new(generation.reader);
    read.extend(&lines);
    let Some((mut plan, sets_thinking)) = read.plan_of_the_end() else { return Ok(None) };
    if !sets_thinking {
        match thinking(conn, session, first, &before, &mut kinds)? {
            Thinking::Never => {}
            Thinking::Set(entry) => {
                let Some(seq) = entry.seq() else { return Ok(None) };
                let line = text(reader.read(seq)?);
                plan.set_thinking_level(native::thinking_level_in(&line).unwrap_or_default());
            }
            Thinking::Unclear => return Ok(None),
        }
    }
    Ok(Some(plan.fill(&|number| lines.get(number).copied())))
}

/// Returns the first entry that the session's last compaction keeps.
fn first_kept(conn: &Connection, session: SessionRow) -> Result<Option<i64>> {
    let last: Option<(i64, Option<PackedId>)> = conn
        .prepare_cached(
            "SELECT id, first_kept FROM compaction_rows WHERE session = ?1 ORDER BY id DESC LIMIT 1",
        )?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((compaction, Some(kept))) = last else { return Ok(None) };
    let found: Option<i64> = conn
        .prepare_cached("SELECT max(id) FROM entry_rows WHERE session = ?1 AND uuid = ?2")?
        .query_row((session, kept), |row| row.get(0))?;
    Ok(found.filter(|first| (1..compaction).contains(first)))
}

/// Runs of consecutive records: the first and the last of each.
type Records = Vec<(i64, i64)>;

/// Returns the records of a generation before `first`, and from `first` on. `None` if they are not
/// in the order of their numbers, or if some are not whole lines of this generation.
fn records(
    conn: &Connection,
    generation: &TranscriptGeneration,
    first: i64,
) -> Result<Option<(Records, Records)>> {
    let tail: i64 = conn
        .prepare_cached("SELECT tail_length FROM generations WHERE id = ?1")?
        .query_row([generation.id], |row| row.get(0))?;
    let Some(own) = spans::own_records(conn, generation.id)?.filter(|_| tail == 0) else {
        return Ok(None);
    };
    let (mut before, mut since) = (Vec::new(), Vec::new());
    let mut last = 0;
    for (from, to) in own {
        if from <= last {
            return Ok(None);
        }
        last = to;
        if from < first {
            before.push((from, to.min(first - 1)));
        }
        if to >= first {
            since.push((from.max(first), to));
        }
    }
    // The kept entries may be in another file of the session.
    let is_here = since.first().is_some_and(|(from, _)| *from == first);
    Ok(is_here.then_some((before, since)))
}

/// The properties of a kind that decide whether a line is plain.
#[derive(Debug, Clone, Copy)]
struct KindFacts {
    is_header: bool,
    sets_thinking: bool,
    /// True if its entries can be on the path from the root to the leaf.
    is_on_path: bool,
    /// True if also its type is plain.
    is_plain: bool,
}

/// The kinds of a session's entries, each read once: a join would read their texts for every entry.
struct Kinds<'a> {
    conn: &'a Connection,
    plain_types: &'a [&'a str],
    known: HashMap<i64, KindFacts>,
}

impl<'a> Kinds<'a> {
    fn new(conn: &'a Connection, plain_types: &'a [&'a str]) -> Kinds<'a> {
        Kinds { conn, plain_types, known: HashMap::default() }
    }

    fn facts(&mut self, kind: i64) -> Result<KindFacts> {
        if let Some(facts) = self.known.get(&kind) {
            return Ok(*facts);
        }
        let facts = self
            .conn
            .prepare_cached("SELECT type, form, is_side OR is_sidechain FROM kinds WHERE id = ?1")?
            .query_row([kind], |row| {
                let form = row.get_ref(1)?.as_str()?;
                let is_on_path = form != "unknown" && !row.get::<_, bool>(2)?;
                Ok(KindFacts {
                    is_header: form == "header",
                    sets_thinking: form == "thinking_level",
                    is_on_path,
                    is_plain: is_on_path && self.plain_types.contains(&row.get_ref(0)?.as_str()?),
                })
            })?;
        self.known.insert(kind, facts);
        Ok(facts)
    }
}

/// Returns whether every record is one entry of the session, of a plain type, whose parent is
/// another of these entries.
fn is_plain(
    conn: &Connection,
    session: SessionRow,
    first: i64,
    records: &Records,
    kinds: &mut Kinds<'_>,
) -> Result<bool> {
    let mut problems = conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM problems WHERE entry BETWEEN ?1 AND ?2)")?;
    let mut entries = conn.prepare_cached(
        "SELECT id, parent, kind, uuid IS NOT NULL AND superseded_by IS NULL
           FROM entry_rows WHERE id BETWEEN ?1 AND ?2 AND +session = ?3 ORDER BY id",
    )?;
    for (from, to) in records {
        if problems.query_row((from, to), |row| row.get(0))? {
            return Ok(false);
        }
        let mut next = *from;
        let mut rows = entries.query((from, to, session))?;
        while let Some(row) = rows.next()? {
            let (id, parent): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
            let is_attached = id == first || parent.is_some_and(|parent| parent >= first);
            let is_current: bool = row.get(3)?;
            if id != next || !is_attached || !is_current || !kinds.facts(row.get(2)?)?.is_plain {
                return Ok(false);
            }
            next += 1;
        }
        if next != to + 1 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The thinking level before the lines that are read.
enum Thinking {
    Never,
    Set(EntryId),
    Unclear,
}

/// Returns the last entry before these lines that sets the thinking level. It is certain only if
/// the path has no branch since then.
fn thinking(
    conn: &Connection,
    session: SessionRow,
    first: i64,
    before: &Records,
    kinds: &mut Kinds<'_>,
) -> Result<Thinking> {
    let mut entries = conn.prepare_cached(
        "SELECT id, parent, kind FROM entry_rows
          WHERE id BETWEEN ?1 AND ?2 AND +session = ?3 ORDER BY id",
    )?;
    let (mut set, mut is_straight, mut previous) = (None, true, None::<i64>);
    for (from, to) in before {
        let mut rows = entries.query((from, to, session))?;
        while let Some(row) = rows.next()? {
            let (id, parent): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
            let kind = kinds.facts(row.get(2)?)?;
            if kind.is_header {
                continue;
            }
            if kind.sets_thinking {
                (set, is_straight) = (Some(EntryId(id)), kind.is_on_path);
            } else {
                is_straight &= kind.is_plain && parent == previous;
            }
            previous = Some(id);
        }
    }
    let parent: Option<i64> = conn
        .prepare_cached("SELECT parent FROM entry_rows WHERE id = ?1")?
        .query_row([first], |row| row.get(0))?;
    Ok(match set {
        None => Thinking::Never,
        Some(entry) if is_straight && parent == previous => Thinking::Set(entry),
        Some(_) => Thinking::Unclear,
    })
}
