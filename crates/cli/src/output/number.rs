//! Numbers, sizes and dates for people. Never used for JSON.

use jiff::{Timestamp, Zoned};
use quipu_transcript::format::folder_and_file;
pub(crate) use quipu_transcript::render::{count, number};

/// Formats a large number with three digits: `1.23M`.
pub(crate) fn short(value: u64) -> String {
    const UNITS: [&str; 6] = ["k", "M", "B", "T", "q", "Q"];
    scaled(value, "", &UNITS)
}

/// Describes lines that are too long to be parsed completely.
pub(crate) fn long_lines(lines: u64) -> String {
    let ownership = if lines == 1 { "its" } else { "their" };
    format!("{} above 32 MiB: only {ownership} first 64 KiB are parsed", count(lines, "line"))
}

/// Formats dollars: `$1.23`, `$1,234`; less than half a cent with its first digits.
pub(crate) fn dollars(value: f64) -> String {
    match value {
        value if value >= 999.5 => format!("${}", number(value.round() as u64)),
        value if value >= 0.005 || value <= 0.0 => format!("${value:.2}"),
        value if value >= 0.000_05 => format!("${value:.4}"),
        _ => "<$0.0001".to_owned(),
    }
}

/// Formats a size with three digits and a decimal unit: `1.23 MB`.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [&str; 6] = [" kB", " MB", " GB", " TB", " PB", " EB"];
    scaled(value, " B", &UNITS)
}

/// Formats a value with three digits and a unit of thousands.
fn scaled(value: u64, small: &str, units: &[&str]) -> String {
    if value < 1000 {
        return format!("{value}{small}");
    }
    let mut size = value as f64 / 1000.0;
    let mut unit = 0;
    // 999.5 would be rounded to 1000.
    while size >= 999.5 && unit + 1 < units.len() {
        size /= 1000.0;
        unit += 1;
    }
    let decimals = if size < 9.995 {
        2
    } else if size < 99.95 {
        1
    } else {
        0
    };
    format!("{size:.decimals$}{}", units.get(unit).unwrap_or(&""))
}

/// Formats a number of sessions and of sub-agents: `7 sessions, 1 sub-agent`.
pub(crate) fn sessions(sessions: u64, subagents: u64) -> String {
    match subagents {
        0 => count(sessions, "session"),
        _ => format!("{}, {}", count(sessions, "session"), count(subagents, "sub-agent")),
    }
}

/// A ledger with fewer bytes consists mostly of tables and indexes without data.
const SMALL_LEDGER: u64 = 10_000_000;

/// Formats the size of a ledger divided by that of its sources: `0.26`. Returns `None` for a small
/// ledger, most of which is empty tables.
pub(crate) fn ledger_ratio(ledger: u64, sources: u64) -> Option<String> {
    (ledger >= SMALL_LEDGER && sources > 0)
        .then(|| format!("{:.2}", ledger as f64 / sources as f64))
}

/// Formats the local day of a time in milliseconds UTC: `2026-11-15`.
pub(crate) fn day(milliseconds: i64) -> String {
    local(milliseconds, "%Y-%m-%d")
}

/// Formats the local minute of a time in milliseconds UTC: `2026-11-15 18:00`.
pub(crate) fn minute(milliseconds: i64) -> String {
    local(milliseconds, "%Y-%m-%d %H:%M")
}

/// Formats the local hour and minute of a time in milliseconds UTC: `18:00`.
pub(crate) fn clock(milliseconds: i64) -> String {
    local(milliseconds, "%H:%M")
}

/// Formats the local time of day of a time in milliseconds UTC: `18:00:07`.
pub(crate) fn second(milliseconds: i64) -> String {
    local(milliseconds, "%H:%M:%S")
}

fn local(milliseconds: i64, shape: &str) -> String {
    Timestamp::from_millisecond(milliseconds).map_or_else(
        |_| "unknown".to_owned(),
        |time| time.to_zoned(crate::zone::zone()).strftime(shape).to_string(),
    )
}

/// Returns the current time, in milliseconds UTC.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Length after which an id is cut.
const MAX_ID_CHARS: usize = 20;

