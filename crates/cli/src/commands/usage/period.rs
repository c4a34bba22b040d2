//! Which time is asked for.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use quipu_transcript::when;

use super::{Args, By};
use crate::error::{CommandError, Result};

/// A range of time, and how to speak of it.
pub(super) struct Asked {
    pub(super) since: Option<i64>,
    pub(super) until: Option<i64>,
    pub(super) words: String,
}

/// A person sees this many days unless they ask for others.
const DAYS: i32 = 30;

/// The range that the arguments mean. Days are whole: `--since 3d` begins with that day.
pub(super) fn asked(args: &Args, is_json: bool, zone: &TimeZone) -> Result<Asked> {
    let now = Timestamp::now().to_zoned(zone.clone());
    let mut words = Vec::new();
    let since = match &args.since {
        Some(text) => {
            let time = when::parse(text, &now).ok_or_else(|| unclear("--since", text))?;
            let day = start_of_day(&time.to_zoned(zone.clone()));
            words.push(format!("since {}", day.date()));
            Some(day)
        }
        None if args.by == By::Daily && args.until.is_none() && !args.all && !is_json => {
            words.push(format!("in the last {DAYS} days"));
            let first = now.checked_sub((DAYS - 1).days()).unwrap_or_else(|_| now.clone());
            Some(start_of_day(&first))
        }
        None => None,
    };
    let until = match &args.until {
        Some(text) => {
            let time = when::parse_end(text, &now).ok_or_else(|| unclear("--until", text))?;
            words.push(format!("until {text}"));
            Some(time.as_millisecond())
        }
        None => None,
    };
    if let Some(agent) = &args.agent {
        words.push(format!("by {agent}"));
    }
    if words.is_empty() {
        words.push("all that is known".to_owned());
    }
    let since = since.map(|since| since.timestamp().as_millisecond());
    Ok(Asked { since, until, words: words.join(", ") })
}

fn start_of_day(time: &Zoned) -> Zoned {
    time.start_of_day().unwrap_or_else(|_| time.clone())
}

fn unclear(flag: &str, text: &str) -> CommandError {
    CommandError::new(format!("cannot tell which time {flag} `{text}` means"))
        .hint("say 3d, 2w, yesterday, 2026-11-01 or 2026-11-01T09:30")
}
