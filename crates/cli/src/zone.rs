//! The time zone that times are shown in.

use std::fs;
use std::sync::OnceLock;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The link to the machine's zone in the zone database.
const LOCAL: &str = "/etc/localtime";

/// Returns the zone of this process.
pub(crate) fn zone() -> TimeZone {
    static ZONE: OnceLock<TimeZone> = OnceLock::new();
    ZONE.get_or_init(|| linked().unwrap_or_else(TimeZone::system)).clone()
}

/// Returns the current time.
pub(crate) fn now() -> Zoned {
    Timestamp::now().to_zoned(zone())
}

/// Returns texts whose end ([`filters::until`](crate::filters::until)) comes after `milliseconds`:
/// a day, a second, a millisecond.
pub(crate) fn just_after(milliseconds: i64) -> Vec<String> {
    let steps = [(0, "%Y-%m-%d"), (1000, "%Y-%m-%dT%H:%M:%S"), (1, "%Y-%m-%dT%H:%M:%S%.3f")];
    let texts = steps.into_iter().filter_map(|(later, form)| {
        let time = Timestamp::from_millisecond(milliseconds.saturating_add(later)).ok()?;
        Some(time.to_zoned(zone()).strftime(form).to_string())
    });
    texts.collect()
}

/// Returns the machine's zone, unless the environment sets another one. `TimeZone::system` first
/// lists all zones, which takes as long as a search.
fn linked() -> Option<TimeZone> {
    if std::env::var_os("TZ").is_some() {
        return None;
    }
    let target = fs::read_link(LOCAL).ok()?;
    let (_, name) = target.to_str()?.split_once("/zoneinfo/")?;
    TimeZone::tzif(name, &fs::read(LOCAL).ok()?).ok()
}
