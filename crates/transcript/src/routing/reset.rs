//! Decides when a session starts over by itself: never by default.
//!
//! As in OpenClaw, a session starts over at an hour of the day or after some idle time, whichever
//! comes first. Kinds of conversations can have their own rules, and so can channels, whose rule
//! replaces all others.

use std::collections::BTreeMap;

use jiff::{Timestamp, ToSpan, tz::TimeZone};

use super::settings::choices;
use crate::key::{Kind, SessionKey};

/// The default hour of a daily reset.
const DEFAULT_HOUR: i8 = 4;

/// The default idle time in minutes.
const DEFAULT_IDLE_MINUTES: u32 = 60;

choices! {
    /// The event that starts a session over.
    ResetMode {
        /// Only a command.
        None = "none",
        /// An hour of the day, and also the idle time if one is set.
        Daily = "daily",
        /// An idle time.
        Idle = "idle",
    }
}

choices! {
    /// A kind of conversation that can have its own rule.
    ResetType {
        /// With one person.
        Direct = "direct",
        /// Groups, channels and rooms.
        Group = "group",
        /// Threads and topics of any of them.
        Thread = "thread",
    }
}

impl ResetType {
    /// Returns the kind of conversation that a key routes to.
    pub fn of(key: &SessionKey) -> ResetType {
        match key.kind() {
            _ if key.thread().is_some() => ResetType::Thread,
            Kind::Thread { .. } => ResetType::Thread,
            Kind::Group { .. } => ResetType::Group,
            _ => ResetType::Direct,
        }
    }
}

/// A reset rule; each part may be absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResetRule {
    /// The event that starts it over.
    pub mode: Option<ResetMode>,
    /// The hour, 0 to 23.
    pub hour: Option<i8>,
    /// The idle time in minutes, at least 1.
    pub idle_minutes: Option<u32>,
}

impl ResetRule {
    /// Returns this rule, with absent parts from `below`.
    pub(super) fn over(self, below: ResetRule) -> ResetRule {
        ResetRule {
            mode: self.mode.or(below.mode),
            hour: self.hour.or(below.hour),
            idle_minutes: self.idle_minutes.or(below.idle_minutes),
        }
    }
}

/// All rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resets {
    /// The rule for all sessions.
    pub base: ResetRule,
    /// Rules for kinds of conversations; absent parts come from the base.
    pub by_type: BTreeMap<ResetType, ResetRule>,
    /// Rules for channels, which replace all others.
    pub by_channel: BTreeMap<String, ResetRule>,
}

/// The rule in effect for one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResetPolicy {
    /// The event that starts it over.
    pub mode: ResetMode,
    /// The hour, 0 to 23.
    pub hour: i8,
    /// The idle time in minutes.
    pub idle_minutes: Option<u32>,
}

impl Resets {
    /// Returns the rule in effect for a key whose messages come through a channel.
    pub fn policy(&self, key: &SessionKey, channel: &str) -> ResetPolicy {
        let rule = match self.by_channel.get(channel) {
            Some(rule) => *rule,
            None => {
                let own = self.by_type.get(&ResetType::of(key)).copied().unwrap_or_default();
                own.over(self.base)
            }
        };
        // The mode may be absent, and then follows from the numbers.
        let implied = match (rule.hour, rule.idle_minutes) {
            (Some(_), _) => ResetMode::Daily,
            (None, Some(_)) => ResetMode::Idle,
            (None, None) => ResetMode::None,
        };
        let mode = rule.mode.unwrap_or(implied);
        let idle_minutes = rule.idle_minutes.map(|minutes| minutes.max(1));
        ResetPolicy {
            mode,
            hour: rule.hour.unwrap_or(DEFAULT_HOUR).clamp(0, 23),
            idle_minutes: match mode {
                ResetMode::Idle => Some(idle_minutes.unwrap_or(DEFAULT_IDLE_MINUTES)),
                _ => idle_minutes,
            },
        }
    }
}

