//! The rows of truth that locate records and spans. The bytes are in [`crate::truth::chunks`].
//!
//! Never updates a row of `records`; only `ops::forget` does.

use rusqlite::{CachedStatement, Connection, OptionalExtension};

use crate::Result;
use crate::base::ids::{GenerationId, Seq};
use crate::truth::spans::Stretch;

/// Returns the seq of the next record.
pub(crate) fn next_seq(conn: &Connection) -> Result<Seq> {
    let last: Option<i64> =
        conn.prepare_cached("SELECT max(seq) FROM records")?.query_row([], |row| row.get(0))?;
    Ok(Seq(last.unwrap_or(0) + 1))
}

/// Records that `first` to `last` are a generation's own bytes from `start` on. Extends the span
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

/// Records that a generation's bytes from `start` on are the same as those of another one.
pub(crate) fn same_span(
    tx: &Connection,
    generation: GenerationId,
    start: u64,
    same: &Stretch,
) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO spans (generation, start, length, from_generation, from_start)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((
        generation,
        start as i64,
        same.length as i64,
        same.generation,
        same.start as i64,
    ))?;
    Ok(())
}

/// Adds a record. Rows are never updated, except by `forget`.
pub(crate) fn insert(
    tx: &Connection,
    seq: Seq,
    generation: GenerationId,
    start: u64,
    length: u64,
    same_as: Option<Seq>,
) -> Result<()> {
    Inserter::new(tx)?.insert(seq, generation, start, length, same_as)
}

/// Adds a record of a native session with its idempotency key, by which a retry finds it.
pub(crate) fn insert_keyed(
    tx: &Connection,
    seq: Seq,
    generation: GenerationId,
    start: u64,
    length: u64,
    same_as: Option<Seq>,
    key: Option<&str>,
) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO records (seq, generation, start, length, same_as, key)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute((seq, generation, start as i64, length as i64, same_as, key))?;
    Ok(())
}

/// Adds many records with one prepared statement.
pub(crate) struct Inserter<'c>(CachedStatement<'c>);

impl<'c> Inserter<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Result<Inserter<'c>> {
        Ok(Inserter(conn.prepare_cached(
            "INSERT INTO records (seq, generation, start, length, same_as)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?))
    }

    pub(crate) fn insert(
        &mut self,
        seq: Seq,
        generation: GenerationId,
        start: u64,
        length: u64,
        same_as: Option<Seq>,
    ) -> Result<()> {
        self.0.execute((seq, generation, start as i64, length as i64, same_as))?;
        Ok(())
    }
}
