//! The ledger's own source: what is true but stands in no other. Rebuild reads it like any other.

use rusqlite::{Connection, OptionalExtension, Transaction};
use serde::{Deserialize, Serialize};

use crate::ids::{GenerationId, Seq, SourceId};
use crate::{Result, chunks};

/// The journal is the first source.
pub(crate) const SOURCE: SourceId = SourceId(1);
const GENERATION: GenerationId = GenerationId(1);

/// The name of its format.
pub(crate) const FORMAT: &str = "journal";

/// Something that happened to a source, as it stands in the journal: one JSON line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A source was rewritten (what it held before is kept), or is a copy of another.
    Generation {
        /// When, milliseconds UTC.
        at: i64,
        source: SourceNumber,
        number: i64,
        began: String,
        /// The source that it is a copy of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        copy_of: Option<SourceNumber>,
    },
    /// A source is no longer on disk.
    Gone { at: i64, source: SourceNumber },
    /// A source that was gone is there again.
    Back { at: i64, source: SourceNumber },
    /// A source has another path.
    Renamed { at: i64, source: SourceNumber },
}

/// A source's id, as it stands in the journal.
pub(crate) type SourceNumber = i64;

impl Event {
    /// The source it is about.
    pub(crate) fn source(&self) -> SourceId {
        match self {
            Event::Generation { source, .. }
            | Event::Gone { source, .. }
            | Event::Back { source, .. }
            | Event::Renamed { source, .. } => SourceId(*source),
        }
    }
}

/// Creates the journal in a new ledger.
pub(crate) fn create(tx: &Transaction<'_>) -> Result<()> {
    tx.execute(
        "INSERT INTO sources (id, kind, format, root, path, first_path, generation)
         VALUES (?1, 'journal', ?2, x'', x'', x'', ?3)",
        (SOURCE, FORMAT, GENERATION),
    )?;
    tx.execute(
        "INSERT INTO generations
            (id, source, number, began, device, inode, size, mtime_ns, ctime_ns, cursor,
             tail_length, tail_stands, head, head_length, marker, records)
         VALUES (?1, ?2, 1, 'first', 0, 0, 0, 0, 0, 0, 0, 0, x'', 0, x'', 0)",
        (GENERATION, SOURCE),
    )?;
    Ok(())
}

/// Appends an event and returns its seq.
pub(crate) fn append(tx: &Transaction<'_>, event: &Event) -> Result<Seq> {
    let mut line = serde_json::to_vec(event).map_err(|error| {
        crate::Error::damaged(format!("a journal event that is no JSON: {error}"))
    })?;
    line.push(b'\n');
    let seq = next_seq(tx)?;
    let start: i64 =
        tx.query_row("SELECT cursor FROM generations WHERE id = ?1", [GENERATION], |row| {
            row.get(0)
        })?;
    tx.prepare_cached(
        "INSERT INTO records (seq, generation, start, length) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute((seq, GENERATION, start, line.len() as i64))?;
    chunks::put_pending(tx, seq, &line)?;
    own_span(tx, GENERATION, start as u64, line.len() as u64, seq, seq)?;
    tx.execute(
        "UPDATE generations
            SET cursor = cursor + ?2, size = size + ?2, records = records + 1
          WHERE id = ?1",
        (GENERATION, line.len() as i64),
    )?;
    Ok(seq)
}

/// The seq that the next record gets.
pub(crate) fn next_seq(conn: &Connection) -> Result<Seq> {
    let last: Option<i64> =
        conn.prepare_cached("SELECT max(seq) FROM records")?.query_row([], |row| row.get(0))?;
    Ok(Seq(last.unwrap_or(0) + 1))
}

/// Notes that `first` to `last` are a generation's own bytes from `start` on; joins the span
/// before them where both are consecutive.
pub(crate) fn own_span(
    tx: &Connection,
    generation: GenerationId,
    start: u64,
    length: u64,
    first: Seq,
    last: Seq,
) -> Result<()> {
    let before = tx
        .prepare_cached(
            "SELECT start FROM spans
              WHERE generation = ?1 AND start + length = ?2 AND last_seq = ?3
                AND start = (SELECT max(start) FROM spans WHERE generation = ?1)",
        )?
        .query_row((generation, start as i64, first.0 - 1), |row| row.get::<_, i64>(0))
        .optional()?;
    match before {
        Some(before) => tx
            .prepare_cached(
                "UPDATE spans SET length = length + ?3, last_seq = ?4
                  WHERE generation = ?1 AND start = ?2",
            )?
            .execute((generation, before, length as i64, last))?,
        None => tx
            .prepare_cached(
                "INSERT INTO spans (generation, start, length, first_seq, last_seq)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((generation, start as i64, length as i64, first, last))?,
    };
    Ok(())
}
