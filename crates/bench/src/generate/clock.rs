//! The clock of a generated session.
//!
//! Never reads the system clock: the same seed must give the same home.

use super::prng::Prng;

/// The earliest time in a home, in milliseconds: 2026-01-05T08:00:00Z.
pub(crate) const EARLIEST_MS: i64 = 1_767_600_000_000;

/// The current time of a session. It only moves forward.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) now_ms: i64,
}

impl Clock {
    /// Creates a clock at a random time in the 90 days after [`EARLIEST_MS`].
    pub(crate) fn new(prng: &mut Prng) -> Self {
        Self { now_ms: EARLIEST_MS + prng.below(90 * 86_400_000) as i64 }
    }

    /// Advances by a random 1 to `max_ms` milliseconds. Returns the new time as ISO 8601.
    pub(crate) fn tick(&mut self, prng: &mut Prng, max_ms: usize) -> String {
        self.now_ms += prng.between(1, max_ms) as i64;
        self.iso()
    }

    /// Returns the time as ISO 8601, like JavaScript's `Date.toJSON`.
    pub(crate) fn iso(&self) -> String {
        let (year, month, day) = civil_date(self.now_ms.div_euclid(86_400_000));
        let ms = self.now_ms.rem_euclid(86_400_000);
        format!(
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
            ms / 3_600_000,
            ms / 60_000 % 60,
            ms / 1000 % 60,
            ms % 1000
        )
    }
}

/// Returns year, month and day of the day that is `days` days after 1970-01-01.
///
/// The algorithm is Howard Hinnant's `civil_from_days`.
fn civil_date(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_iso_8601() {
        let iso = |now_ms| Clock { now_ms }.iso();
        assert_eq!(iso(EARLIEST_MS), "2026-01-05T08:00:00.000Z");
        assert_eq!(iso(951_782_400_123), "2000-02-29T00:00:00.123Z");
    }
}
