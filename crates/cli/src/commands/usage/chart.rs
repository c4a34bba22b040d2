//! Layout of the usage table: columns that fit, bars, days without usage.

use jiff::civil::Date;
use quipu_ledger::wire::UsageLine;

use crate::output::count;

/// The columns that fit.
pub(super) struct Layout {
    /// Width of a full bar, in columns; 0 for none.
    pub(super) bar: usize,
    /// True if input, output and cache tokens have their own columns.
    pub(super) has_kinds: bool,
    /// True if there is room for long column titles.
    pub(super) is_wide: bool,
    /// True if a session's id and last day are shown.
    pub(super) has_last: bool,
}

impl Layout {
    pub(super) fn of(width: Option<usize>, of_sessions: bool) -> Layout {
        let width = width.unwrap_or(usize::MAX);
        match of_sessions {
            true => Layout {
                bar: 0,
                has_kinds: width >= 110,
                is_wide: width >= 140,
                has_last: width >= 70,
            },
            false => Layout {
                bar: match width {
                    110.. => 24,
                    90.. => 18,
                    76.. => 12,
                    48.. => 10,
                    _ => 0,
                },
                has_kinds: width >= 76,
                is_wide: width >= 100,
                has_last: false,
            },
        }
    }
}

/// Returns a bar of at most `width` columns, in eighths. A part above 0 is never an empty bar.
pub(super) fn bar(part: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if part.is_nan() || part <= 0.0 {
        return String::new();
    }
    let eighths = ((part.min(1.0) * width as f64 * 8.0).round() as usize).max(1);
    let mut bar = "█".repeat(eighths / 8);
    bar.push_str(EIGHTHS.get(eighths % 8).unwrap_or(&""));
    bar
}

/// Limit for a run of days without usage that is filled in.
const MAX_GAP_DAYS: usize = 14;

/// Adds the days without usage between two others, so that the chart shows gaps. A long gap is one
/// row with the number of days.
pub(super) fn fill_gaps(lines: &mut Vec<UsageLine>) {
    let mut filled: Vec<UsageLine> = Vec::with_capacity(lines.len());
    for line in lines.drain(..) {
        let day = line.group.parse::<Date>().ok();
        let before = filled.last().and_then(|line| line.group.parse::<Date>().ok());
        if let (Some(before), Some(day)) = (before, day) {
            let gap = before.series(jiff::ToSpan::day(1)).skip(1).take_while(|date| *date < day);
            let gap: Vec<Date> = gap.take(MAX_GAP_DAYS + 1).collect();
            let empty = |group| UsageLine { by: line.by, group, ..UsageLine::default() };
            if gap.len() <= MAX_GAP_DAYS {
                filled.extend(gap.into_iter().map(|date| empty(date.to_string())));
            } else {
                // A long gap is one row.
                let days = before.until(day).map_or(0, |span| span.get_days() - 1);
                filled.push(empty(format!("… {}", count(days.unsigned_abs().into(), "day"))));
            }
        }
        filled.push(line);
    }
    *lines = filled;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_eighths() {
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(2.0, 4), "████");
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(0.53, 4), "██▏");
        assert_eq!(bar(0.0001, 4), "▏");
        assert_eq!(bar(0.0, 4), "");
        assert_eq!(bar(f64::NAN, 4), "");
    }

    #[test]
    fn days_between_are_shown() {
        let line = |group: &str| UsageLine { group: group.to_owned(), ..UsageLine::default() };
        let filled = |days: &[&str]| {
            let mut lines = days.iter().map(|day| line(day)).collect();
            fill_gaps(&mut lines);
            lines.into_iter().map(|line| line.group).collect::<Vec<_>>()
        };
        assert_eq!(
            filled(&["2026-02-27", "2026-03-01", "unknown"]),
            ["2026-02-27", "2026-02-28", "2026-03-01", "unknown"]
        );
        assert_eq!(
            filled(&["2025-02-27", "2026-03-01"]),
            ["2025-02-27", "… 366 days", "2026-03-01"]
        );
    }
}
