//! The context of a long session from its last lines alone.
//!
//! A session that goes on for thousands of entries was compacted on the way, and its context needs
//! nothing from before what the last compaction keeps. The projection knows where that begins and
//! whether everything since then is plain: every line an entry with an id of its own, hung off
//! another one of these lines, with nothing odd about it. Then the reader's answer for the last lines
//! is its answer for all of them, but for the thinking level, which may have been set long before.
//! Anything else is left to whoever reads every line.

use quipu_transcript::context::{Context, Session};
use quipu_transcript::native;
use rusqlite::{Connection, OptionalExtension};

use super::{Life, text};
use crate::Result;
use crate::base::ids::{EntryId, PackedId, Seq, SessionRow};
use crate::truth::chunks::RecordReader;
use crate::truth::spans;

/// A shorter session is read as quickly as its rows are.
const WORTH_IT: u64 = 1 << 20;

/// What may stand in the part that is read. Others move the leaf, or are seen through.
const PLAIN: &[&str] = &[
    "message",
    "model_change",
    "thinking_level_change",
    "compaction",
    "branch_summary",
    "custom",
    "custom_message",
    "label",
    "session_info",
    "context_edit",
    "reset",
];

/// The context for the session's own leaf; `None` if more has to be read for it.
pub(super) fn context(
    conn: &Connection,
    life: &Life,
    session: SessionRow,
) -> Result<Option<Context>> {
    if life.size < WORTH_IT {
        return Ok(None);
    }
    from(conn, life, session)
}

/// The same, of a session of any length.
pub(crate) fn from(conn: &Connection, life: &Life, session: SessionRow) -> Result<Option<Context>> {
    let Some(first) = first_kept(conn, session)? else { return Ok(None) };
    let Some((before, since)) = records(conn, life, first)? else { return Ok(None) };
    if !is_plain(conn, session, first, &since)? {
        return Ok(None);
    }
    let Some(&header) = before.first().map(|(first, _)| first) else { return Ok(None) };
    let mut reader = RecordReader::new(conn);
    let mut lines = vec![text(reader.read(Seq(header))?)];
    for seq in since.iter().flat_map(|(first, last)| *first..=*last) {
        lines.push(text(reader.read(Seq(seq))?));
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end_matches('\n')).collect();
    let mut read = Session::new(life.rules);
    read.extend(&lines);
    let Some((mut plan, says_thinking)) = read.plan_of_the_end() else { return Ok(None) };
    if !says_thinking {
        match thinking(conn, session, first, &before)? {
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

/// The first entry that the session's last compaction keeps.
fn first_kept(conn: &Connection, session: SessionRow) -> Result<Option<i64>> {
    let last: Option<(i64, Option<PackedId>)> = conn
        .prepare_cached(
            "SELECT id, first_kept FROM compactions WHERE session = ?1 ORDER BY id DESC LIMIT 1",
        )?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((compaction, Some(kept))) = last else { return Ok(None) };
    let found: Option<i64> = conn
        .prepare_cached("SELECT max(id) FROM entry_rows WHERE session = ?1 AND uuid = ?2")?
        .query_row((session, kept), |row| row.get(0))?;
    Ok(found.filter(|first| (1..compaction).contains(first)))
}

/// Runs of consecutive records.
type Records = Vec<(i64, i64)>;

/// The records of a life before `first`, and from there on. `None` if they are not in the order of
/// their numbers, or not all of them are whole lines of its own.
fn records(conn: &Connection, life: &Life, first: i64) -> Result<Option<(Records, Records)>> {
    let tail: i64 = conn
        .prepare_cached("SELECT tail_length FROM generations WHERE id = ?1")?
        .query_row([life.generation], |row| row.get(0))?;
    let Some(own) = spans::own_records(conn, life.generation)?.filter(|_| tail == 0) else {
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
    // What is kept may stand in another file of the session.
    let is_here = since.first().is_some_and(|(from, _)| *from == first);
    Ok(is_here.then_some((before, since)))
}

/// Whether every record is one entry of the session, of a plain kind, and hangs off another one.
fn is_plain(conn: &Connection, session: SessionRow, first: i64, records: &Records) -> Result<bool> {
    let mut problems = conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM problems WHERE entry BETWEEN ?1 AND ?2)")?;
    let mut entries = conn.prepare_cached(
        "SELECT e.id, e.parent, e.uuid IS NOT NULL AND e.superseded_by IS NULL AND k.is_known
                AND NOT k.is_side AND NOT k.is_sidechain, k.type
           FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind
          WHERE e.id BETWEEN ?1 AND ?2 AND e.session = ?3 ORDER BY e.id",
    )?;
    for (from, to) in records {
        if problems.query_row((from, to), |row| row.get(0))? {
            return Ok(false);
        }
        let mut next = *from;
        let mut rows = entries.query((from, to, session))?;
        while let Some(row) = rows.next()? {
            let (id, parent): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
            let hangs = id == first || parent.is_some_and(|parent| parent >= first);
            let type_name = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
            if id != next || !hangs || !row.get::<_, bool>(2)? || !PLAIN.contains(&type_name) {
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

/// What is known of the thinking level before the lines that are read.
enum Thinking {
    Never,
    Set(EntryId),
    Unclear,
}

/// The thinking level is set by the last entry on the path that does so. Where the conversation went
/// straight on since then, that is the last one that there is.
fn thinking(
    conn: &Connection,
    session: SessionRow,
    first: i64,
    before: &Records,
) -> Result<Thinking> {
    let mut entries = conn.prepare_cached(
        "SELECT e.id, e.parent, k.type, k.is_side OR k.is_sidechain OR NOT k.is_known
           FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind
          WHERE e.id BETWEEN ?1 AND ?2 AND e.session = ?3 ORDER BY e.id",
    )?;
    let (mut set, mut is_straight, mut previous) = (None, true, None::<i64>);
    for (from, to) in before {
        let mut rows = entries.query((from, to, session))?;
        while let Some(row) = rows.next()? {
            let (id, parent): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
            let type_name = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
            match type_name {
                "session" => continue,
                "thinking_level_change" => (set, is_straight) = (Some(EntryId(id)), true),
                _ => is_straight &= parent == previous && PLAIN.contains(&type_name),
            }
            is_straight &= !row.get::<_, bool>(3)?;
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
