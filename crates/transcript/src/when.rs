//! Parses times as people write them: `3d`, `2h`, `yesterday`, `monday`, `last week`, `2026-11-01`,
//! `2026-11-01T09:30`, `2026-11-01..2026-11-07`.
//!
//! This is the only parser of times for people. Days, weeks, months and years are those of the
//! calendar in the reader's time zone: `3d` is the whole day three days ago. Shorter spans are
//! moments: `2h` is two hours before now.

use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Zoned};

/// The time that a text names: a moment, a day, a month, or a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// The first moment; `None` if a range has no start (`..2026-11-07`).
    pub start: Option<Timestamp>,
    /// The end, which does not belong to it unless it is also the start; `None` if a range has no
    /// end (`2026-11-01..`).
    pub end: Option<Timestamp>,
    /// True if the text names both ends: `2026-11-01..2026-11-07`.
    pub is_range: bool,
}

/// Returns the time that `text` names, relative to `now` and in its time zone.
pub fn parse(text: &str, now: &Zoned) -> Option<Period> {
    let text = text.trim();
    if let Some((first, last)) = text.split_once("..") {
        let bound = |text: &str| match text.trim() {
            "" => Some(None),
            text => Some(Some(single(text, now)?)),
        };
        let (first, last) = (bound(first)?, bound(last)?);
        if first.is_none() && last.is_none() {
            return None;
        }
        let (start, end) = (first.map(|(start, _)| start), last.map(|(_, end)| end));
        return Some(Period { start, end, is_range: true });
    }
    let (start, end) = single(text, now)?;
    Some(Period { start: Some(start), end: Some(end), is_range: false })
}

/// A text that names no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time")]
pub struct NotATime(pub String);

/// Returns the first moment of a range and its end, which does not belong to it, in milliseconds
/// UTC. A day given as `until` is included. `a..b` sets both ends, in either place.
pub fn range(
    since: Option<&str>,
    until: Option<&str>,
    now: &Zoned,
) -> Result<(Option<i64>, Option<i64>), NotATime> {
    let period = |text: &str| parse(text, now).ok_or_else(|| NotATime(text.to_owned()));
    let since = since.map(period).transpose()?;
    let until = until.map(period).transpose()?;
    let is_range = |period: &Period| period.is_range;
    let starts = [since, until.filter(is_range)].map(|period| period.and_then(|it| it.start));
    let ends = [since.filter(is_range), until].map(|period| period.and_then(|it| it.end));
    Ok((
        starts.into_iter().flatten().max().map(Timestamp::as_millisecond),
        ends.into_iter().flatten().min().map(Timestamp::as_millisecond),
    ))
}

/// Returns the end of the day or the range that a text names, or the moment, in milliseconds UTC.
pub fn end(text: &str, now: &Zoned) -> Result<i64, NotATime> {
    let end = parse(text, now).and_then(|period| period.end);
    end.map(Timestamp::as_millisecond).ok_or_else(|| NotATime(text.to_owned()))
}

/// Returns the beginning of the day in which a moment is, given in milliseconds UTC.
pub fn start_of_day(moment: i64, zone: &TimeZone) -> Zoned {
    let time = Timestamp::from_millisecond(moment).unwrap_or_default().to_zoned(zone.clone());
    time.start_of_day().unwrap_or(time)
}

/// Returns the start and the end of one time. Both are the same for a moment.
fn single(text: &str, now: &Zoned) -> Option<(Timestamp, Timestamp)> {
    let mut lower = text.to_ascii_lowercase();
    // `last-week`, for a query without quotes.
    if lower.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        lower = lower.replace('-', " ");
    }
    let today = now.date();
    let monday = today.checked_sub(today.weekday().to_monday_zero_offset().days()).ok()?;
    let this_month = today.first_of_month();
    let this_year = today.first_of_year();
    let (day, length): (Date, Span) = match lower.as_str() {
        "now" => return Some((now.timestamp(), now.timestamp())),
        "today" => (today, 1.day()),
        "yesterday" => (today.yesterday().ok()?, 1.day()),
        "this week" => (monday, 1.week()),
        "last week" => (monday.checked_sub(1.week()).ok()?, 1.week()),
        "this month" => (this_month, 1.month()),
        "last month" => (this_month.checked_sub(1.month()).ok()?, 1.month()),
        "this year" => (this_year, 1.year()),
        "last year" => (this_year.checked_sub(1.year()).ok()?, 1.year()),
        _ => match weekday(&lower) {
            // The last one; today, if today is that day.
            Some(weekday) => (today.tomorrow().ok()?.nth_weekday(-1, weekday).ok()?, 1.day()),
            None => match span(lower.strip_suffix("ago").unwrap_or(&lower).trim())? {
                Some((span, true)) => (today.checked_sub(span).ok()?, 1.day()),
                Some((span, false)) => {
                    let moment = now.checked_sub(span).ok()?.timestamp();
                    return Some((moment, moment));
                }
                None => match named_days(text) {
                    Some(days) => days,
                    None => {
                        let moment = moment(text, now)?;
                        return Some((moment, moment));
                    }
                },
            },
        },
    };
    let midnight = |day: Date| Some(day.to_zoned(now.time_zone().clone()).ok()?.timestamp());
    Some((midnight(day)?, midnight(day.checked_add(length).ok()?)?))
}

/// Returns the first day and the length of a written day, month or year.
fn named_days(text: &str) -> Option<(Date, Span)> {
    let (day, length) = match text.len() {
        10 => (text.to_owned(), 1.day()),
        7 => (format!("{text}-01"), 1.month()),
        4 => (format!("{text}-01-01"), 1.year()),
        _ => return None,
    };
    Some((day.parse().ok()?, length))
}

