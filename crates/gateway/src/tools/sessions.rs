//! The list of past sessions.

use quipu_ledger::query::{self, Filter};
use quipu_transcript::project::Name;
use schemars::JsonSchema;
use serde::Deserialize;

use super::reply::{Reply, cut};
use super::{Object, ToolCall, marks, options};
use crate::problem::Problem;

/// The number of sessions of a reply of the usual size.
const SESSIONS: usize = 20;

/// The longest title, in bytes.
const MAX_TITLE_BYTES: usize = 120;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// Only this project: a part of its name or path
    project: Option<String>,
    /// Only this agent: claude, openclaw, main
    agent: Option<String>,
    /// Only those active since then: 3d, monday, 2026-11-01
    since: Option<String>,
    /// Only those last active until the end of that day
    until: Option<String>,
    /// Leave out this many, to go on
    #[serde(default)]
    skip: usize,
    /// Size of the answer in KB: 8, at most 64
    kb: Option<usize>,
}

pub(super) fn sessions(call: &ToolCall<'_>, given: Object) -> Result<Reply, Problem> {
    let asked: Options = options(given)?;
    let mut reply = Reply::new(asked.kb)?;
    let (since, until) = call.range(&asked.since, &asked.until)?;
    let filter = Filter {
        project: asked.project.as_deref().map(Name::new),
        agent: call.agent(asked.agent)?,
        since,
        until,
        all: true,
        ..Filter::default()
    };
    let page = SESSIONS * reply.scale();
    let limit = asked.skip.saturating_add(page);
    let found = query::sessions(call.ledger, &filter, Some(limit))?;
    let (total, listed) = (found.total, found.sessions);
    let lines = listed.iter().skip(asked.skip).take(page).map(|session| {
        let title = session.title.as_deref().unwrap_or_default();
        let is_asking = call.caller.session.as_deref() == Some(session.session_id.as_str());
        format!(
            "{} · {} · {} turns · {} · {}{}{} · {}",
            session.session_id,
            call.time(session.updated_at),
            session.turns,
            session.project,
            marks::program(&session.format, Some(&session.agent)),
            marks::of_session(call, session),
            if is_asking { " · the one that asks" } else { "" },
            cut(title, MAX_TITLE_BYTES)
        )
    });
    let shown = reply.quote_lines(lines);
    let end = asked.skip + shown;
    let first = match shown {
        0 if total == 0 => "No session matches.".to_owned(),
        0 => format!("There are {total} sessions and none after the first {}.", asked.skip),
        _ => format!(
            "{total} sessions; these are {} to {end}: id, last activity, turns, project, program, title.",
            asked.skip + 1
        ),
    };
    reply.say_first(match call.missing() {
        Some(missing) => format!("{first} {missing}"),
        None => first,
    });
    if shown > 0 && end < total {
        reply.say(format!("More: call `sessions` again with \"skip\": {end}."));
    }
    Ok(reply)
}