/// The past activity of a session, in milliseconds UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// The time when the conversation began or last started over.
    pub started_at: Option<i64>,
    /// The time of the last message to it.
    pub last_at: Option<i64>,
    /// The time of the last metadata change; used only if the others are unknown.
    pub updated_at: Option<i64>,
}

choices! {
    /// The reason why a session starts over.
    Due {
        /// The hour has passed.
        Daily = "daily",
        /// The idle time has passed.
        Idle = "idle",
    }
}

/// Returns the reason if a session has to start over before the next message. Hours are those of
/// `zone`. Times in the future are ignored.
pub fn is_due(policy: &ResetPolicy, activity: &Activity, now: i64, zone: &TimeZone) -> Option<Due> {
    if policy.mode == ResetMode::None {
        return None;
    }
    let believed = |time: Option<i64>| time.filter(|time| *time <= now);
    let started = believed(activity.started_at);
    let last = believed(activity.last_at);
    let updated = believed(activity.updated_at);
    if policy.mode == ResetMode::Daily
        && let Some(began) = started.or(last).or(updated)
        && let Some(boundary) = last_boundary(now, policy.hour, zone)
        && began < boundary
    {
        return Some(Due::Daily);
    }
    let quiet_since = last.or(started).or(updated)?;
    let allowed = i64::from(policy.idle_minutes?) * 60_000;
    (now - quiet_since > allowed).then_some(Due::Idle)
}

