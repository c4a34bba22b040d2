//! The time range of a usage report.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

use super::{Args, By};
use crate::error::Result;
use crate::filters;

/// A time range, and its description.
pub(super) struct Asked {
    pub(super) since: Option<i64>,
    pub(super) until: Option<i64>,
    pub(super) words: String,
    /// True if no time was given, so that only the last days are shown.
    pub(super) is_recent: bool,
}

/// Days shown without `--since` and `--until`.
const DAYS: i32 = 30;

/// Days of which windows are shown without `--since` and `--until`.
const BLOCK_DAYS: i32 = 3;

/// Returns the range that the arguments mean. Days are whole: `--since 3d` begins with that day.
pub(super) fn asked(args: &Args, is_json: bool, zone: &TimeZone) -> Result<Asked> {
    let now = Timestamp::now().to_zoned(zone.clone());
    let mut words = Vec::new();
    let days = match args.by {
        By::Today => 1,
        By::Blocks => BLOCK_DAYS,
        _ => DAYS,
    };
    let is_recent = matches!(args.by, By::Today | By::Daily | By::Blocks)
        && args.since.is_none()
        && args.until.is_none()
        && (args.by == By::Today || !(args.all || is_json || args.csv));
    let (from, until) = filters::range(args.since.as_deref(), args.until.as_deref())?;
    let since = match from {
        Some(from) => {
            let time = Timestamp::from_millisecond(from).unwrap_or_default();
            let day = start_of_day(&time.to_zoned(zone.clone()));
            words.push(format!("since {}", day.date()));
            Some(day)
        }
        None if is_recent => {
            words.push(match days {
                1 => "today".to_owned(),
                days => format!("in the last {days} days"),
            });
            let first = now.checked_sub((days - 1).days()).unwrap_or_else(|_| now.clone());
            Some(start_of_day(&first))
        }
        None => None,
    };
    if let Some(end) = until {
        // The last moment is before the end.
        let last = Timestamp::from_millisecond(end.saturating_sub(1)).unwrap_or_default();
        words.push(format!("until {}", last.to_zoned(zone.clone()).date()));
    }
    let filters = [("project", &args.project), ("agent", &args.agent), ("format", &args.format)];
    words.extend(
        filters.iter().filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?))),
    );
    if words.is_empty() {
        words.push("all recorded usage".to_owned());
    }
    let since = since.map(|since| since.timestamp().as_millisecond());
    Ok(Asked { since, until, words: words.join(", "), is_recent })
}

fn start_of_day(time: &Zoned) -> Zoned {
    time.start_of_day().unwrap_or_else(|_| time.clone())
}
