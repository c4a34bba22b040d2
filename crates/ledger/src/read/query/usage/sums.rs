//! The stored sums of quarters of an hour, and the usage of requests that no line records. They are
//! never changed here.

use std::ops::Range;

use rusqlite::{Connection, Row};

use crate::Result;
use crate::project::usage_rollup::{RollupKey, Sums, quarter};

/// Passes every sum of these quarters of an hour to `each`. The sums of requests that no line
/// records count no responses.
pub(super) fn each_sum(
    conn: &Connection,
    quarters: Range<i64>,
    each: &mut dyn FnMut(&RollupKey, &Sums),
) -> Result<()> {
    let mut statement = conn.prepare_cached(
        "SELECT quarter, session, model, is_fast, prompt_over, is_recorded, responses, input,
                output, cache_read, cache_write, cache_write_1h, cost_nano_usd
           FROM usage_quarters WHERE quarter >= ?1 AND quarter < ?2 ORDER BY quarter",
    )?;
    let mut rows = statement.query((quarters.start, quarters.end))?;
    while let Some(row) = rows.next()? {
        let (key, sums) = read_row(row)?;
        each(&key, &sums);
    }
    each_without_line(conn, quarters, each)
}

/// Reads a row of `usage_quarters`: the columns of the key, then the sums.
pub(super) fn read_row(row: &Row<'_>) -> Result<(RollupKey, Sums)> {
    let key = RollupKey {
        quarter: row.get(0)?,
        session: row.get(1)?,
        model: row.get(2)?,
        is_fast: row.get(3)?,
        prompt_over: row.get::<_, i64>(4)?.max(0).cast_unsigned(),
        is_recorded: row.get(5)?,
    };
    let mut sums = Sums::default();
    for (index, sum) in sums.iter_mut().enumerate() {
        *sum = row.get(6 + index)?;
    }
    Ok((key, sums))
}

/// Passes the usage of requests that no line records, with 0 responses.
fn each_without_line(
    conn: &Connection,
    quarters: Range<i64>,
    each: &mut dyn FnMut(&RollupKey, &Sums),
) -> Result<()> {
    if !conn.prepare_cached("SELECT 1 FROM usage_totals")?.exists([])? {
        return Ok(());
    }
    let mut statement = conn.prepare_cached(
        "SELECT session, model, time, input_tokens, output_tokens, cache_read_tokens,
                cache_write_tokens, cache_write_1h_tokens
           FROM usage_without_line ORDER BY time, session, model",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let key = RollupKey {
            quarter: quarter(row.get(2)?),
            session: row.get(0)?,
            model: row.get(1)?,
            is_fast: false,
            prompt_over: 0,
            is_recorded: false,
        };
        if quarters.contains(&key.quarter) {
            let sums = [0, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?, 0];
            each(&key, &sums);
        }
    }
    Ok(())
}
