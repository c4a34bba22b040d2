//! The time range of a usage report.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use quipu_transcript::when;

use super::{Args, By};
use crate::error::Result;
use crate::filters;

/// A time range, and its description.
pub(super) struct Period {
    pub(super) since: Option<i64>,
    pub(super) until: Option<i64>,
    pub(super) words: String,
    /// True if no time was given, so that only the last days are shown.
    pub(super) is_recent: bool,
}

/// Number of days that are shown without `--since` and `--until`.
const DEFAULT_DAYS: i32 = 30;

/// Number of days whose windows are shown without `--since` and `--until`.
const DEFAULT_BLOCK_DAYS: i32 = 3;

/// Returns the requested range. It begins at midnight: `--since 3d` includes all of that day.
pub(super) fn requested(args: &Args, is_json: bool, zone: &TimeZone) -> Result<Period> {
    let now = Timestamp::now().to_zoned(zone.clone());
    let mut words = Vec::new();
    let days = match args.by {
        By::Today | By::Yesterday => 1,
        By::Blocks => DEFAULT_BLOCK_DAYS,
        _ => DEFAULT_DAYS,
    };
    let is_recent = matches!(args.by, By::Today | By::Daily | By::Blocks)
        && args.since.is_none()
        && args.until.is_none()
        && (args.by == By::Today || !(args.all || is_json || args.csv));
    let named = (args.by == By::Yesterday && args.since.is_none() && args.until.is_none())
        .then_some("yesterday");
    let (from, until) =
        filters::range(args.since.as_deref().or(named), args.until.as_deref().or(named))?;
    let since = match from {
        Some(from) => {
            let day = when::start_of_day(from, zone);
            words.push(format!("since {}", day.date()));
            Some(day)
        }
        None if is_recent => {
            words.push(match days {
                1 => "today".to_owned(),
                days => format!("in the last {days} days"),
            });
            let first = now.checked_sub((days - 1).days()).unwrap_or_else(|_| now.clone());
            Some(when::start_of_day(first.timestamp().as_millisecond(), zone))
        }
        None => None,
    };
    if let Some(end) = until {
        // The end is the first moment that is not included.
        let last = Timestamp::from_millisecond(end.saturating_sub(1)).unwrap_or_default();
        words.push(format!("until {}", last.to_zoned(zone.clone()).date()));
    }
    if let Some(day) = named {
        words = vec![day.to_owned()];
    }
    let filters = [("project", &args.project), ("agent", &args.agent), ("format", &args.format)];
    words.extend(
        filters.iter().filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?))),
    );
    if words.is_empty() {
        words.push("all recorded usage".to_owned());
    }
    let since = since.map(|since| since.timestamp().as_millisecond());
    Ok(Period { since, until, words: words.join(", "), is_recent })
}
