//! Numbers, sizes and dates for people. Never used for JSON.

use jiff::{SignedDuration, Timestamp};
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

/// Formats `part` divided by `whole`: `0.26`. Returns `None` for an empty whole.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<String> {
    (whole > 0).then(|| format!("{:.2}", part as f64 / whole as f64))
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
const LONGEST_ID: usize = 20;

/// Formats how long ago a time is; after two weeks, its day.
pub(crate) fn elapsed(milliseconds: i64) -> String {
    let Ok(time) = Timestamp::from_millisecond(milliseconds) else { return "unknown".to_owned() };
    let age = Timestamp::now().duration_since(time);
    match (age.as_mins(), age.as_hours(), age.as_hours() / 24) {
        (..0, ..) => minute(milliseconds),
        (0, ..) => "just now".to_owned(),
        (minutes @ ..60, ..) => format!("{minutes} min ago"),
        (_, hours @ ..24, _) => format!("{hours} h ago"),
        (.., 1) => "1 day ago".to_owned(),
        (.., days @ ..14) => format!("{days} days ago"),
        _ => day(milliseconds),
    }
}

/// Returns the beginning of an id that people need and `find` accepts: of a UUID or another long
/// name; for a sub-agent, of its session's id and its own.
pub(crate) fn short_id(id: &str) -> String {
    ShortIds::default().of(id)
}

/// Letters of a UUID that are nearly always unique.
pub(crate) const ID_LETTERS: usize = 8;

/// Shortens ids so that each still matches one session. Holds the ids for which the first letters
/// are ambiguous.
#[derive(Debug, Default)]
pub(crate) struct ShortIds {
    /// Ambiguous ids, sorted.
    ambiguous: Vec<String>,
}

impl ShortIds {
    /// Creates it from the ids that share their first letters with another one, sorted.
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
        match id.rsplit_once('/') {
            // Another file in another folder has the same name.
            Some(_) if self.is_ambiguous(id) => id.to_owned(),
            Some((_, own)) if session.is_some_and(is_uuid) => {
                format!("{}/{own}", first(session.unwrap_or_default(), ID_LETTERS))
            }
            // Named after a file; the folder is needed only if the name is ambiguous.
            Some((_, own)) => own.chars().take(LONGEST_ID).collect(),
            None if is_uuid(id) => first(id, ID_LETTERS),
            None => first(id, LONGEST_ID),
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
    let age = Timestamp::from_millisecond(milliseconds)
        .map_or(SignedDuration::ZERO, |time| Timestamp::now().duration_since(time));
    match age.as_hours() / 24 {
        ..=0 => "today".to_owned(),
        1 => "yesterday".to_owned(),
        days => format!("{} days ago", number(days.unsigned_abs())),
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
    fn money_and_tokens() {
        let shown = [0.0, 0.000_01, 0.0004, 0.005, 1.239, 999.4, 1234.5].map(dollars);
        assert_eq!(shown, ["$0.00", "<$0.0001", "$0.0004", "$0.01", "$1.24", "$999.40", "$1,235"]);
        assert_eq!([7, 1234, 12_345_678, u64::MAX].map(short), ["7", "1.23k", "12.3M", "18.4Q"]);
    }

    #[test]
    fn odd_times_are_shown() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(i64::MAX), "unknown");
    }
}