/// Formats how long ago a time is; after two weeks, its day. Days are those of the calendar, as in
/// `--since 3d`.
pub(crate) fn elapsed(milliseconds: i64) -> String {
    elapsed_at(milliseconds, &crate::zone::now())
}

fn elapsed_at(milliseconds: i64, now: &Zoned) -> String {
    let Ok(time) = Timestamp::from_millisecond(milliseconds) else { return "unknown".to_owned() };
    let age = now.timestamp().duration_since(time);
    match (age.as_mins(), age.as_hours(), days(time, now)) {
        (..0, ..) => minute(milliseconds),
        (0, ..) => "just now".to_owned(),
        (minutes @ ..60, ..) => format!("{minutes} min ago"),
        (_, hours @ ..24, _) => format!("{hours} h ago"),
        (.., 1) => "1 day ago".to_owned(),
        (.., days @ ..14) => format!("{days} days ago"),
        _ => day(milliseconds),
    }
}

/// Formats how long something took: `2 h 5 min`.
pub(crate) fn duration(milliseconds: i64) -> String {
    let minutes = milliseconds.max(0) / 60_000;
    match (minutes / (24 * 60), minutes / 60, minutes % 60) {
        (0, 0, 0) => format!("{} s", milliseconds.max(0) / 1000),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, 0) => format!("{hours} h"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => match hours % 24 {
            0 => count(days.unsigned_abs(), "day"),
            hours => format!("{} {hours} h", count(days.unsigned_abs(), "day")),
        },
    }
}

/// Returns the number of midnights between a time and now.
fn days(time: Timestamp, now: &Zoned) -> i32 {
    let day = time.to_zoned(now.time_zone().clone()).date();
    now.date().since(day).map_or(0, |span| span.get_days())
}

/// Shortens an id to a beginning that commands accept. A sub-agent's id begins with its session's,
/// for example `44444444/agent-1`.
pub(crate) fn short_id(id: &str) -> String {
    ShortIds::default().of(id)
}

/// Letters of a UUID that are nearly always unique.
pub(crate) const ID_LETTERS: usize = 8;

/// Returns a short id without the signs at its end, if it is not the whole id and stays long enough.
fn without_signs(short: String, id: &str) -> String {
    let cut = short.trim_end_matches(|last: char| !last.is_alphanumeric());
    match short == id || cut.chars().count() < ID_LETTERS {
        true => short,
        false => cut.to_owned(),
    }
}

/// Shortens ids so that each still matches one session.
#[derive(Debug, Default)]
pub(crate) struct ShortIds {
    /// Ids that share their first letters with another id, sorted.
    ambiguous: Vec<String>,
}

impl ShortIds {
    /// Takes the ids that share their first letters with another id, sorted.
    pub(crate) fn new(ambiguous: Vec<String>) -> ShortIds {
        ShortIds { ambiguous }
    }

    /// Shortens an id; see [`short_id`].
    pub(crate) fn of(&self, id: &str) -> String {
        match self.shortened(id) {
            // `last` means the newest session.
            short if short == "last" => id.to_owned(),
            short => short,
        }
    }

    fn shortened(&self, id: &str) -> String {
        let is_uuid = |id: &str| {
            id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        };
        let first = |id: &str, least| {
            let letters = self.letters(id).max(least);
            id.chars().take(letters).collect::<String>()
        };
        let session = id.split_once('/').map(|(session, _)| session);
        match folder_and_file(id) {
            // A file in another folder has the same name.
            Some(_) if self.is_ambiguous(id) => id.to_owned(),
            Some((_, own)) if session.is_some_and(is_uuid) => {
                format!("{}/{own}", first(session.unwrap_or_default(), ID_LETTERS))
            }
            // The session is named after a file. Its folder is needed only if that name is
            // ambiguous.
            Some((_, own)) => without_signs(own.chars().take(MAX_ID_CHARS).collect(), own),
            None if is_uuid(id) => first(id, ID_LETTERS),
            None if self.is_ambiguous(id) => first(id, MAX_ID_CHARS),
            None => without_signs(first(id, MAX_ID_CHARS), id),
        }
    }

