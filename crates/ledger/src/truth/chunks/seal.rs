//! Turns pending records into chunks, when there are enough bytes or when none came for a while.
//!
//! Never reorders records, and never changes their bytes.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::read::find_length_and_holder;
use super::{FULL_CHUNK_BYTES, MAX_CHUNK_BYTES, Packer, RecordReader};
use crate::Result;
use crate::base::ids::Seq;
use crate::file::ledger::Ledger;
use crate::truth::sums;

/// The number of pending bytes at which pending records are sealed.
const SEAL_BYTES: usize = 256 << 10;

/// The time, in milliseconds, without a new record after which pending records are sealed.
const MAX_PENDING_AGE_MS: i64 = 10 * 60 * 1000;

/// Returns whether pending records should be sealed: there are enough bytes, or none came for a
/// while.
pub(crate) fn wants_sealing(conn: &Connection) -> Result<bool> {
    let (bytes, newest): (i64, Option<i64>) = conn
        .prepare_cached("SELECT coalesce(sum(length(bytes)), 0), max(added_at) FROM pending")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let is_left_alone = newest.is_some_and(|newest| {
        crate::base::clock::now_ms().saturating_sub(newest) > MAX_PENDING_AGE_MS
    });
    Ok(bytes >= SEAL_BYTES as i64 || is_left_alone)
}

/// Seals pending records if there are enough bytes, or if none came for a while.
pub(crate) fn seal_if_wanted(ledger: &mut Ledger) -> Result<()> {
    if !wants_sealing(ledger.conn())? {
        return Ok(());
    }
    ledger.write(|tx| match wants_sealing(tx)? {
        true => seal(tx),
        false => Ok(()),
    })
}

/// Moves all pending records into chunks. Each run of consecutive records becomes one or more
/// chunks. A small chunk right before a run is opened and joined with it.
pub(crate) fn seal(tx: &Transaction<'_>) -> Result<()> {
    let mut packer = Packer::default();
    let mut after = -1_i64;
    loop {
        // Takes one run of consecutive records, at most a few chunks at a time.
        let mut run: Vec<(i64, Vec<u8>)> = Vec::new();
        let mut bytes = 0;
        {
            let mut statement = tx.prepare_cached(
                "SELECT seq, bytes, sum FROM pending WHERE seq > ?1 ORDER BY seq",
            )?;
            let mut rows = statement.query([after])?;
            while let Some(row) = rows.next()? {
                let seq: i64 = row.get(0)?;
                if run.last().is_some_and(|(last, _)| last + 1 != seq)
                    || bytes >= 4 * MAX_CHUNK_BYTES
                {
                    break;
                }
                let record: Vec<u8> = row.get(1)?;
                sums::check(&record, row.get(2)?, || format!("record {seq}"))?;
                bytes += record.len();
                run.push((seq, record));
            }
        }
        let (Some(&(first, _)), Some(&(last, _))) = (run.first(), run.last()) else { break };
        after = last;
        let mut start = first;
        let before = tx
            .prepare_cached(
                // Looks at the nearest chunk only: where no chunk ends, all would be searched.
                "SELECT id, first_seq, raw_length
                   FROM (SELECT id, first_seq, last_seq, first_offset, raw_length
                           FROM chunks WHERE first_seq <= ?1
                          ORDER BY first_seq DESC LIMIT 1)
                  WHERE last_seq = ?1 AND first_offset = 0",
            )?
            .query_row([first - 1], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
            })
            .optional()?;
        if let Some((id, first_seq, raw_length)) = before
            // A chunk that is not full yet takes the pending records in.
            && (raw_length as usize) < FULL_CHUNK_BYTES
            && holds_whole_records(tx, first_seq, first - 1, raw_length)?
        {
            let mut reader = RecordReader::new(tx);
            for seq in (first_seq..first).map(Seq) {
                match find_length_and_holder(tx, seq)? {
                    Some((_, None)) => packer.push(&reader.read(seq)?)?,
                    // Another record holds its bytes, or it was forgotten.
                    Some((_, Some(_))) | None => packer.skip(),
                }
            }
            tx.execute("DELETE FROM chunks WHERE id = ?1", [id])?;
            start = first_seq;
        }
        for (_, record) in &run {
            packer.push(record)?;
        }
        packer.finish(false)?.insert_chunks(tx, Seq(start))?;
        tx.execute("DELETE FROM pending WHERE seq BETWEEN ?1 AND ?2", (first, last))?;
    }
    Ok(())
}

/// Returns whether the chunk holds whole records only, with no part of one in another chunk.
fn holds_whole_records(tx: &Connection, first: i64, last: i64, raw_length: i64) -> Result<bool> {
    let total: i64 = tx
        .prepare_cached(
            "SELECT coalesce(sum(length), 0) FROM records
              WHERE seq BETWEEN ?1 AND ?2 AND same_as IS NULL",
        )?
        .query_row((first, last), |row| row.get(0))?;
    Ok(total == raw_length)
}
