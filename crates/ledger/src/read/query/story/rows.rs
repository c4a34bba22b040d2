//! Pages through the rows of a session's entries, in the order of a plan, forward or backward.
//!
//! Reads the projection only; `story` reads the records.

use std::collections::{BTreeSet, VecDeque};

use quipu_transcript::record::DECODE_LIMIT;
use rusqlite::{Connection, OptionalExtension};

use super::plan::{Plan, Run};
use crate::Result;
use crate::base::ids::{EntryId, GenerationId, PackedId, Seq, SessionRow, seq_of_entry};
use crate::project::session_sources::holds_transcript;

/// The number of rows that are read with one query. It bounds the memory.
const PAGE_ROWS: i64 = 512;

/// The row of an entry.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) id: EntryId,
    pub(super) uuid: Option<PackedId>,
    pub(super) parent: Option<EntryId>,
    pub(super) turn: Option<EntryId>,
    pub(super) has_role: bool,
    pub(super) is_side: bool,
    pub(super) is_sidechain: bool,
    /// The recorded parent, if the session has no such entry.
    pub(super) missing_parent: Option<PackedId>,
    pub(super) generation: GenerationId,
    pub(super) length: u64,
    /// The position in the plan.
    pub(super) position: u64,
    /// True if the first entry of the record is shown at another position. Further entries of the
    /// record may be shown here.
    pub(super) is_repeated: bool,
    /// True if no entry was found in the record.
    pub(super) is_unreadable: bool,
}

const COLUMNS: &str = "e.id, e.uuid, e.parent, e.turn, k.role <> '', k.is_side, k.is_sidechain,
    iif(e.parent IS NULL, e.parent_uuid, NULL)";

impl Row {
    fn from_sql(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
        Ok(Row {
            id: row.get(0)?,
            uuid: row.get(1)?,
            parent: row.get(2)?,
            turn: row.get(3)?,
            has_role: row.get(4)?,
            is_side: row.get(5)?,
            is_sidechain: row.get(6)?,
            missing_parent: row.get(7)?,
            generation: row.get(8)?,
            length: row.get::<_, i64>(9)?.cast_unsigned(),
            position: 0,
            is_repeated: false,
            is_unreadable: false,
        })
    }

    /// Returns the row of a record whose first entry is not shown here.
    fn bare(seq: Seq, generation: GenerationId, length: u64) -> Row {
        Row {
            id: EntryId(seq.0),
            uuid: None,
            parent: None,
            turn: None,
            has_role: true,
            is_side: false,
            is_sidechain: false,
            missing_parent: None,
            generation,
            length,
            position: 0,
            is_repeated: true,
            is_unreadable: false,
        }
    }

    /// Returns whether a story can show the entry, by its kind. Some kinds are shown only with
    /// `shows_all`.
    pub(super) fn can_be_shown(&self, shows_all: bool) -> bool {
        self.has_role || !self.is_side || shows_all
    }

    /// Returns whether only the beginning of its line is read.
    pub(super) fn is_oversize(&self) -> bool {
        self.length > DECODE_LIMIT as u64
    }
}

/// The rows of a session, in order.
pub(super) struct Rows<'c> {
    conn: &'c Connection,
    session: SessionRow,
    /// The runs that are not read yet, in order.
    runs: VecDeque<Run>,
    page: VecDeque<Row>,
    is_backward: bool,
    /// True if records without an entry have rows too.
    with_unreadable: bool,
}

impl<'c> Rows<'c> {
    /// Returns the rows from a position to the end.
    pub(super) fn forward(
        conn: &'c Connection,
        session: SessionRow,
        plan: &Plan,
        start: u64,
        with_unreadable: bool,
    ) -> Rows<'c> {
        let runs = plan.runs_from(start).collect();
        let page = VecDeque::new();
        Rows { conn, session, runs, page, is_backward: false, with_unreadable }
    }

    /// Returns the rows from the end to the beginning.
    pub(super) fn backward(
        conn: &'c Connection,
        session: SessionRow,
        plan: &Plan,
        with_unreadable: bool,
    ) -> Rows<'c> {
        Rows::backward_from(conn, session, plan, plan.end(), with_unreadable)
    }

    /// Returns the rows before a position, from there to the beginning.
    pub(super) fn backward_from(
        conn: &'c Connection,
        session: SessionRow,
        plan: &Plan,
        end: u64,
        with_unreadable: bool,
    ) -> Rows<'c> {
        let mut runs: VecDeque<Run> = plan.runs_until(end).collect();
        runs.make_contiguous().reverse();
        let page = VecDeque::new();
        Rows { conn, session, runs, page, is_backward: true, with_unreadable }
    }

    pub(super) fn next(&mut self) -> Result<Option<Row>> {
        while self.page.is_empty() {
            let Some(run) = self.runs.front_mut() else { return Ok(None) };
            let page =
                if self.is_backward { run.take_back(PAGE_ROWS) } else { run.take_front(PAGE_ROWS) };
            if run.is_empty() {
                self.runs.pop_front();
            }
            let mut rows = read(self.conn, self.session, page, self.with_unreadable)?;
            if self.is_backward {
                rows.reverse();
            }
            self.page = rows.into();
        }
        Ok(self.page.pop_front())
    }
}

