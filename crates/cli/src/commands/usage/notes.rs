//! Notes below the usage table: prices, hidden groups, unfinished lines, requests that no
//! transcript records.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use quipu_ledger::wire::UsageReport;
use quipu_transcript::prices::AS_OF;

use super::{By, OwnPriced, groups};
use crate::commands::Context;
use crate::error::Result;
use crate::output::{Style, Text, dollars, short};

/// Limit for the number of models listed.
const MAX_NAMED: usize = 5;

pub(super) fn show(
    context: &mut Context,
    report: &UsageReport,
    by: By,
    hidden: usize,
    own: &OwnPriced,
    zone: &TimeZone,
) -> Result<()> {
    context.output.gap()?;
    let total = &report.total;
    if hidden > 0 {
        let which = match (by.is_time(), hidden) {
            (true, _) => "before",
            (false, 1) => "with a lower cost",
            (false, _) => "with lower costs",
        };
        let them = if hidden == 1 { "it" } else { "them" };
        let hidden = groups(by, hidden);
        let text = format!("the total includes {hidden} {which}; --all shows {them}");
        context.output.line(Text::styled(Style::Dim, text))?;
    }
    if total.unpriced_tokens > 0 {
        let text = format!(
            "* no price is known for {}: {} tokens are not in the cost",
            named(&total.unpriced_models),
            short(total.unpriced_tokens)
        );
        context.output.line(Text::styled(Style::Warning, text))?;
    }
    if total.unfinished_transcripts > 0 {
        let text = match total.unfinished_transcripts {
            1 => "1 transcript ends in an unfinished line, which is not counted".to_owned(),
            files => {
                format!("{files} transcripts end in unfinished lines, which are not counted")
            }
        };
        context.output.line(Text::styled(Style::Warning, text))?;
    }
    if total.without_line_tokens > 0 {
        let text = format!(
            "{} tokens ({}) are of requests that no transcript records, such as compactions and titles; \
             they come from the agents' own totals",
            short(total.without_line_tokens),
            dollars(total.without_line_usd)
        );
        context.output.line(Text::styled(Style::Dim, text))?;
    }
    let recorded = total.recorded_usd;
    let cost = total.cost_usd.unwrap_or(0.0);
    let mut origins = Vec::new();
    if recorded > 0.0 {
        origins.push(format!("{} as recorded by the agents", dollars(recorded)));
    }
    if own.usd > 0.0 {
        origins.push(format!("{} at your own prices for {}", dollars(own.usd), named(&own.models)));
    }
    let listed = cost - recorded - own.usd;
    if listed > 1e-9 || origins.is_empty() {
        origins.push(format!("{} at the list prices of {AS_OF}", dollars(listed.max(0.0))));
    }
    let mut text = origins.join(", ");
    if by.is_time() {
        text = format!("{text}; time zone {}", zone_name(zone));
    }
    context.output.line(Text::styled(Style::Dim, text))?;
    Ok(())
}

/// Lists the first few models.
fn named(models: &[String]) -> String {
    let names = models.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match models.len().saturating_sub(MAX_NAMED) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// Returns the zone's name, or its offset from UTC.
fn zone_name(zone: &TimeZone) -> String {
    match zone.iana_name() {
        Some(name) => name.to_owned(),
        None => Timestamp::now().to_zoned(zone.clone()).strftime("UTC%:z").to_string(),
    }
}
