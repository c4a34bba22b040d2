//! The position of a source in the ledger: its generation, cursor and tail, and the rows that store
//! it.

use rusqlite::{OptionalExtension, Transaction};

use super::batch::{Began, Piece, RowCursor, SpanPlan};
use super::known::KnownSource;
use super::plan::SourceKind;
use crate::Result;
use crate::base::ids::{GenerationId, Seq, SourceId};
use crate::truth::sources::{self, Reached};
use crate::truth::{records, spans};

/// A position in a collected file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(super) source: SourceId,
    pub(super) generation: GenerationId,
    pub(super) number: i64,
    pub(super) cursor: u64,
    pub(super) tail_length: u64,
    /// True if the generation began, or was found unfinished, in this sync.
    pub(super) is_fresh: bool,
    pub(super) kind: SourceKind,
}

impl Position {
    pub(super) fn of(known: &KnownSource) -> Position {
        Position {
            source: known.source,
            generation: known.generation,
            number: known.number,
            cursor: known.cursor,
            tail_length: known.tail_length,
            is_fresh: known.number > 1 && known.is_unfinished(),
            kind: if known.rows.is_some() { SourceKind::Rows } else { SourceKind::File },
        }
    }
}

/// A stored record.
pub(super) struct Record {
    pub(super) seq: Seq,
    pub(super) start: u64,
    pub(super) length: u64,
}

/// Stores the spans of a piece, and its own records, from `position` on.
pub(super) fn store_spans(
    tx: &Transaction<'_>,
    plans: &[SpanPlan],
    position: &mut Position,
    seq: &mut Seq,
    lengths: &mut dyn Iterator<Item = (u64, Option<Seq>)>,
) -> Result<Vec<Record>> {
    let mut stored = Vec::new();
    let mut inserter = records::Inserter::new(tx)?;
    let mut flattener = spans::Flattener::default();
    for span in plans {
        match *span {
            SpanPlan::Same { generation, start, length } => {
                let mut at = position.cursor;
                let stretch = spans::Stretch { generation, start, length };
                for same in flattener.flatten(tx, position.number, stretch)? {
                    records::same_span(tx, position.generation, at, &same)?;
                    at += same.length;
                }
            }
            SpanPlan::Own { records: number, length } => {
                let first = *seq;
                let mut start = position.cursor;
                for (length, same_as) in lengths.take(number) {
                    inserter.insert(*seq, position.generation, start, length, same_as)?;
                    stored.push(Record { seq: *seq, start, length });
                    start += length;
                    *seq = Seq(seq.0 + 1);
                }
                let last = Seq(seq.0 - 1);
                records::own_span(tx, position.generation, position.cursor, length, first, last)?;
            }
        }
        position.cursor += span.length();
    }
    Ok(stored)
}

/// Stores the cursor of a file, and its metadata.
pub(super) fn move_cursor(
    tx: &Transaction<'_>,
    piece: &Piece,
    position: &Position,
    records: usize,
) -> Result<()> {
    let reached = Reached {
        cursor: position.cursor,
        tail_length: position.tail_length,
        tail_stands: piece.is_still && position.tail_length > 0,
        new_records: records,
    };
    sources::advance(tx, position.generation, &reached, &piece.stat, &piece.prints)
}

/// Stores the cursor of a session in a database.
pub(super) fn move_row_cursor(
    tx: &Transaction<'_>,
    generation: GenerationId,
    rows: &RowCursor,
) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO row_cursors (generation, rewrite, last_row, rows) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (generation) DO UPDATE SET rewrite = ?2, last_row = ?3, rows = ?4",
    )?
    .execute((generation, &rows.rewrite, rows.last_row, rows.rows))?;
    Ok(())
}

/// Begins a generation of a source.
pub(super) fn new_generation(
    tx: &Transaction<'_>,
    kind: SourceKind,
    source: SourceId,
    number: i64,
    began: Began,
    piece: &Piece,
) -> Result<Position> {
    let (stat, prints) = (&piece.stat, &piece.prints);
    let generation = sources::begin_generation(tx, source, number, began.as_str(), stat, prints)?;
    Ok(Position {
        source,
        generation,
        number,
        cursor: 0,
        tail_length: 0,
        is_fresh: number > 1,
        kind,
    })
}

/// Returns whether a source has that path.
pub(super) fn is_known_path(
    tx: &Transaction<'_>,
    format: &str,
    root: &[u8],
    path: &[u8],
) -> Result<bool> {
    Ok(tx
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM sources WHERE format = ?1 AND root = ?2 AND path = ?3)",
        )?
        .query_row((format, root, path), |row| row.get(0))?)
}

/// Returns whether the ledger is still at that position of a file.
pub(super) fn is_at(tx: &Transaction<'_>, position: &Position) -> Result<bool> {
    let found = tx
        .prepare_cached(
            "SELECT g.cursor, g.tail_length
               FROM sources s JOIN generations g ON g.id = s.generation
              WHERE s.id = ?1 AND g.id = ?2",
        )?
        .query_row((position.source, position.generation), |row| {
            Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
        })
        .optional()?;
    Ok(found == Some((position.cursor, position.tail_length)))
}
