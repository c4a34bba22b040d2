//! Where a source stands in the ledger: its generation, cursor and tail, and the rows that say so.

use rusqlite::{OptionalExtension, Transaction};

use super::batch::{Began, Piece, RowCursor, SpanPlan};
use super::discover::Stat;
use super::known::Known;
use super::plan::Kind;
use crate::Result;
use crate::base::ids::{GenerationId, Seq, SourceId};
use crate::truth::{records, spans};

/// A place in a followed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(super) source: SourceId,
    pub(super) generation: GenerationId,
    pub(super) number: i64,
    pub(super) cursor: u64,
    pub(super) tail_length: u64,
    /// The generation began, or was found unfinished, in this sync.
    pub(super) is_fresh: bool,
    pub(super) kind: Kind,
}

impl Position {
    /// Bytes that are in the ledger.
    pub(super) fn reached(&self) -> u64 {
        self.cursor + self.tail_length
    }

    pub(super) fn of(known: &Known) -> Position {
        Position {
            source: known.source,
            generation: known.generation,
            number: known.number,
            cursor: known.cursor,
            tail_length: known.tail_length,
            is_fresh: known.number > 1 && known.is_unfinished(),
            kind: if known.rows.is_some() { Kind::Rows } else { Kind::File },
        }
    }
}

/// A record that was stored.
pub(super) struct Record {
    pub(super) seq: Seq,
    pub(super) start: u64,
    pub(super) length: u64,
}

/// Stores the spans of a piece, and the records that are its own, from `position` on.
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

/// Notes how far a file was read, and what it looked like.
pub(super) fn move_cursor(
    tx: &Transaction<'_>,
    piece: &Piece,
    position: &Position,
    records: usize,
) -> Result<()> {
    let Stat { device, inode, size, mtime_ns, ctime_ns } = piece.stat;
    tx.prepare_cached(
        "UPDATE generations
            SET device = ?2, inode = ?3, size = ?4, mtime_ns = ?5, ctime_ns = ?6, cursor = ?7,
                tail_length = ?8, tail_stands = ?9, head = ?10, head_length = ?11, marker = ?12,
                records = records + ?13
          WHERE id = ?1",
    )?
    .execute(rusqlite::params![
        position.generation,
        device.cast_signed(),
        inode.cast_signed(),
        size as i64,
        mtime_ns,
        ctime_ns,
        position.cursor as i64,
        position.tail_length as i64,
        piece.is_still && position.tail_length > 0,
        piece.prints.head,
        piece.prints.head_length as i64,
        piece.prints.marker,
        records as i64,
    ])?;
    Ok(())
}

/// Notes how far a session in a database was read.
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
    kind: Kind,
    source: SourceId,
    number: i64,
    began: Began,
    piece: &Piece,
) -> Result<Position> {
    let Stat { device, inode, size, mtime_ns, ctime_ns } = piece.stat;
    tx.prepare_cached(
        "INSERT INTO generations
            (source, number, began, device, inode, size, mtime_ns, ctime_ns, cursor, tail_length,
             tail_stands, head, head_length, marker, records)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0, 0, ?9, ?10, ?11, 0)",
    )?
    .execute(rusqlite::params![
        source,
        number,
        began.as_str(),
        device.cast_signed(),
        inode.cast_signed(),
        size as i64,
        mtime_ns,
        ctime_ns,
        piece.prints.head,
        piece.prints.head_length as i64,
        piece.prints.marker,
    ])?;
    let generation = GenerationId(tx.last_insert_rowid());
    tx.prepare_cached("UPDATE sources SET generation = ?2 WHERE id = ?1")?
        .execute((source, generation))?;
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

/// Whether a source has that path.
pub(super) fn is_followed(
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

/// Whether the ledger is still at that place of a file.
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
