//! Usage of today and of the window that has not ended.
//!
//! For a line that is printed often: reads only the sums of the last two days, so it takes the same
//! time in a ledger of any size. Requests that no line records are not counted.

use foldhash::HashMap;
use quipu_transcript::prices::Prices;

use super::blocks::{Blocks, HOUR};
use super::tally::Tally;
use super::{models, part, sums};
use crate::Result;
use crate::file::ledger::Ledger;
use crate::wire::{RecentUsage, RecentWindow};

/// The time over which windows are computed. If the agent did not pause for a whole window in that
/// time, the first window begins with the first response in it.
const LOOK_BACK: i64 = 48 * HOUR;

/// A request for recent usage.
#[derive(Debug)]
pub struct RecentRequest<'a> {
    /// The current time, milliseconds UTC.
    pub now: i64,
    /// The beginning of the day, milliseconds UTC.
    pub day: i64,
    /// The format that has windows, and their length in hours.
    pub window: Option<(&'a str, u8)>,
    /// The prices of tokens.
    pub prices: &'a Prices,
}

/// Returns the usage of the day and of the current window.
pub fn recent(ledger: &Ledger, request: &RecentRequest<'_>) -> Result<RecentUsage> {
    let conn = ledger.conn();
    let since = request.day.min(request.now - LOOK_BACK);
    let mut statement = conn.prepare_cached(
        "SELECT u.quarter, u.session, u.model, u.is_fast, u.prompt_over, u.is_recorded, u.responses,
                u.input, u.output, u.cache_read, u.cache_write, u.cache_write_1h, u.cost_nano_usd,
                s.format
           FROM usage_quarters u CROSS JOIN sessions s ON s.id = u.session
          WHERE u.quarter >= ?1 ORDER BY u.quarter",
    )?;
    let models = models(conn, request.prices)?;
    let mut day = Tally::default();
    // The sums of each quarter of an hour in sessions of the format with windows.
    let mut quarters: Vec<i64> = Vec::new();
    let mut by_quarter: HashMap<i64, Tally> = HashMap::default();
    let mut rows = statement.query([since])?;
    while let Some(row) = rows.next()? {
        let (key, sums) = sums::read_row(row)?;
        let part = part(&key, &sums, &models);
        if key.quarter >= request.day {
            day.add(key.model, &part);
        }
        let format = row.get_ref(13)?.as_str().unwrap_or_default();
        if request.window.is_some_and(|(name, _)| name == format) {
            quarters.push(key.quarter);
            by_quarter.entry(key.quarter).or_default().add(key.model, &part);
        }
    }
    let window = request.window.and_then(|(_, hours)| {
        let blocks = Blocks::of_quarters(hours, quarters.iter().copied());
        let start = blocks.start_of(request.now)?;
        let mut window =
            RecentWindow { ends_at: start + i64::from(hours) * HOUR, usd: 0.0, tokens: 0 };
        for (_, tally) in by_quarter.iter().filter(|(quarter, _)| **quarter >= start) {
            window.usd += tally.cost().unwrap_or(0.0);
            window.tokens = window.tokens.saturating_add(tally.total());
        }
        Some(window)
    });
    Ok(RecentUsage { day_usd: day.cost(), window })
}
