//! Notes, scheduled jobs and senders.

use quipu_ledger::query;
use quipu_ledger::store::senders::{self, SenderFilter};
use quipu_ledger::wire::{CronJob, Note};
use quipu_transcript::routing::{AgentId, Channel};
use quipu_transcript::when;
use serde::Deserialize;

use super::sessions::refuse_empty;
use crate::answer::Answer;
use crate::call::{Call, Page};
use crate::problem::Problem;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListOptions {
    limit: Option<usize>,
    cursor: Option<String>,
}

impl ListOptions {
    fn page(self) -> Page {
        Page { limit: self.limit, cursor: self.cursor }
    }
}

/// Answers like `quipu notes`.
pub(crate) fn notes(call: &Call<'_>) -> Result<Answer, Problem> {
    let page = call.options::<ListOptions>()?.page();
    let notes = seen_notes(call)?;
    call.page(&notes, &page)
}

/// Answers like `quipu notes PATH`: the newest version, or that of a time.
pub(crate) fn note(call: &Call<'_>) -> Result<Answer, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {
        at: Option<String>,
    }
    let Options { at } = call.options()?;
    let at = at.map(|at| when::end(&at, &call.now())).transpose();
    let at = at.map_err(|error| Problem::bad_request(error.to_string()))?;
    let notes = seen_notes(call)?;
    let name = call.name("name");
    let note = match query::matching_notes(&notes, name).as_slice() {
        [note] => *note,
        [] => return Err(Problem::not_found(format!("no note matches `{name}`"))),
        several => {
            let path = |note: &&Note| format!("{}/{}", note.agent, note.name);
            let paths = several.iter().map(path).collect();
            let detail = format!("`{name}` matches {} notes", several.len());
            return Err(Problem::ambiguous(detail, paths));
        }
    };
    let versions = query::note_versions(call.ledger, &note.agent, &note.name)?;
    let version = match at {
        Some(at) => versions.iter().rfind(|version| version.time.is_some_and(|time| time < at)),
        None => versions.last(),
    };
    match version {
        Some(version) => call.object(version),
        None => Err(Problem::not_found(format!("`{}` did not exist at that time", note.name))),
    }
}

/// Returns the notes that the caller may see.
fn seen_notes(call: &Call<'_>) -> Result<Vec<Note>, Problem> {
    let mut notes = query::notes(call.ledger)?;
    refuse_empty(call, notes.len())?;
    notes.retain(|note| call.may_see(&note.agent));
    Ok(notes)
}

/// Returns the jobs that the caller may see.
fn seen_jobs(call: &Call<'_>) -> Result<Vec<CronJob>, Problem> {
    let mut jobs = query::cron_jobs(call.ledger)?;
    refuse_empty(call, jobs.len())?;
    jobs.retain(|job| call.may_see(job.agent.as_deref().unwrap_or_default()));
    Ok(jobs)
}

/// Answers like `quipu cron`.
pub(crate) fn jobs(call: &Call<'_>) -> Result<Answer, Problem> {
    let page = call.options::<ListOptions>()?.page();
    let jobs = seen_jobs(call)?;
    call.page(&jobs, &page)
}

/// Answers like `quipu cron JOB`.
pub(crate) fn runs(call: &Call<'_>) -> Result<Answer, Problem> {
    let page = call.options::<ListOptions>()?.page();
    let jobs = seen_jobs(call)?;
    let name = call.name("job");
    match query::matching_jobs(&jobs, name).as_slice() {
        [job] => call.page(&query::cron_runs(call.ledger, &job.job_id, None)?, &page),
        [] => Err(Problem::not_found(format!("no job matches `{name}`"))),
        several => {
            let ids = several.iter().map(|job| job.job_id.clone()).collect();
            let detail = format!("`{name}` matches {} jobs", several.len());
            Err(Problem::ambiguous(detail, ids))
        }
    }
}

/// Answers like `quipu senders list`.
pub(crate) fn senders(call: &Call<'_>) -> Result<Answer, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {
        agent: Option<String>,
        channel: Option<String>,
        limit: Option<usize>,
        cursor: Option<String>,
    }
    let Options { agent, channel, limit, cursor } = call.options()?;
    let bad = |error: &dyn std::error::Error| Problem::bad_request(error.to_string());
    let filter = SenderFilter {
        agent: call
            .agent_or(agent)?
            .map(|name| AgentId::parse(&name))
            .transpose()
            .map_err(|error| bad(&error))?,
        channel: channel
            .map(|name| Channel::parse(&name))
            .transpose()
            .map_err(|error| bad(&error))?,
    };
    let now = call.now().timestamp().as_millisecond();
    let found = senders::senders(call.ledger, &filter, now)?;
    call.page(&found, &Page { limit, cursor })
}
