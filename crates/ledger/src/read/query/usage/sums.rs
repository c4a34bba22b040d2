//! The sums of quarters of an hour, with the usage of last lines that have no newline yet.
//!
//! The stored sums are never changed here.

use std::ops::Range;

use foldhash::HashMap;
use quipu_transcript::prices::Prices;
use rusqlite::{Connection, OptionalExtension};

use super::Model;
use crate::Result;
use crate::project::usage::{ProvisionalUsage, predict_changes};
use crate::project::usage_rollup::{RollupKey, Sums};
use crate::read::query::tails::Tail;

/// Returns the changes of sums by last lines without a newline. Models without a row get numbers
/// below zero.
pub(super) fn predicted(
    conn: &Connection,
    tails: &[Tail],
    models: &mut Vec<Model>,
    prices: &Prices,
) -> Result<HashMap<RollupKey, Sums>> {
    let mut lines = Vec::new();
    for tail in tails {
        let Some(draft) = &tail.entry.usage else { continue };
        let model_key = (&draft.model.model, &draft.model.provider, &draft.model.api);
        let known: Option<i64> = conn
            .prepare_cached(
                "SELECT id FROM models WHERE model = ?1 AND provider = ?2 AND api = ?3",
            )?
            .query_row(model_key, |row| row.get(0))
            .optional()?;
        let model = match known {
            Some(id) => id,
            None => {
                let id = models.first().map_or(0, |first| first.id.min(0)) - 1;
                let name = draft.model.model.to_string();
                models.insert(0, Model { id, price: prices.of(&name).copied(), name });
                id
            }
        };
        lines.push(ProvisionalUsage {
            entry: tail.id,
            session: tail.row(),
            session_id: tail.name.as_ref().map_or("", |name| &name.id),
            model,
            time: tail.entry.time,
            is_sidechain: tail.entry.marks.is_sidechain,
            draft,
        });
    }
    if lines.is_empty() {
        return Ok(HashMap::default());
    }
    Ok(predict_changes(conn, &lines)?.take_changes())
}

/// Passes every sum of these quarters to `each`, with its changes added.
pub(super) fn each_sum(
    conn: &Connection,
    quarters: Range<i64>,
    mut predicted: HashMap<RollupKey, Sums>,
    each: &mut dyn FnMut(&RollupKey, &Sums),
) -> Result<()> {
    let mut statement = conn.prepare_cached(
        "SELECT quarter, session, model, is_fast, prompt_over, is_recorded, responses, input,
                output, cache_read, cache_write, cache_write_1h, cost_nano_usd
           FROM usage_quarters WHERE quarter >= ?1 AND quarter < ?2 ORDER BY quarter",
    )?;
    let mut rows = statement.query((quarters.start, quarters.end))?;
    while let Some(row) = rows.next()? {
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
        if !predicted.is_empty()
            && let Some(changes) = predicted.remove(&key)
        {
            for (sum, change) in sums.iter_mut().zip(changes) {
                *sum = sum.saturating_add(change);
            }
            // The whole sum now counts for another row.
            if sums == Sums::default() {
                continue;
            }
        }
        each(&key, &sums);
    }
    for (key, sums) in predicted.iter().filter(|(key, _)| quarters.contains(&key.quarter)) {
        each(key, sums);
    }
    Ok(())
}
