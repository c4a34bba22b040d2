//! `quipu statusline`: one line for Claude Code's status line.
//!
//! Never collects, and always prints a line: what cannot be read is left out, because an error
//! would leave the status line empty.

use std::io::Read;

use jiff::Timestamp;
use quipu_ledger::query::RecentRequest;
use quipu_ledger::wire::RecentUsage;
use quipu_transcript::format;
use serde::Deserialize;
use serde_json::Value;

use super::Context;
use super::usage::blocks;
use crate::error::{CommandError, Result};
use crate::output::{Output, clock, dollars, short};
use crate::zone;

/// Print one line for Claude Code's status line
///
/// Reads the JSON that Claude Code passes on standard input, and prints the cost of
/// the session and of the day, how much of the context is used, and the windows of
/// the plan. Reads the ledger without collecting first; the time it takes does not
/// grow with the ledger. In ~/.claude/settings.json:
///
///   "statusLine": { "type": "command", "command": "quipu statusline" }
///
/// Example:
///   echo '{"cost":{"total_cost_usd":0.42}}' | quipu statusline
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

/// Limit for the input, in bytes. Claude Code writes about 2 kB.
const MAX_INPUT_BYTES: u64 = 1 << 20;

/// The parts of the input that are printed. All are optional: releases differ.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Input {
    model: Value,
    cost: Value,
    context_window: Value,
    rate_limits: Value,
}

pub(super) fn run(_: &Args, context: &mut Context) -> Result<()> {
    let mut text = String::new();
    // Input that is not JSON counts as no input.
    let _ = std::io::stdin().lock().take(MAX_INPUT_BYTES).read_to_string(&mut text);
    let input: Input = serde_json::from_str(&text).unwrap_or_default();
    let recent = recent(context).unwrap_or_default();
    let line = line(&input, &recent, context, Timestamp::now().as_millisecond());
    Ok(context.output.line(line)?)
}

/// Prints what is wrong with the configuration instead of the line.
pub(super) fn without_settings(error: &CommandError, output: &mut Output) -> Result<()> {
    Ok(output.verbatim(&format!("quipu: {}", error.causes().next().unwrap_or_default()))?)
}

/// Returns the usage of today, or `None` if the ledger cannot be read now.
fn recent(context: &Context) -> Option<RecentUsage> {
    let ledger = context.open_if_any().ok()??;
    let now = zone::now();
    let day = now.start_of_day().ok()?.timestamp().as_millisecond();
    let request = RecentRequest {
        now: now.timestamp().as_millisecond(),
        day,
        window: format::window(),
        prices: &context.prices(),
    };
    quipu_ledger::query::recent(&ledger, &request).ok()
}

fn line(input: &Input, recent: &RecentUsage, context: &Context, now: i64) -> String {
    let mut parts = Vec::new();
    let model = input.model.get("display_name").and_then(Value::as_str);
    parts.extend(model.map(str::to_owned));
    let session = input.cost.get("total_cost_usd").and_then(Value::as_f64);
    parts.extend(session.map(|usd| format!("{} session", dollars(usd))));
    parts.extend(recent.day_usd.map(|usd| format!("{} today", dollars(usd))));
    let used = input.context_window.get("used_percentage").and_then(Value::as_f64);
    parts.extend(used.map(|percent| format!("{percent:.0}% context")));
    let limits = [("five_hour", "5h"), ("seven_day", "7d")];
    let mut known = limits.into_iter().filter_map(|(key, name)| {
        let limit = input.rate_limits.get(key)?;
        let used = limit.get("used_percentage")?.as_f64()?;
        let until = limit.get("resets_at").and_then(Value::as_i64).filter(|_| name == "5h");
        let until = until.map(|seconds| format!(" until {}", clock(seconds.saturating_mul(1000))));
        Some(format!("{name} {used:.0}%{}", until.unwrap_or_default()))
    });
    match (known.next(), &recent.window) {
        (Some(first), _) => parts.extend(std::iter::once(first).chain(known)),
        (None, Some(window)) => {
            let limits = &context.settings.limits.value;
            let mut text = match (limits.block_usd, limits.block_tokens) {
                (Some(limit), _) => format!("5h {} of {}", dollars(window.usd), dollars(limit)),
                (None, Some(limit)) => {
                    format!("5h {} of {} tokens", short(window.tokens), short(limit))
                }
                (None, None) => format!("5h {}", dollars(window.usd)),
            };
            text.push_str(&format!(", {}", blocks::left(window.ends_at - now)));
            parts.push(text);
        }
        (None, None) => {}
    }
    match parts.is_empty() {
        true => "quipu".to_owned(),
        false => parts.join(" · "),
    }
}
