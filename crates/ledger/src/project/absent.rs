//! The records that the newest generation of their source no longer contains.
//!
//! They stay readable and searchable. This table only marks that the agent's file has lost them; it
//! never removes a record.

use std::collections::BTreeSet;

use rusqlite::Transaction;

use crate::Result;
use crate::base::ids::{GenerationId, Seq, SourceId};
use crate::truth::spans;

/// Updates `absent` for a source that has a new generation.
pub(crate) fn mark(tx: &Transaction<'_>, source: SourceId) -> Result<()> {
    let newest: Option<GenerationId> = tx
        .prepare_cached("SELECT generation FROM sources WHERE id = ?1")?
        .query_row([source], |row| row.get(0))?;
    let Some(newest) = newest else { return Ok(()) };
    let mut missing = own_records(tx, source)?;
    let mut lengths =
        tx.prepare_cached("SELECT seq, length, same_as FROM records WHERE seq >= ?1 ORDER BY seq")?;
    for run in spans::runs(tx, newest)? {
        let mut left = run.length;
        let mut rows = lengths.query([run.first_seq])?;
        while left > 0
            && let Some(row) = rows.next()?
        {
            missing.remove(&row.get(0)?);
            // A record with the same bytes is back in the file, so the older one is not missing
            // either.
            if let Some(same) = row.get(2)? {
                missing.remove(&same);
            }
            left = left.saturating_sub(row.get::<_, i64>(1)? as u64);
        }
    }
    // Only the difference is written: a rewrite of one line changes one row.
    let mut stale = Vec::new();
    {
        let mut known = tx.prepare_cached("SELECT seq FROM absent WHERE seq BETWEEN ?1 AND ?2")?;
        for (first, last) in own_ranges(tx, source)? {
            let mut rows = known.query((first, last))?;
            while let Some(row) = rows.next()? {
                let seq: Seq = row.get(0)?;
                if !missing.remove(&seq) {
                    stale.push(seq);
                }
            }
        }
    }
    for seq in missing {
        tx.prepare_cached("INSERT INTO absent (seq) VALUES (?1)")?.execute([seq])?;
    }
    for seq in stale {
        tx.prepare_cached("DELETE FROM absent WHERE seq = ?1")?.execute([seq])?;
    }
    Ok(())
}

/// Returns all records that a source ever had.
fn own_records(tx: &Transaction<'_>, source: SourceId) -> Result<BTreeSet<Seq>> {
    Ok(own_ranges(tx, source)?
        .into_iter()
        .flat_map(|(first, last)| (first.0..=last.0).map(Seq))
        .collect())
}

fn own_ranges(tx: &Transaction<'_>, source: SourceId) -> Result<Vec<(Seq, Seq)>> {
    Ok(tx
        .prepare_cached(
            "SELECT s.first_seq, s.last_seq
               FROM generations g JOIN spans s ON s.generation = g.id
              WHERE g.source = ?1 AND s.first_seq IS NOT NULL",
        )?
        .query_map([source], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?)
}
