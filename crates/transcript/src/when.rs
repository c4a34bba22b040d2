//! Parses times as people write them: `3d`, `yesterday`, `2026-11-01`, `2026-11-01T09:30`.

use jiff::civil::{Date, DateTime};
use jiff::{Span, Timestamp, Zoned};

/// Returns the time that `text` means, relative to `now` and in its time zone. A day means its
/// beginning.
pub fn parse(text: &str, now: &Zoned) -> Option<Timestamp> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "now" => return Some(now.timestamp()),
        "today" => return Some(now.start_of_day().ok()?.timestamp()),
        "yesterday" => {
            return Some(now.yesterday().ok()?.start_of_day().ok()?.timestamp());
        }
        _ => {}
    }
    if let Some(span) = span(lower.strip_suffix("ago").unwrap_or(&lower).trim()) {
        return Some(now.checked_sub(span).ok()?.timestamp());
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(timestamp);
    }
    let zone = now.time_zone().clone();
    if let Ok(time) = text.parse::<DateTime>() {
        return Some(time.to_zoned(zone).ok()?.timestamp());
    }
    if let Ok(date) = text.parse::<Date>() {
        return Some(date.to_zoned(zone).ok()?.timestamp());
    }
    // A month, or a year.
    let first = match text.len() {
        7 => format!("{text}-01"),
        4 => format!("{text}-01-01"),
        _ => return None,
    };
    Some(first.parse::<Date>().ok()?.to_zoned(zone).ok()?.timestamp())
}

/// Returns the end of the day, month or year that `text` names, or the time itself if it names one.
/// For ranges that include their last day.
pub fn parse_end(text: &str, now: &Zoned) -> Option<Timestamp> {
    let start = parse(text, now)?;
    let text = text.trim().to_ascii_lowercase();
    let span = match text.as_str() {
        "today" | "yesterday" => Span::new().days(1),
        text if text.len() == 10 && text.parse::<Date>().is_ok() => Span::new().days(1),
        text if text.len() == 7 && format!("{text}-01").parse::<Date>().is_ok() => {
            Span::new().months(1)
        }
        text if text.len() == 4 && format!("{text}-01-01").parse::<Date>().is_ok() => {
            Span::new().years(1)
        }
        _ => return Some(start),
    };
    Some(start.to_zoned(now.time_zone().clone()).checked_add(span).ok()?.timestamp())
}

/// Parses `90m`, `3d` or `2 weeks`.
fn span(text: &str) -> Option<Span> {
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: i64 = number.parse().ok()?;
    match unit.trim() {
        "s" | "sec" | "second" | "seconds" => Span::new().try_seconds(number),
        "m" | "min" | "minute" | "minutes" => Span::new().try_minutes(number),
        "h" | "hour" | "hours" => Span::new().try_hours(number),
        "d" | "day" | "days" => Span::new().try_days(number),
        "w" | "week" | "weeks" => Span::new().try_weeks(number),
        "mo" | "month" | "months" => Span::new().try_months(number),
        "y" | "year" | "years" => Span::new().try_years(number),
        _ => return None,
    }
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn now() -> Zoned {
        // Berlin, without a time zone database.
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        "2026-11-16T08:30:00".parse::<DateTime>().unwrap().to_zoned(zone).unwrap()
    }

    fn parsed(text: &str) -> Option<String> {
        parse(text, &now()).map(|moment| moment.to_string())
    }

    fn end(text: &str) -> Option<String> {
        parse_end(text, &now()).map(|moment| moment.to_string())
    }

    #[test]
    fn spans_count_back_from_now() {
        assert_eq!(parsed("90m").unwrap(), "2026-11-16T06:00:00Z");
        assert_eq!(parsed("3d").unwrap(), "2026-11-13T07:30:00Z");
        assert_eq!(parsed("2 weeks ago").unwrap(), "2026-11-02T07:30:00Z");
        assert_eq!(parsed("1y").unwrap(), "2025-11-16T07:30:00Z");
    }

    #[test]
    fn days_begin_in_the_time_zone_of_now() {
        assert_eq!(parsed("today").unwrap(), "2026-11-15T23:00:00Z");
        assert_eq!(parsed("yesterday").unwrap(), "2026-11-14T23:00:00Z");
        assert_eq!(parsed("2026-07-01").unwrap(), "2026-06-30T22:00:00Z");
        assert_eq!(parsed("2026-07").unwrap(), "2026-06-30T22:00:00Z");
        assert_eq!(parsed("2026").unwrap(), "2025-12-31T23:00:00Z");
        assert_eq!(parsed("2026-07-01T09:30").unwrap(), "2026-07-01T07:30:00Z");
        assert_eq!(parsed("2026-07-01T09:30:00Z").unwrap(), "2026-07-01T09:30:00Z");
    }

    #[test]
    fn a_range_includes_its_last_day() {
        assert_eq!(end("2026-07-01").unwrap(), "2026-07-01T22:00:00Z");
        assert_eq!(end("2026-10").unwrap(), "2026-10-31T23:00:00Z");
        assert_eq!(end("today").unwrap(), "2026-11-16T23:00:00Z");
        assert_eq!(end("3d").unwrap(), "2026-11-13T07:30:00Z");
    }

    #[test]
    fn nonsense_is_not_a_time() {
        for text in
            ["", "soon", "3", "d", "99999999999999999999d", "999999999y", "2026-13-01", "日"]
        {
            assert_eq!(parse(text, &now()), None, "{text}");
            assert_eq!(parse_end(text, &now()), None, "{text}");
        }
    }
}
