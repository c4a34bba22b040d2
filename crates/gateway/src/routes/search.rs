//! Full-text search.

use std::ops::ControlFlow;

use quipu_ledger::search::{Order, SearchRequest, search_each};
use quipu_transcript::search::query::{self, Condition, Filter};
use serde::Deserialize;

use super::sessions::refuse_empty;
use crate::answer::{Answer, ListBuilder};
use crate::call::{Call, Page};
use crate::problem::Problem;

/// The largest number of hits that can be paged through. Each page runs the whole search again.
const MAX_HITS: usize = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(default)]
    q: String,
    exact: Option<String>,
    regex: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    recent: bool,
    #[serde(default)]
    context: usize,
    project: Option<String>,
    since: Option<String>,
    until: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// Answers like `quipu search`.
pub(crate) fn search(call: &Call<'_>) -> Result<Answer, Problem> {
    let asked: Options = call.options()?;
    let mut query = query::parse_or_literal(&asked.q, &call.now())
        .map_err(|error| Problem::bad_request(error.to_string()))?;
    let (since, until) = call.range(&asked.since, &asked.until)?;
    let is_empty_query = query.is_empty() && since.is_none() && until.is_none();
    let is_empty_query = is_empty_query && asked.project.is_none();
    let more = [
        asked.project.map(Condition::Project),
        since.map(Condition::Since),
        until.map(Condition::Until),
        call.agent.map(|agent| Condition::OnlyAgent(agent.to_owned())),
    ];
    let more = more.into_iter().flatten().map(|condition| Filter { is_negated: false, condition });
    query.filters.extend(more);
    let texts = [&asked.exact, &asked.regex];
    let is_empty_text = texts.into_iter().flatten().any(String::is_empty);
    if is_empty_text || (is_empty_query && texts.into_iter().all(Option::is_none)) {
        return Err(Problem::bad_request("nothing to search for: give `q`, `exact` or `regex`"));
    }
    let page = Page { limit: asked.limit, cursor: asked.cursor };
    let skipped = page.skipped(call)?;
    if skipped >= MAX_HITS {
        return Err(Problem::bad_cursor());
    }
    let request = SearchRequest {
        query,
        exact: asked.exact,
        regex: asked.regex,
        ignores_case: asked.ignore_case,
        order: if asked.recent { Order::Newest } else { Order::Best },
        limit: Some(skipped + page.limit()),
        around: asked.context,
    };
    let mut hits = ListBuilder::new(page.limit());
    let (mut seen, mut failed) = (0, None);
    let answer = search_each(call.ledger, &request, &mut |_, hit| {
        seen += 1;
        if seen <= skipped {
            return ControlFlow::Continue(());
        }
        match hits.add(&hit) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(problem) => {
                failed = Some(problem);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(problem) = failed {
        return Err(problem);
    }
    let total = answer.total + answer.with_other_endings;
    refuse_empty(call, usize::try_from(total).unwrap_or(usize::MAX))?;
    let end = skipped + hits.len();
    let has_more = (end as u64) < total && end < MAX_HITS && hits.len() > 0;
    let next = has_more.then(|| call.list().cursor(&end.to_string()));
    hits.finish(Some(total), next, call.freshness)
}
