//! Windows in which a plan limits usage.
//!
//! A window begins with the full hour of the first response after the window before it, and has a
//! fixed length. So each depends on the one before, up to a pause that is longer than a window.

use foldhash::HashSet;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rusqlite::Connection;

use crate::Result;
use crate::wire::{UsageBlock, UsageReport};

/// An hour in milliseconds.
pub(super) const HOUR: i64 = 60 * 60 * 1000;

/// The form of a window's name: its beginning in the reader's zone.
const NAME: &str = "%Y-%m-%d %H:%M";

/// The limits of a plan for one window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WindowLimits {
    /// The limit in US dollars.
    pub block_usd: Option<f64>,
    /// The limit in tokens.
    pub block_tokens: Option<u64>,
}

/// Marks the windows of a report that have not ended at `now` (milliseconds UTC), and sets what is
/// left of the limits.
pub fn mark_windows(report: &mut UsageReport, limits: &WindowLimits, now: i64) {
    for line in &mut report.lines {
        let cost = line.cost_usd.unwrap_or(0.0);
        let tokens = line.total_tokens;
        if let Some(block) = &mut line.block {
            block.is_active = block.ends_at > now;
            block.left_usd = limits.block_usd.map(|limit| (limit - cost).max(0.0));
            block.left_tokens = limits.block_tokens.map(|limit| limit.saturating_sub(tokens));
        }
    }
}

/// The windows of some sessions, in order.
pub(super) struct Blocks {
    length: i64,
    starts: Vec<i64>,
}

impl Blocks {
    /// Computes the windows from the quarters of an hour with responses, in ascending order.
    pub(super) fn of_quarters(hours: u8, quarters: impl Iterator<Item = i64>) -> Blocks {
        let length = i64::from(hours) * HOUR;
        let mut starts: Vec<i64> = Vec::new();
        for quarter in quarters {
            if starts.last().is_none_or(|start| quarter >= start + length) {
                starts.push(quarter - quarter.rem_euclid(HOUR));
            }
        }
        Blocks { length, starts }
    }

    /// Reads the windows of these sessions, or of all.
    pub(super) fn read(
        conn: &Connection,
        hours: u8,
        wanted: Option<&HashSet<i64>>,
    ) -> Result<Blocks> {
        let mut statement = conn.prepare_cached(
            "SELECT quarter, session FROM usage_quarters WHERE quarter > 0 ORDER BY quarter",
        )?;
        let mut quarters = Vec::new();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let session: i64 = row.get(1)?;
            if wanted.is_none_or(|wanted| wanted.contains(&session)) {
                quarters.push(row.get(0)?);
            }
        }
        Ok(Blocks::of_quarters(hours, quarters.into_iter()))
    }

    /// Returns the window of a quarter of an hour: its name, beginning and end. Only usage that no
    /// response recorded can be outside of all windows; its window begins with its own hour.
    pub(super) fn of(&self, quarter: i64, zone: &TimeZone) -> Option<(String, i64, i64)> {
        let start = self.start_of(quarter).unwrap_or(quarter - quarter.rem_euclid(HOUR));
        Some((name(start, zone)?, start, start + self.length))
    }

    /// Returns the beginning of the window that holds a moment.
    pub(super) fn start_of(&self, moment: i64) -> Option<i64> {
        let after = self.starts.partition_point(|start| *start <= moment);
        let start = self.starts.get(after.checked_sub(1)?)?;
        (moment < start + self.length).then_some(*start)
    }

    /// Returns the window with this name.
    pub(super) fn named(&self, text: &str, zone: &TimeZone) -> Option<UsageBlock> {
        let start =
            self.starts.iter().rev().find(|start| name(**start, zone).as_deref() == Some(text))?;
        Some(UsageBlock {
            starts_at: *start,
            ends_at: start + self.length,
            ..UsageBlock::default()
        })
    }
}

fn name(start: i64, zone: &TimeZone) -> Option<String> {
    let start = Timestamp::from_millisecond(start).ok()?.to_zoned(zone.clone());
    Some(start.strftime(NAME).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_begins_with_the_hour_of_its_first_response() {
        let at = |hour: i64, minute: i64| hour * HOUR + minute * 60_000;
        let quarters = [at(10, 45), at(11, 0), at(15, 45), at(16, 15), at(30, 0)];
        let blocks = Blocks::of_quarters(5, quarters.into_iter());
        assert_eq!(blocks.starts, [at(10, 0), at(15, 0), at(30, 0)]);
        assert_eq!(blocks.start_of(at(14, 59)), Some(at(10, 0)));
        assert_eq!(blocks.start_of(at(16, 15)), Some(at(15, 0)));
        assert_eq!(blocks.start_of(at(20, 0)), None);
        assert_eq!(blocks.start_of(at(9, 0)), None);
    }
}