    fn is_ambiguous(&self, id: &str) -> bool {
        self.ambiguous.binary_search_by(|ambiguous| ambiguous.as_str().cmp(id)).is_ok()
    }

    /// Returns how many letters distinguish an id from its neighbours.
    fn letters(&self, id: &str) -> usize {
        let Ok(at) = self.ambiguous.binary_search_by(|ambiguous| ambiguous.as_str().cmp(id)) else {
            return 0;
        };
        let alike = |other: Option<&String>| {
            let other = other.map_or("", String::as_str);
            id.chars().zip(other.chars()).take_while(|(a, b)| a == b).count()
        };
        let before = at.checked_sub(1).and_then(|before| self.ambiguous.get(before));
        alike(before).max(alike(self.ambiguous.get(at + 1))) + 1
    }
}

/// Formats how many days ago a time is.
pub(crate) fn ago(milliseconds: i64) -> String {
    let now = crate::zone::now();
    match Timestamp::from_millisecond(milliseconds).map_or(0, |time| days(time, &now)) {
        ..=0 => "today".to_owned(),
        1 => "yesterday".to_owned(),
        days => format!("{} days ago", number(days.unsigned_abs().into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        let shown = [0, 999, 1000, 9994, 9996, 99_949, 999_499, 999_500, 1_234_567_890, u64::MAX]
            .map(bytes);
        assert_eq!(
            shown,
            [
                "0 B", "999 B", "1.00 kB", "9.99 kB", "10.0 kB", "99.9 kB", "999 kB", "1.00 MB",
                "1.23 GB", "18.4 EB"
            ]
        );
    }

    #[test]
    fn money_and_tokens_are_rounded() {
        let shown = [0.0, 0.000_01, 0.0004, 0.005, 1.239, 999.4, 1234.5].map(dollars);
        assert_eq!(shown, ["$0.00", "<$0.0001", "$0.0004", "$0.01", "$1.24", "$999.40", "$1,235"]);
        assert_eq!([7, 1234, 12_345_678, u64::MAX].map(short), ["7", "1.23k", "12.3M", "18.4Q"]);
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        let now: Zoned = "2026-11-16T01:00:00[UTC]".parse().unwrap();
        let shown =
            |time: &str| elapsed_at(time.parse::<Timestamp>().unwrap().as_millisecond(), &now);
        assert_eq!(shown("2026-11-15T02:00:00Z"), "23 h ago");
        assert_eq!(shown("2026-11-15T00:30:00Z"), "1 day ago");
        // 25 hours and 30 minutes, and two midnights.
        assert_eq!(shown("2026-11-14T23:30:00Z"), "2 days ago");
        assert_eq!(shown("2026-11-03T00:00:00Z"), "13 days ago");
        assert_eq!(shown("2026-11-02T23:00:00Z"), "2026-11-02");
    }

    #[test]
    fn durations_have_two_units() {
        let shown = [7_000, 60_000, 3_600_000, 7_500_000, 86_400_000, 180_000_000].map(duration);
        assert_eq!(shown, ["7 s", "1 min", "1 h", "2 h 5 min", "1 day", "2 days 2 h"]);
    }

    #[test]
    fn a_time_out_of_range_is_unknown() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(i64::MAX), "unknown");
    }

    #[test]
    fn a_slash_in_the_name_of_a_thread_is_no_folder() {
        let id = "44444444-4444-4444-8444-444444444444";
        assert_eq!(short_id(&format!("{id}-topic-a/b")), short_id(&format!("{id}-topic-7")));
        assert_eq!(short_id(&format!("{id}/agent-1")), "44444444/agent-1");
        assert_eq!(short_id("folder/file"), "file");
        assert_eq!(short_id("p/2026-01-22-be437104-4a61-49d9"), "2026-01-22-be437104");
        assert_eq!(short_id("2026-01-22-be437104-4a61-49d9"), "2026-01-22-be437104");
        assert_eq!(short_id("a-------------------------b"), "a-------------------");
        assert_eq!(short_id("ends-with-a-sign-"), "ends-with-a-sign-");
    }
}