/// Returns the entries of the records of a run that belong to the session and that no newer version
/// replaces. They are looked up by id: a page is a small part of a long session.
fn read(
    conn: &Connection,
    session: SessionRow,
    run: Run,
    with_unreadable: bool,
) -> Result<Vec<Row>> {
    let sql = format!(
        "SELECT {COLUMNS}, r.generation, r.length
           FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind CROSS JOIN records r ON r.seq = e.id
          WHERE e.id BETWEEN ?1 AND ?2 AND +e.session = ?3 AND e.superseded_by IS NULL
          ORDER BY e.id"
    );
    let mut rows: Vec<Row> = conn
        .prepare_cached(&sql)?
        .query_map((run.first, run.last, session), Row::from_sql)?
        .collect::<Result<_, _>>()?;
    let unreadable = match with_unreadable {
        true => unreadable(conn, session, Seq(run.first), Seq(run.last))?,
        false => BTreeSet::new(),
    };
    for seq in welded(conn, session, run)?.into_iter().chain(unreadable.iter().copied()) {
        if let Err(place) = rows.binary_search_by_key(&seq, |row| row.id.0) {
            let (generation, length) = conn
                .prepare_cached("SELECT generation, length FROM records WHERE seq = ?1")?
                .query_row([seq], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?;
            let mut row = Row::bare(Seq(seq), generation, length.cast_unsigned());
            row.is_unreadable = unreadable.contains(&seq);
            rows.insert(place, row);
        }
    }
    for row in &mut rows {
        row.position = run.position + (row.id.0 - run.first).cast_unsigned();
    }
    Ok(rows)
}

/// Returns the records of a session's files from `first` to `last` in which no entry was found.
/// Blank lines have no problem, so they are left out.
pub(super) fn unreadable(
    conn: &Connection,
    session: SessionRow,
    first: Seq,
    last: Seq,
) -> Result<BTreeSet<i64>> {
    let mut statement = conn.prepare_cached(concat!(
        "SELECT p.entry
           FROM problems p
           JOIN session_sources ss ON ss.source = p.source AND ss.session = ?3
           JOIN records r ON r.seq = p.entry
           JOIN generations g ON g.id = r.generation AND g.source = p.source
          WHERE p.entry BETWEEN ?1 AND ?2 AND (ss.part = 'trajectory' OR ",
        holds_transcript!("ss.part"),
        ") AND NOT EXISTS (SELECT 1 FROM entry_rows e WHERE e.id = p.entry)
            AND NOT EXISTS (SELECT 1 FROM sightings s WHERE s.seq = p.entry)",
    ))?;
    let records = statement.query_map((first, last, session), |row| row.get(0))?;
    Ok(records.collect::<Result<_, _>>()?)
}

/// Returns the records of a run with several entries, if one after the first belongs to the session
/// and no newer version replaces it. All entries of a line are checked, since one that is repeated
/// or replaced may precede one that is not.
fn welded(conn: &Connection, session: SessionRow, run: Run) -> Result<BTreeSet<i64>> {
    let mut found = BTreeSet::new();
    let mut statement = conn.prepare_cached(
        "SELECT id, session IS ?3 AND superseded_by IS NULL FROM entry_rows
          WHERE id BETWEEN ?1 AND ?2
          UNION ALL
         SELECT seq, 0 FROM sightings WHERE seq BETWEEN ?1 AND ?2",
    )?;
    for ordinal in 1.. {
        let first = EntryId::of(Seq(run.first), ordinal);
        let last = EntryId::of(Seq(run.last), ordinal);
        let mut rows = statement.query((first, last, session))?;
        let mut is_any = false;
        while let Some(row) = rows.next()? {
            is_any = true;
            if row.get(1)?
                && let Some(seq) = row.get::<_, EntryId>(0)?.seq()
            {
                found.insert(seq.0);
            }
        }
        if !is_any {
            break;
        }
    }
    Ok(found)
}

/// Returns an entry of the session, unless a newer version replaces it.
pub(super) fn one(conn: &Connection, session: SessionRow, id: EntryId) -> Result<Option<Row>> {
    let sql = format!(
        "SELECT {COLUMNS}, r.generation, r.length
           FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind
          CROSS JOIN records r ON r.seq = {}
          WHERE e.id = ?1 AND e.session = ?2 AND e.superseded_by IS NULL",
        seq_of_entry!("e.id")
    );
    Ok(conn.prepare_cached(&sql)?.query_row((id, session), Row::from_sql).optional()?)
}

/// Returns entries of last lines that have no newline yet. They come after all other entries.
pub(super) fn provisional(conn: &Connection, session: SessionRow) -> Result<Vec<Row>> {
    let sql = format!(
        "SELECT {COLUMNS}, -e.id, 0
           FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind
          WHERE e.session = ?1 AND e.uuid IS NULL AND e.id < 0
          ORDER BY e.id DESC"
    );
    let mut rows: Vec<Row> = conn
        .prepare_cached(&sql)?
        .query_map([session], Row::from_sql)?
        .collect::<Result<_, _>>()?;
    for row in &mut rows {
        row.position = u64::MAX;
    }
    Ok(rows)
}
