//! Times as agents write them: ISO text with or without a zone, or a number of seconds,
//! milliseconds or microseconds. In quipu, a time is whole milliseconds since 1970, UTC.
//!
//! A time that cannot be parsed is `None`, never the present and never 1970.

/// Milliseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// 0000-01-01T00:00:00.000Z, the earliest time with a four-digit year.
const EARLIEST: i64 = -62_167_219_200_000;
/// 9999-12-31T23:59:59.999Z, the latest time with a four-digit year.
const LATEST: i64 = 253_402_300_799_999;

impl Timestamp {
    /// Parses ISO 8601 text (with `Z`, an offset, or no zone, which means UTC) or a number in
    /// digits.
    pub fn from_text(text: &str) -> Option<Timestamp> {
        if let Some(time) = canonical(text.as_bytes()) {
            return Some(time);
        }
        let text = text.trim_ascii();
        // Longer text is never a time, and jiff should not parse a megabyte.
        if text.is_empty() || text.len() > 64 {
            return None;
        }
        if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Timestamp::from_number(text.parse().ok()?);
        }
        let millis = match text.parse::<jiff::Timestamp>() {
            Ok(instant) => instant.as_millisecond(),
            Err(_) => {
                // Text without a zone, or on the last day of 9999, which jiff's instants do not
                // reach.
                let local = text.strip_suffix(['Z', 'z']).unwrap_or(text);
                let civil: jiff::civil::DateTime = local.parse().ok()?;
                millis_of(
                    civil.year().into(),
                    civil.month().into(),
                    civil.day().into(),
                    civil.hour().into(),
                    civil.minute().into(),
                    civil.second().into(),
                    i64::from(civil.subsec_nanosecond()) / 1_000_000,
                )
            }
        };
        (EARLIEST..=LATEST).contains(&millis).then_some(Timestamp(millis))
    }

    /// Formats the time like JavaScript's `toISOString`. Returns an empty text for a time outside
    /// of jiff's range.
    pub fn to_iso(self) -> String {
        let instant = jiff::Timestamp::from_millisecond(self.0);
        instant.map(|time| time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()).unwrap_or_default()
    }

    /// Converts a number of seconds, milliseconds or microseconds since 1970; its size shows the
    /// unit.
    ///
    /// The three ranges do not overlap for times between 1973 and 5138. Agents write zero for "not
    /// set", so zero is not a time.
    pub fn from_number(number: f64) -> Option<Timestamp> {
        let millis = if !number.is_finite() || number <= 0.0 {
            return None;
        } else if number < 1e11 {
            number * 1000.0
        } else if number < 1e14 {
            number
        } else if number < 1e17 {
            number / 1000.0
        } else {
            return None;
        };
        // Below 1e14, so the conversion is exact but for the fraction.
        Some(Timestamp(millis.round() as i64))
    }
}

/// Parses `YYYY-MM-DDTHH:MM:SS.mmmZ`, the form of JavaScript's `toISOString` and of nearly every
/// time.
fn canonical(text: &[u8]) -> Option<Timestamp> {
    let &[
        y0,
        y1,
        y2,
        y3,
        b'-',
        m0,
        m1,
        b'-',
        d0,
        d1,
        b'T',
        h0,
        h1,
        b':',
        n0,
        n1,
        b':',
        s0,
        s1,
        b'.',
        f0,
        f1,
        f2,
        b'Z',
    ] = text
    else {
        return None;
    };
    let year = digits(&[y0, y1, y2, y3])?;
    let month = digits(&[m0, m1])?;
    let day = digits(&[d0, d1])?;
    let hour = digits(&[h0, h1])?;
    let minute = digits(&[n0, n1])?;
    let second = digits(&[s0, s1])?;
    let milli = digits(&[f0, f1, f2])?;
    let is_sane = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    is_sane.then(|| Timestamp(millis_of(year, month, day, hour, minute, second, milli)))
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0i64, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
    })
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Converts a date and time of day. Counts days from 1 March, so that the leap day is the last day
/// of a year.
fn millis_of(
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    milli: i64,
) -> i64 {
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + milli
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, millis: Option<i64>) {
        assert_eq!(Timestamp::from_text(text).map(|time| time.0), millis, "{text:?}");
    }

    #[test]
    fn text_is_read_with_and_without_a_zone() {
        check("2026-01-31T07:26:10.958Z", Some(1_769_844_370_958));
        check("2026-01-31T07:26:10Z", Some(1_769_844_370_000));
        check("2026-01-31t07:26:10.958123z", Some(1_769_844_370_958));
        check("2026-01-31T08:26:10.958+01:00", Some(1_769_844_370_958));
        check("2026-01-31T07:26:10.958", Some(1_769_844_370_958));
        check("2026-01-31 07:26:10", Some(1_769_844_370_000));
        check(" 2026-01-31T07:26:10.958Z ", Some(1_769_844_370_958));
    }

    #[test]
    fn text_of_digits_is_a_number() {
        check("1769844370", Some(1_769_844_370_000));
        check("1769844370958", Some(1_769_844_370_958));
        check("1769844370.958", Some(1_769_844_370_958));
    }

    #[test]
    fn the_years_0_to_9999_are_read() {
        check("0000-01-01T00:00:00.000Z", Some(EARLIEST));
        check("0000-01-01T00:00:00Z", Some(EARLIEST));
        check("9999-12-31T23:59:59.999Z", Some(LATEST));
        check("9999-12-31T23:59:59Z", Some(LATEST - 999));
        check("2024-02-29T00:00:00.000Z", Some(1_709_164_800_000));
        check("2023-02-29T00:00:00.000Z", None);
    }

    #[test]
    fn text_that_is_no_time_is_refused() {
        for text in ["", " ", "null", "yesterday", "292278994-08-17T07:12:55.807Z", "-1"] {
            check(text, None);
        }
        check("+292278994-08-17T07:12:55.807Z", None);
        check("-000001-01-01T00:00:00Z", None);
        check("2026-13-01T00:00:00.000Z", None);
        check("...", None);
        check(&"9".repeat(70), None);
    }

    #[test]
    fn the_size_of_a_number_shows_its_unit() {
        let is = |number: f64, millis| {
            assert_eq!(Timestamp::from_number(number).map(|time| time.0), millis, "{number}");
        };
        is(1_769_844_370.0, Some(1_769_844_370_000));
        is(1_769_844_370_958.0, Some(1_769_844_370_958));
        is(1_769_844_370_958_000.0, Some(1_769_844_370_958));
        for number in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e17, 9.3e18, 1e300] {
            is(number, None);
        }
    }

    proptest::proptest! {
        #[test]
        fn the_fast_path_agrees_with_jiff(seconds in -62_135_596_800i64..253_402_000_000, millis in 0i64..1000) {
            let instant = jiff::Timestamp::from_millisecond(seconds * 1000 + millis).unwrap();
            let text = format!("{instant:.3}");
            proptest::prop_assert_eq!(canonical(text.as_bytes()), Some(Timestamp(seconds * 1000 + millis)));
        }

        #[test]
        fn never_panics(text in ".{0,80}") {
            let _ = Timestamp::from_text(&text);
        }
    }
}
