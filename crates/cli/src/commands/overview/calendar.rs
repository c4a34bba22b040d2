//! The activity calendar: one column per week, one row per weekday, one shade per day.
//!
//! Printed on a terminal only.

use std::collections::HashMap;

use jiff::civil::Date;
use jiff::{ToSpan, Zoned};
use quipu_ledger::Ledger;
use quipu_ledger::query::{UsageBy, UsageRequest};

use crate::commands::Context;
use crate::error::Result;
use crate::output::{Style, Text, count};
use crate::zone;

/// Limit for the number of weeks: half a year.
const MAX_WEEKS: usize = 26;

/// With less room than for this number of weeks, no calendar is printed.
const MIN_WEEKS: usize = 4;

/// Columns before the first week: an indent and the name of a weekday.
const MARGIN: usize = 7;

/// The shades of a day, from none to the most.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// Prints the calendar if there is a terminal with room for it, and any usage in its weeks.
pub(super) fn show(context: &mut Context, ledger: &Ledger) -> Result<()> {
    let Some(width) = context.output.width().filter(|_| context.output.is_seen()) else {
        return Ok(());
    };
    let weeks = width.saturating_sub(MARGIN).min(MAX_WEEKS);
    if weeks < MIN_WEEKS || context.output.is_quiet() {
        return Ok(());
    }
    let now = zone::now();
    let Some(first) = first_day(&now, weeks) else { return Ok(()) };
    let responses = responses(context, ledger, first)?;
    if responses.is_empty() {
        return Ok(());
    }
    for line in lines(first, now.date(), weeks, &responses) {
        context.output.line(Text::plain("  ").join(line))?;
    }
    let total: u64 = responses.values().sum();
    let days = responses.values().filter(|responses| **responses > 0).count() as u64;
    let text = format!("{} on {} since {first}", count(total, "response"), count(days, "day"));
    context.output.hanging(2, &Text::styled(Style::Dim, text))?;
    Ok(context.output.gap()?)
}

/// Returns the Monday of the first of `weeks` weeks, of which the last is the current one.
fn first_day(now: &Zoned, weeks: usize) -> Option<Date> {
    let today = now.date();
    let monday =
        today.checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days()).ok()?;
    monday.checked_sub((weeks as i64 - 1).weeks()).ok()
}

/// Returns the number of responses on each day.
fn responses(context: &Context, ledger: &Ledger, first: Date) -> Result<HashMap<Date, u64>> {
    let zone = zone::zone();
    let since = first.to_zoned(zone.clone()).ok().map(|day| day.timestamp().as_millisecond());
    let prices = context.prices();
    let request = UsageRequest {
        by: UsageBy::Day,
        since,
        until: None,
        sessions: None,
        zone,
        prices: &prices,
        by_model: false,
    };
    let report = quipu_ledger::query::usage(ledger, &request)?;
    let lines = report.into_iter().flat_map(|report| report.lines);
    Ok(lines.filter_map(|line| Some((line.group.parse().ok()?, line.responses))).collect())
}

/// Returns the lines: the months, then a line for each weekday.
fn lines(first: Date, today: Date, weeks: usize, responses: &HashMap<Date, u64>) -> Vec<Text> {
    let most = responses.values().copied().max().unwrap_or(0);
    let day = |week: usize, weekday: usize| {
        first.checked_add((week as i64 * 7 + weekday as i64).days()).ok()
    };
    // The weeks in which a month begins, or the first one.
    let month = |week: usize| day(week, 6).map(|day| day.month());
    let begins = |week: &usize| week.checked_sub(1).is_none_or(|last| month(last) != month(*week));
    let begins: Vec<usize> = (0..weeks).filter(begins).collect();
    let mut months = String::new();
    for (number, week) in begins.iter().enumerate() {
        // A name of three letters needs room before the next. Without it, it is left out, so that
        // each name is above its own weeks.
        let room = begins.get(number + 1).map_or(weeks + 1, |next| *next) - week;
        if let (4.., Some(day)) = (room, day(*week, 6)) {
            months = format!("{months:week$}{}", day.strftime("%b"));
        }
    }
    let mut lines = vec![Text::styled(Style::Dim, format!("     {}", months.trim_end()))];
    for (weekday, name) in ["Mon", "", "Wed", "", "Fri", "", "Sun"].into_iter().enumerate() {
        let days = (0..weeks).filter_map(|week| day(week, weekday)).filter(|day| *day <= today);
        let shades: String =
            days.map(|day| shade(responses.get(&day).copied().unwrap_or(0), most)).collect();
        lines.push(Text::styled(Style::Dim, format!("{name:<3}  ")).with(Style::Good, shades));
    }
    lines
}

/// Returns the shade of a day. The scale is logarithmic, because one busy day would make all others
/// look empty.
fn shade(responses: u64, most: u64) -> char {
    let part = match responses {
        0 => return SHADES[0],
        responses => (responses as f64 + 1.0).ln() / (most as f64 + 1.0).ln(),
    };
    SHADES.get((part * 4.0).ceil().clamp(1.0, 4.0) as usize).copied().unwrap_or(SHADES[4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_its_place_and_shade() {
        let day = |text: &str| text.parse::<Date>().unwrap();
        let responses = HashMap::from([
            (day("2026-03-02"), 1),
            (day("2026-03-04"), 100),
            (day("2026-03-11"), 9),
        ]);
        assert_eq!(
            lines(day("2026-05-25"), day("2026-11-19"), 26, &responses)[0].render(false),
            "      Jun Jul Aug  Sep Oct Nov"
        );
        let lines = lines(day("2026-02-16"), day("2026-03-11"), 4, &responses);
        let text: Vec<String> = lines.iter().map(|line| line.render(false)).collect();
        assert_eq!(
            text,
            [
                "      Mar",
                "Mon  ··░·",
                "     ····",
                "Wed  ··█▒",
                "     ···",
                "Fri  ···",
                "     ···",
                "Sun  ···"
            ]
        );
    }
}
