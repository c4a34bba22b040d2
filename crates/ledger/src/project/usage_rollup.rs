//! Sums of the counted usage by quarters of an hour, so that a report on a large ledger reads
//! thousands of rows instead of millions.
//!
//! Sums change by differences: each change subtracts the old usage and adds the new one. All values
//! are integers, so the order of changes never matters.

use foldhash::HashMap;
use quipu_transcript::entry::Usage;
use quipu_transcript::prices::prompt_over;
use rusqlite::Connection;

use super::usage::tokens;
use crate::Result;
use crate::base::ids::SessionRow;

/// A quarter of an hour, in milliseconds.
pub(crate) const QUARTER: i64 = 15 * 60 * 1000;

/// The part of a usage that matters for sums.
#[derive(Debug)]
pub(crate) struct CountedUsage {
    pub(crate) session: SessionRow,
    pub(crate) model: i64,
    pub(crate) time: Option<i64>,
    pub(crate) usage: Usage,
}

/// The identity of a sum: the properties that its usage shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RollupKey {
    pub(crate) quarter: i64,
    pub(crate) session: SessionRow,
    pub(crate) model: i64,
    pub(crate) is_fast: bool,
    pub(crate) prompt_over: u64,
    pub(crate) is_recorded: bool,
}

/// The sums: responses, input, output, cache read, cache write, the part of cache write for one
/// hour, and billionths of dollars.
pub(crate) type Sums = [i64; 7];

/// The changes of sums that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct UsageRollup {
    changes: HashMap<RollupKey, Sums>,
}

impl UsageRollup {
    /// Adds a usage that is counted now.
    pub(crate) fn add(&mut self, counted: &CountedUsage) {
        self.change(counted, 1);
    }

    /// Subtracts a usage that is no longer counted.
    pub(crate) fn subtract(&mut self, counted: &CountedUsage) {
        self.change(counted, -1);
    }

    fn change(&mut self, counted: &CountedUsage, sign: i64) {
        let sums = self.changes.entry(key(counted)).or_default();
        for (sum, part) in sums.iter_mut().zip(parts(&counted.usage)) {
            *sum = sum.saturating_add(part * sign);
        }
    }

    /// Returns the changes by their keys, and clears them.
    pub(crate) fn take_changes(&mut self) -> HashMap<RollupKey, Sums> {
        self.changes.drain().filter(|(_, sums)| *sums != Sums::default()).collect()
    }

    /// Writes the changes. Removes sums without responses.
    pub(crate) fn save(&mut self, conn: &Connection) -> Result<()> {
        let mut changes: Vec<(RollupKey, Sums)> = self.take_changes().into_iter().collect();
        if changes.is_empty() {
            return Ok(());
        }
        changes.sort_unstable();
        let mut add = conn.prepare_cached(
            "INSERT INTO usage_quarters VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
             ON CONFLICT DO UPDATE SET
                responses = responses + ?7, input = input + ?8, output = output + ?9,
                cache_read = cache_read + ?10, cache_write = cache_write + ?11,
                cache_write_1h = cache_write_1h + ?12, cost_nano_usd = cost_nano_usd + ?13",
        )?;
        let mut remove = conn.prepare_cached(
            "DELETE FROM usage_quarters
              WHERE quarter = ?1 AND session = ?2 AND model = ?3 AND is_fast = ?4
                AND prompt_over = ?5 AND is_recorded = ?6 AND responses = 0",
        )?;
        for (key, [responses, input, output, cache_read, cache_write, for_hour, cost]) in changes {
            let RollupKey { quarter, session, model, is_fast, is_recorded, .. } = key;
            let over = key.prompt_over.cast_signed();
            add.execute((
                quarter,
                session,
                model,
                is_fast,
                over,
                is_recorded,
                responses,
                input,
                output,
                cache_read,
                cache_write,
                for_hour,
                cost,
            ))?;
            // Only a sum that became smaller can be empty now.
            if responses <= 0 {
                remove.execute((quarter, session, model, is_fast, over, is_recorded))?;
            }
        }
        Ok(())
    }
}

/// Returns the beginning of the quarter of an hour of a time; 0 without one.
pub(crate) fn quarter(time: Option<i64>) -> i64 {
    time.map_or(0, |time| time.saturating_sub(time.rem_euclid(QUARTER)))
}

fn key(counted: &CountedUsage) -> RollupKey {
    let usage = &counted.usage;
    let prompt = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    RollupKey {
        quarter: quarter(counted.time),
        session: counted.session,
        model: counted.model,
        is_fast: usage.is_fast,
        prompt_over: prompt_over(prompt),
        is_recorded: usage.cost_usd.is_some(),
    }
}

fn parts(usage: &Usage) -> Sums {
    [
        1,
        tokens(usage.input),
        tokens(usage.output),
        tokens(usage.cache_read),
        tokens(usage.cache_write),
        tokens(usage.cache_write_1h),
        billionths(usage.cost_usd),
    ]
}

/// The largest cost of one response, in dollars. A larger one is an error in the record, and the
/// limit keeps sums within SQLite's integers.
const MAX_COST_USD: f64 = 1000.0;

fn billionths(cost: Option<f64>) -> i64 {
    (cost.unwrap_or(0.0).clamp(0.0, MAX_COST_USD) * 1e9).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_costs_stay_in_range() {
        let shown =
            [None, Some(0.25), Some(-1.0), Some(f64::NAN), Some(f64::INFINITY), Some(1e300)]
                .map(billionths);
        assert_eq!(shown, [0, 250_000_000, 0, 0, 1_000_000_000_000, 1_000_000_000_000]);
    }

    #[test]
    fn quarters_begin_at_multiples_of_fifteen_minutes() {
        let quarter = |time| {
            let counted =
                CountedUsage { session: SessionRow(1), model: 1, time, usage: Usage::default() };
            key(&counted).quarter
        };
        assert_eq!(quarter(None), 0);
        assert_eq!(quarter(Some(QUARTER)), QUARTER);
        assert_eq!(quarter(Some(2 * QUARTER - 1)), QUARTER);
        assert_eq!(quarter(Some(-1)), -QUARTER);
        assert_eq!(quarter(Some(i64::MIN)), i64::MIN);
    }
}