/// Returns the most recent time, up to `now`, at which `hour` began in the time zone.
fn last_boundary(now: i64, hour: i8, zone: &TimeZone) -> Option<i64> {
    let now = Timestamp::from_millisecond(now).ok()?;
    let today = now.to_zoned(zone.clone()).date();
    // If the clock is set forward over the hour, the boundary still exists on that day.
    let at = |date: jiff::civil::Date| {
        Some(date.at(hour, 0, 0, 0).to_zoned(zone.clone()).ok()?.timestamp())
    };
    let boundary = match at(today)? {
        boundary if boundary <= now => boundary,
        _ => at(today.checked_sub(1.day()).ok()?)?,
    };
    Some(boundary.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> i64 {
        text.parse::<Timestamp>().map_or(0, Timestamp::as_millisecond)
    }

    fn daily(hour: i8) -> ResetPolicy {
        ResetPolicy { mode: ResetMode::Daily, hour, idle_minutes: None }
    }

    #[track_caller]
    fn check(policy: &ResetPolicy, activity: Activity, now: &str, zone: &str, due: Option<Due>) {
        let zone = if zone == "UTC" { TimeZone::UTC } else { TimeZone::get(zone).unwrap() };
        assert_eq!(is_due(policy, &activity, at(now), &zone), due);
    }

    #[test]
    fn r73_nothing_starts_over_by_itself() {
        let policy = Resets::default().policy(&SessionKey::parse("agent:main:main"), "telegram");
        assert_eq!(policy.mode, ResetMode::None);
        let long_ago = Activity { started_at: Some(0), last_at: Some(0), updated_at: Some(0) };
        check(&policy, long_ago, "2026-11-16T12:00:00Z", "UTC", None);
    }

    #[test]
    fn a_daily_reset_depends_on_the_start_and_the_local_hour() {
        let began = |text: &str| Activity { started_at: Some(at(text)), ..Activity::default() };
        let policy = daily(4);
        check(
            &policy,
            began("2026-11-15T03:59:59Z"),
            "2026-11-15T04:00:00Z",
            "UTC",
            Some(Due::Daily),
        );
        check(&policy, began("2026-11-15T04:00:00Z"), "2026-11-16T03:59:59Z", "UTC", None);
        check(
            &policy,
            began("2026-11-15T04:00:00Z"),
            "2026-11-16T04:00:00Z",
            "UTC",
            Some(Due::Daily),
        );
        // It is five in Berlin, and still four in London.
        check(
            &daily(5),
            began("2026-01-10T03:30:00Z"),
            "2026-01-10T04:10:00Z",
            "Europe/Berlin",
            Some(Due::Daily),
        );
        check(
            &daily(5),
            began("2026-01-10T03:30:00Z"),
            "2026-01-10T04:10:00Z",
            "Europe/London",
            None,
        );
        // Constant activity does not delay a daily reset.
        let busy =
            Activity { last_at: Some(at("2026-11-16T03:59:00Z")), ..began("2026-11-15T05:00:00Z") };
        check(&policy, busy, "2026-11-16T04:01:00Z", "UTC", Some(Due::Daily));
    }

    #[test]
    fn a_daily_reset_happens_even_if_the_clock_skips_its_hour() {
        let began =
            Activity { started_at: Some(at("2026-03-28T12:00:00Z")), ..Activity::default() };
        check(&daily(2), began, "2026-03-29T00:59:00Z", "Europe/Berlin", None);
        check(&daily(2), began, "2026-03-29T01:01:00Z", "Europe/Berlin", Some(Due::Daily));
    }

    #[test]
    fn an_idle_reset_depends_on_the_last_message() {
        let policy = ResetPolicy { mode: ResetMode::Idle, hour: 4, idle_minutes: Some(30) };
        let last = Activity { last_at: Some(at("2026-11-16T10:00:00Z")), ..Activity::default() };
        check(&policy, last, "2026-11-16T10:30:00Z", "UTC", None);
        check(&policy, last, "2026-11-16T10:30:01Z", "UTC", Some(Due::Idle));
        // The metadata change counts only if the other times are unknown.
        let updated = Activity { updated_at: last.last_at, ..Activity::default() };
        check(&policy, updated, "2026-11-16T10:31:00Z", "UTC", Some(Due::Idle));
        let future = Activity { last_at: Some(at("2027-01-01T00:00:00Z")), ..updated };
        check(&policy, future, "2026-11-16T10:31:00Z", "UTC", Some(Due::Idle));
        check(&policy, Activity::default(), "2026-11-16T10:31:00Z", "UTC", None);
    }

    #[test]
    fn the_first_to_expire_wins() {
        let policy = ResetPolicy { idle_minutes: Some(60), ..daily(4) };
        let activity = Activity {
            started_at: Some(at("2026-11-16T05:00:00Z")),
            last_at: Some(at("2026-11-16T05:00:00Z")),
            updated_at: None,
        };
        check(&policy, activity, "2026-11-16T06:30:00Z", "UTC", Some(Due::Idle));
        check(&policy, activity, "2026-11-17T04:30:00Z", "UTC", Some(Due::Daily));
    }

    #[test]
    fn kinds_and_channels_have_rules_of_their_own() {
        let rule = |mode| ResetRule { mode: Some(mode), ..ResetRule::default() };
        let mut resets = Resets {
            base: ResetRule { hour: Some(6), ..rule(ResetMode::Daily) },
            ..Resets::default()
        };
        resets
            .by_type
            .insert(ResetType::Group, ResetRule { idle_minutes: Some(5), ..rule(ResetMode::Idle) });
        resets.by_type.insert(ResetType::Thread, rule(ResetMode::None));
        resets.by_channel.insert(
            "discord".to_owned(),
            ResetRule { idle_minutes: Some(0), ..ResetRule::default() },
        );
        let mode = |key: &str, channel: &str| {
            let policy = resets.policy(&SessionKey::parse(key), channel);
            (policy.mode, policy.hour, policy.idle_minutes)
        };
        assert_eq!(mode("agent:main:main", "telegram"), (ResetMode::Daily, 6, None));
        assert_eq!(mode("agent:main:telegram:group:1", "telegram"), (ResetMode::Idle, 6, Some(5)));
        assert_eq!(mode("agent:main:telegram:group:1:topic:2", "telegram").0, ResetMode::None);
        assert_eq!(mode("agent:main:slack:thread:2", "slack").0, ResetMode::None);
        assert_eq!(mode("agent:main:discord:channel:1", "discord"), (ResetMode::Idle, 4, Some(1)));
    }
}
