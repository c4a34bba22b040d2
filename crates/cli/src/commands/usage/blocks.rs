//! Prints the windows of a plan: which of them is active, and what is left of a limit.

use jiff::Timestamp;
use quipu_ledger::wire::UsageReport;

use crate::commands::Context;
use crate::error::Result;
use crate::output::{Style, Text, clock, dollars, short};

/// Prints how long the active window lasts, and what is left of the limits.
pub(super) fn show(context: &mut Context, report: &UsageReport) -> Result<()> {
    let now = Timestamp::now().as_millisecond();
    let active = report.lines.iter().filter_map(|line| line.block.as_ref()).find(|it| it.is_active);
    context.output.gap()?;
    let Some(block) = active else {
        let text = Text::styled(Style::Dim, "no window is active; the next begins with a response");
        return Ok(context.output.line(text)?);
    };
    let mut text = format!("now: until {}, {}", clock(block.ends_at), left(block.ends_at - now));
    if let Some(usd) = block.left_usd {
        text.push_str(&format!("; {} of your limit left", dollars(usd)));
    }
    if let Some(tokens) = block.left_tokens {
        text.push_str(&format!("; {} tokens of your limit left", short(tokens)));
    }
    Ok(context.output.line(Text::plain(text))?)
}

/// Formats the time that is left: `2 h 10 min left`.
pub(crate) fn left(milliseconds: i64) -> String {
    let minutes = milliseconds.max(0) / 60_000;
    match minutes / 60 {
        0 => format!("{minutes} min left"),
        hours => format!("{hours} h {:02} min left", minutes % 60),
    }
}
