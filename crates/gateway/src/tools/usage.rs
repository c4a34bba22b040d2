//! Tokens and cost.

use quipu_ledger::query::{self, Filter, UsageBy, UsageRequest};
use quipu_ledger::wire::UsageLine;
use quipu_transcript::project::Name;
use quipu_transcript::when;
use schemars::JsonSchema;
use serde::Deserialize;

use super::reply::{Reply, name};
use super::{Object, ToolCall, options};
use crate::problem::Problem;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// The groups: day (the default), week, month, model, project, agent or session
    by: Option<String>,
    /// Only this project: a part of its name or path
    project: Option<String>,
    /// Only since then: 3d, monday, 2026-11-01
    since: Option<String>,
    /// Only until the end of that day
    until: Option<String>,
    /// Size of the answer in KB: 8, at most 64
    kb: Option<usize>,
}

pub(super) fn usage(call: &ToolCall<'_>, given: Object) -> Result<Reply, Problem> {
    let asked: Options = options(given)?;
    let mut reply = Reply::new(asked.kb)?;
    let (since, until) = call.range(&asked.since, &asked.until)?;
    let by = match asked.by.as_deref().unwrap_or("day") {
        "day" => UsageBy::Day,
        "week" => UsageBy::Week,
        "month" => UsageBy::Month,
        "model" => UsageBy::Model,
        "project" => UsageBy::Project,
        "agent" => UsageBy::Agent,
        "session" => UsageBy::Session,
        other => return Err(Problem::bad_request(format!("`by` cannot be `{}`", name(other)))),
    };
    let zone = &call.settings.zone;
    let agent = call.agent(None)?;
    let is_chosen = asked.project.is_some() || agent.is_some();
    let project = asked.project.as_deref().map(Name::new);
    let sessions = is_chosen.then(|| Filter { project, agent, all: true, ..Filter::default() });
    let request = UsageRequest {
        by,
        since: since.map(|since| when::start_of_day(since, zone).timestamp().as_millisecond()),
        until,
        sessions: sessions.as_ref(),
        zone: zone.clone(),
        prices: &call.settings.prices,
        by_model: false,
    };
    let Some(report) = query::usage(call.ledger, &request)? else {
        reply.say("No session matches.");
        return Ok(reply);
    };
    // Groups by time are in order of time; the newest matter most.
    let is_by_time = matches!(by, UsageBy::Day | UsageBy::Week | UsageBy::Month);
    let mut lines: Vec<String> = report.lines.iter().map(line).collect();
    if is_by_time {
        lines.reverse();
    }
    let all = lines.len();
    let shown = reply.quote_lines(lines);
    let order = if is_by_time { "the newest first" } else { "the most expensive first" };
    let cut = match shown == all {
        true => String::new(),
        false => format!(" Only {shown} fit: ask for more `kb`, or a shorter time."),
    };
    let missing = call.missing().map(|missing| format!(" {missing}")).unwrap_or_default();
    reply.say_first(format!("{}; {all} groups, {order}.{cut}{missing}", line(&report.total)));
    Ok(reply)
}

fn line(line: &UsageLine) -> String {
    let cost = match line.cost_usd {
        Some(cost) => format!("${cost:.2}"),
        None => "no known price".to_owned(),
    };
    format!(
        "{}: {cost} · {} tokens ({} input, {} output, {} cache read, {} cache write) · {} responses",
        line.group,
        line.total_tokens,
        line.input_tokens,
        line.output_tokens,
        line.cache_read_tokens,
        line.cache_write_tokens,
        line.responses
    )
}
