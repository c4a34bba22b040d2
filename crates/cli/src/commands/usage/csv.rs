//! `quipu usage --csv`: one row per group, or per group and model.

use quipu_ledger::wire::{UsageLine, UsageReport};

use crate::commands::Context;
use crate::error::Result;

const COLUMNS: [&str; 13] = [
    "by",
    "group",
    "model",
    "responses",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "total_tokens",
    "cost_usd",
    "recorded_usd",
    "unpriced_tokens",
    "title",
];

/// Prints the rows without a total, which a spreadsheet would count twice.
pub(super) fn print(context: &mut Context, report: &UsageReport) -> Result<()> {
    context.output.csv(&COLUMNS.map(str::to_owned))?;
    for line in &report.lines {
        match line.by_model.is_empty() {
            true => context.output.csv(&row(line, line, ""))?,
            false => {
                for part in &line.by_model {
                    context.output.csv(&row(line, part, &part.group))?;
                }
            }
        }
    }
    Ok(())
}

fn row(group: &UsageLine, line: &UsageLine, model: &str) -> Vec<String> {
    let title = group.session.as_ref().and_then(|session| session.title.as_deref());
    vec![
        group.by.to_owned(),
        group.group.clone(),
        model.to_owned(),
        line.responses.to_string(),
        line.input_tokens.to_string(),
        line.output_tokens.to_string(),
        line.cache_read_tokens.to_string(),
        line.cache_write_tokens.to_string(),
        line.total_tokens.to_string(),
        line.cost_usd.map(|cost| cost.to_string()).unwrap_or_default(),
        line.recorded_usd.to_string(),
        line.unpriced_tokens.to_string(),
        title.unwrap_or_default().to_owned(),
    ]
}
