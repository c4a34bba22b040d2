//! Turns what is pending into chunks, when there is enough of it or when it was left alone.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::read::find_place;
use super::{CHUNK, LONGEST, Packer, RecordReader};
use crate::Result;
use crate::base::ids::Seq;
use crate::file::ledger::Ledger;
use crate::truth::sums;

/// What is pending is sealed when there is this much of it.
const SEAL: usize = 256 << 10;

/// A run of pending records is added to the chunk before it while that stays below this.
const ABSORB: usize = 1280 << 10;

/// A run of records that nothing was added to for this long is sealed as it is.
const LEFT_ALONE_MS: i64 = 10 * 60 * 1000;

/// Whether what is pending should be sealed: there is enough of it, or it was left alone.
pub(crate) fn wants_sealing(conn: &Connection) -> Result<bool> {
    let (bytes, newest): (i64, Option<i64>) = conn
        .prepare_cached("SELECT coalesce(sum(length(bytes)), 0), max(added_at) FROM pending")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let is_left_alone = newest
        .is_some_and(|newest| crate::base::clock::now_ms().saturating_sub(newest) > LEFT_ALONE_MS);
    Ok(bytes >= SEAL as i64 || is_left_alone)
}

/// Seals what is pending, if there is enough of it.
pub(crate) fn seal_if_wanted(ledger: &mut Ledger) -> Result<()> {
    if !wants_sealing(ledger.conn())? {
        return Ok(());
    }
    ledger.write(|tx| match wants_sealing(tx)? {
        true => seal(tx),
        false => Ok(()),
    })
}

/// Moves everything pending into chunks. Each run of consecutive records becomes one or more
/// chunks; a small chunk just before it is opened and joined.
pub(crate) fn seal(tx: &Transaction<'_>) -> Result<()> {
    let mut packer = Packer::default();
    let mut after = -1_i64;
    loop {
        // One run of consecutive records, at most a few chunks at a time.
        let mut run: Vec<(i64, Vec<u8>)> = Vec::new();
        let mut bytes = 0;
        {
            let mut statement = tx.prepare_cached(
                "SELECT seq, bytes, sum FROM pending WHERE seq > ?1 ORDER BY seq",
            )?;
            let mut rows = statement.query([after])?;
            while let Some(row) = rows.next()? {
                let seq: i64 = row.get(0)?;
                if run.last().is_some_and(|(last, _)| last + 1 != seq) || bytes >= 4 * LONGEST {
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
                "SELECT id, first_seq, raw_length FROM chunks
                  WHERE first_seq <= ?1 AND last_seq = ?1 AND first_offset = 0
                  ORDER BY first_seq DESC LIMIT 1",
            )?
            .query_row([first - 1], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
            })
            .optional()?;
        if let Some((id, first_seq, raw_length)) = before
            && (raw_length as usize) < CHUNK.max(ABSORB.saturating_sub(bytes))
            && holds_whole_records(tx, first_seq, first - 1, raw_length)?
        {
            let mut reader = RecordReader::new(tx);
            for seq in (first_seq..first).map(Seq) {
                match find_place(tx, seq)? {
                    Some((_, None)) => packer.push(&reader.read(seq)?)?,
                    // Its bytes are elsewhere, or it was forgotten.
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

/// True if the chunk holds its records from the first byte of the first to the last byte of the last.
fn holds_whole_records(tx: &Connection, first: i64, last: i64, raw_length: i64) -> Result<bool> {
    let total: i64 = tx
        .prepare_cached(
            "SELECT coalesce(sum(length), 0) FROM records
              WHERE seq BETWEEN ?1 AND ?2 AND same_as IS NULL",
        )?
        .query_row((first, last), |row| row.get(0))?;
    Ok(total == raw_length)
}
