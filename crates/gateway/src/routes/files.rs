//! The files that calls of tools read and changed.

use quipu_ledger::query::{FileFilter, Filter, file_uses, files};
use serde::Deserialize;

use super::sessions::refuse_empty;
use crate::answer::Answer;
use crate::call::{Call, Page, chosen};
use crate::problem::Problem;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    path: Option<String>,
    #[serde(default)]
    changed: bool,
    project: Option<String>,
    agent: Option<String>,
    format: Option<String>,
    since: Option<String>,
    until: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// Answers like `quipu files`, with `path` like `quipu files PATH`.
pub(crate) fn list(call: &Call<'_>) -> Result<Answer, Problem> {
    let asked: Options = call.options()?;
    let (since, until) = call.range(&asked.since, &asked.until)?;
    let agent = call.agent_or(asked.agent)?;
    let sessions = chosen(&asked.project, &agent, &asked.format)?;
    let sessions = sessions.unwrap_or_else(|| Filter { all: true, ..Filter::default() });
    let filter = FileFilter { sessions, since, until, changed: asked.changed };
    let page = Page { limit: asked.limit, cursor: asked.cursor };
    match &asked.path {
        Some(path) => {
            let found = file_uses(call.ledger, path, &filter)?;
            refuse_empty(call, found.len())?;
            call.page(&found, &page)
        }
        None => {
            let found = files(call.ledger, &filter)?;
            refuse_empty(call, found.len())?;
            call.page(&found, &page)
        }
    }
}