/// Parses a time with its zone, or in the zone of `now`.
fn moment(text: &str, now: &Zoned) -> Option<Timestamp> {
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(timestamp);
    }
    let time = text.parse::<DateTime>().ok()?;
    Some(time.to_zoned(now.time_zone().clone()).ok()?.timestamp())
}

/// Parses the English name of a weekday, or its first three letters; `last` may precede it.
fn weekday(text: &str) -> Option<Weekday> {
    let name = text.strip_prefix("last ").unwrap_or(text);
    let names = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let at = names.iter().position(|day| *day == name || day.get(..3) == Some(name))?;
    Weekday::from_monday_zero_offset(i8::try_from(at).ok()?).ok()
}

/// Parses `90m`, `3d` or `2 weeks`, and whether it counts days. Returns `Some(None)` for a text of
/// another shape, and `None` for a span that is too long.
fn span(text: &str) -> Option<Option<(Span, bool)>> {
    let Some(digits) = text.find(|character: char| !character.is_ascii_digit()) else {
        return Some(None);
    };
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Some(None);
    }
    let number: i64 = number.parse().ok()?;
    let (span, is_days) = match unit.trim() {
        "s" | "sec" | "second" | "seconds" => (Span::new().try_seconds(number), false),
        "m" | "min" | "minute" | "minutes" => (Span::new().try_minutes(number), false),
        "h" | "hour" | "hours" => (Span::new().try_hours(number), false),
        "d" | "day" | "days" => (Span::new().try_days(number), true),
        "w" | "week" | "weeks" => (Span::new().try_weeks(number), true),
        "mo" | "month" | "months" => (Span::new().try_months(number), true),
        "y" | "year" | "years" => (Span::new().try_years(number), true),
        _ => return Some(None),
    };
    Some(Some((span.ok()?, is_days)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    /// Returns a Monday in Berlin, without a time zone database.
    fn now() -> Zoned {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        "2026-11-16T08:30:00".parse::<DateTime>().unwrap().to_zoned(zone).unwrap()
    }

    /// Returns both ends of a text, in the zone of `now`.
    fn parsed(text: &str) -> [String; 2] {
        let period = parse(text, &now()).unwrap();
        let local = |moment: Option<Timestamp>| match moment {
            Some(moment) => {
                moment.to_zoned(now().time_zone().clone()).strftime("%m-%d %H:%M").to_string()
            }
            None => "open".to_owned(),
        };
        [local(period.start), local(period.end)]
    }

    #[test]
    fn hours_count_back_from_now() {
        assert_eq!(parsed("90m"), ["11-16 07:00", "11-16 07:00"]);
        assert_eq!(parsed("2 hours ago"), ["11-16 06:30", "11-16 06:30"]);
        assert_eq!(parsed("now"), ["11-16 08:30", "11-16 08:30"]);
    }

    #[test]
    fn days_are_whole() {
        assert_eq!(parsed("3d"), ["11-13 00:00", "11-14 00:00"]);
        assert_eq!(parsed("3 days ago"), parsed("3d"));
        assert_eq!(parsed("1d"), parsed("yesterday"));
        assert_eq!(parsed("0d"), parsed("today"));
        assert_eq!(parsed("2 weeks ago"), ["11-02 00:00", "11-03 00:00"]);
        assert_eq!(parsed("1y"), ["11-16 00:00", "11-17 00:00"]);
        // The day on which summer time ended has 25 hours.
        assert_eq!(parsed("22d"), ["10-25 00:00", "10-26 00:00"]);
    }

    #[test]
    fn days_begin_in_the_time_zone_of_now() {
        let start = |text: &str| parse(text, &now()).unwrap().start.unwrap().to_string();
        assert_eq!(start("today"), "2026-11-15T23:00:00Z");
        assert_eq!(start("2026-07-01"), "2026-06-30T22:00:00Z");
        assert_eq!(start("2026-07"), "2026-06-30T22:00:00Z");
        assert_eq!(start("2026"), "2025-12-31T23:00:00Z");
        assert_eq!(start("2026-07-01T09:30"), "2026-07-01T07:30:00Z");
        assert_eq!(start("2026-07-01T09:30:00Z"), "2026-07-01T09:30:00Z");
    }

    #[test]
    fn weeks_begin_on_monday() {
        assert_eq!(parsed("monday"), ["11-16 00:00", "11-17 00:00"]);
        assert_eq!(parsed("Sunday"), ["11-15 00:00", "11-16 00:00"]);
        assert_eq!(parsed("last tue"), ["11-10 00:00", "11-11 00:00"]);
        assert_eq!(parsed("this week"), ["11-16 00:00", "11-23 00:00"]);
        assert_eq!(parsed("last week"), ["11-09 00:00", "11-16 00:00"]);
        assert_eq!(parsed("last-week"), parsed("last week"));
        assert_eq!(parsed("last month"), ["10-01 00:00", "11-01 00:00"]);
    }

    #[test]
    fn a_range_has_two_ends() {
        assert_eq!(parsed("2026-11-01..2026-11-07"), ["11-01 00:00", "11-08 00:00"]);
        assert_eq!(parsed("2026-10 .. yesterday"), ["10-01 00:00", "11-16 00:00"]);
        assert_eq!(parsed("2026-11-01.."), ["11-01 00:00", "open"]);
        assert_eq!(parsed("..2026-11-07"), ["open", "11-08 00:00"]);
    }

    #[test]
    fn nonsense_is_not_a_time() {
        for text in [
            "",
            "soon",
            "3",
            "d",
            "99999999999999999999d",
            "999999999y",
            "2026-13-01",
            "日",
            "..",
            "a..b",
            "2026-11-01..b",
            "last",
            "last day",
            "12345678d",
        ] {
            assert_eq!(parse(text, &now()), None, "{text}");
        }
    }
}
