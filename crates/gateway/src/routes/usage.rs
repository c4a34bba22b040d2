//! Tokens and cost.

use quipu_ledger::query::{self, UsageBy, UsageRequest, mark_windows};
use quipu_ledger::wire::UsageLine;
use quipu_transcript::{format, when};
use serde::{Deserialize, Serialize};

use super::sessions::refuse_empty;
use crate::answer::Answer;
use crate::call::{Call, chosen};
use crate::problem::Problem;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(default)]
    by: Group,
    #[serde(default)]
    by_model: bool,
    since: Option<String>,
    until: Option<String>,
    project: Option<String>,
    agent: Option<String>,
    format: Option<String>,
}

/// The groups. The answer has the same names.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Group {
    #[default]
    Day,
    Week,
    Month,
    Block,
    Session,
    Model,
    Project,
    Agent,
}

/// A usage report as it is answered.
#[derive(Serialize)]
struct Report<'a> {
    items: &'a [UsageLine],
    total: &'a UsageLine,
}

/// Answers like `quipu usage`.
pub(crate) fn usage(call: &Call<'_>) -> Result<Answer, Problem> {
    let asked: Options = call.options()?;
    let (since, until) = call.range(&asked.since, &asked.until)?;
    let mut format = asked.format.clone();
    if asked.by == Group::Block && format.is_none() && asked.agent.is_none() {
        format = format::window().map(|(name, _)| name.to_owned());
    }
    let agent = call.agent_or(asked.agent)?;
    let filter = chosen(&asked.project, &agent, &format)?;
    let zone = &call.settings.zone;
    let request = UsageRequest {
        by: match asked.by {
            Group::Day => UsageBy::Day,
            Group::Week => UsageBy::Week,
            Group::Month => UsageBy::Month,
            Group::Block => {
                UsageBy::Block { hours: format::window().map_or(5, |(_, hours)| hours) }
            }
            Group::Session => UsageBy::Session,
            Group::Model => UsageBy::Model,
            Group::Project => UsageBy::Project,
            Group::Agent => UsageBy::Agent,
        },
        // Days are whole.
        since: since.map(|since| when::start_of_day(since, zone).timestamp().as_millisecond()),
        until,
        sessions: filter.as_ref(),
        zone: zone.clone(),
        prices: &call.settings.prices,
        by_model: asked.by_model,
    };
    let report = query::usage(call.ledger, &request)?;
    let responses = report.as_ref().map_or(0, |report| report.total.models.len());
    refuse_empty(call, responses)?;
    let Some(mut report) = report else {
        return Err(Problem::not_found("no sessions match these filters"));
    };
    if asked.by == Group::Block {
        mark_windows(&mut report, &call.settings.limits, call.now().timestamp().as_millisecond());
    }
    call.object(&Report { items: &report.lines, total: &report.total })
}
