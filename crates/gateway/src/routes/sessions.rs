//! Lists of sessions and projects.

use quipu_ledger::ids::SessionRow;
use quipu_ledger::query::{self, Filter};
use quipu_ledger::wire::Session;
use quipu_transcript::project::Name;
use serde::Deserialize;

use crate::answer::{Answer, ListBuilder};
use crate::call::{Call, Page, format_named};
use crate::problem::Problem;

/// Answers like `quipu projects`.
pub(crate) fn projects(call: &Call<'_>) -> Result<Answer, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {
        name: Option<String>,
        limit: Option<usize>,
        cursor: Option<String>,
    }
    let Options { name, limit, cursor } = call.options()?;
    let (project, agent) = (name.as_deref().map(Name::new), call.agent_or(None)?);
    let filter = Filter { project, agent, ..Filter::default() };
    let projects = query::projects(call.ledger, &filter)?;
    refuse_empty(call, projects.len())?;
    call.page(&projects, &Page { limit, cursor })
}

/// Answers like `quipu sessions`.
pub(crate) fn list(call: &Call<'_>) -> Result<Answer, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {
        project: Option<String>,
        agent: Option<String>,
        format: Option<String>,
        since: Option<String>,
        until: Option<String>,
        channel: Option<String>,
        #[serde(default)]
        all: bool,
        #[serde(default)]
        human: bool,
        limit: Option<usize>,
        cursor: Option<String>,
    }
    let asked: Options = call.options()?;
    let (since, until) = call.range(&asked.since, &asked.until)?;
    let page = Page { limit: asked.limit, cursor: asked.cursor };
    let filter = Filter {
        project: asked.project.as_deref().map(Name::new),
        agent: call.agent_or(asked.agent)?,
        format: format_named(&asked.format)?,
        since,
        until,
        channel: asked.channel,
        all: asked.all,
        human: asked.human,
    };
    let skipped = page.skipped(call)?;
    let wanted = skipped.saturating_add(page.limit());
    let found = query::sessions(call.ledger, &filter, Some(wanted))?;
    refuse_empty(call, found.total)?;
    let costs = query::costs(call.ledger, &call.settings.prices)?;
    let mut answer = ListBuilder::new(page.limit());
    for (mut session, row) in found.sessions.into_iter().zip(found.rows).skip(skipped) {
        if let Some(row) = row {
            costs.add_to(row, &mut session);
        }
        if !answer.add(&session)? {
            break;
        }
    }
    let end = skipped + answer.len();
    let next = (end < found.total).then(|| call.list().cursor(&end.to_string()));
    answer.finish(Some(found.total as u64), next, call.freshness)
}

/// Answers with one session, as the list has it.
pub(crate) fn one(call: &Call<'_>) -> Result<Answer, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {}
    let Options {} = call.options()?;
    call.object(&named(call)?.1)
}

/// Returns the session that the path names, as the list has it.
pub(super) fn named(call: &Call<'_>) -> Result<(SessionRow, Session), Problem> {
    let row = call.session()?;
    let session = query::summary_of(call.ledger, row)?;
    let mut session = session.ok_or_else(|| Problem::not_found("the session was forgotten"))?;
    query::costs(call.ledger, &call.settings.prices)?.add_to(row, &mut session);
    Ok((row, session))
}

/// Fails if a list is empty only because the projection is being rebuilt.
pub(super) fn refuse_empty(call: &Call<'_>, items: usize) -> Result<(), Problem> {
    if items == 0 {
        quipu_ledger::freshness::refuse_if_behind(call.ledger)?;
    }
    Ok(())
}
