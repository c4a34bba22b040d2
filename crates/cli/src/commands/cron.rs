//! `quipu cron`: scheduled jobs and their runs.

use quipu_ledger::wire::{CronJob, CronRun};

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{
    Column, ShortIds, Style, Text, count, elapsed, minute, number, short, short_id,
};
use crate::reading;

/// List scheduled jobs, or show the runs of one
///
/// A job is on, off, or gone (no longer in the agent's list). JOB is a name, a
/// part of a name, or the beginning of an id; with it, the job's runs are
/// listed, the newest first.
///
/// Examples:
///   quipu cron
///   quipu cron "morning"
///   quipu cron morning --json | jq 'select(.status == "error")'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Show the runs of this job
    #[arg(value_name = "JOB")]
    job: Option<String>,

    /// Show at most N runs; 0 for all [default: 20; all with --json]
    #[arg(long, short = 'n', value_name = "N", requires = "job")]
    limit: Option<usize>,

    #[command(flatten)]
    reading: reading::Args,
}

/// Number of runs that are shown without `-n`.
pub(super) const DEFAULT_RUNS: usize = 20;

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let reading = reading::open(context, args.reading)?;
    let jobs = quipu_ledger::query::cron_jobs(&reading.ledger)?;
    if jobs.is_empty() {
        reading.refuse_if_behind()?;
    }
    let Some(name) = &args.job else { return list(context, &reading, &jobs) };
    let job = find(&jobs, name)?;
    let limit = match args.limit {
        Some(0) => None,
        None if context.is_json => None,
        limit => Some(limit.unwrap_or(DEFAULT_RUNS)),
    };
    let runs = quipu_ledger::query::cron_runs(&reading.ledger, &job.job_id, limit)?;
    if context.is_json {
        return runs.iter().try_for_each(|run| reading.json(context, run));
    }
    context.output.page()?;
    show_job(context, job)?;
    if !runs.is_empty() {
        context.output.gap()?;
        show_runs(context, &reading.short_ids()?, &runs)?;
    }
    let more = job.runs.saturating_sub(runs.len() as u64);
    if more > 0 {
        let more = format!("and {}; `-n 0` lists all", count(more, "older run"));
        context.output.line(Text::styled(Style::Dim, more))?;
    }
    Ok(())
}

fn list(context: &mut Context, reading: &reading::Reading, jobs: &[CronJob]) -> Result<()> {
    if context.is_json {
        return jobs.iter().try_for_each(|job| reading.json(context, job));
    }
    if jobs.is_empty() {
        context.output.line("no scheduled jobs")?;
        return Ok(());
    }
    context.output.page()?;
    let is_wide = context.output.width().is_none_or(|width| width >= 80);
    let has_next = context.output.width().is_none_or(|width| width >= 100);
    let mut columns = vec![Column::long("job"), Column::words("state")];
    if is_wide {
        // A schedule may be long; the job's name matters more.
        columns = vec![Column::words("job"), Column::words("state"), Column::title("schedule")];
    }
    let has_runs = context.output.width().is_none_or(|width| width >= 50);
    if has_runs {
        columns.push(Column::numbers("runs"));
    }
    columns.push(Column::words("last"));
    if has_next {
        columns.push(Column::words("next"));
    }
    let rows = jobs
        .iter()
        .map(|job| {
            let mut row = vec![Text::plain(display_name(job)), state(job)];
            if is_wide {
                row.push(Text::plain(&job.schedule));
            }
            if has_runs {
                row.push(Text::plain(number(job.runs)));
            }
            row.push(last(job));
            if has_next {
                row.push(Text::styled(Style::Dim, job.next_run_at.map(minute).unwrap_or_default()));
            }
            row
        })
        .collect();
    context.output.table(0, &columns, rows)?;
    Ok(())
}

fn show_job(context: &mut Context, job: &CronJob) -> Result<()> {
    let heading =
        Text::styled(Style::Bold, display_name(job)).with(Style::Dim, format!("  {}", job.job_id));
    context.output.line(heading)?;
    let mut facts = vec![("state", state(job))];
    let mut add = |label, text: Option<String>| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            facts.push((label, Text::plain(text)));
        }
    };
    add("schedule", Some(job.schedule.clone()));
    add("next", job.next_run_at.map(minute));
    add("agent", job.agent.clone());
    add("for", job.description.clone());
    add("prompt", job.prompt.clone());
    let runs = count(job.runs, "run");
    facts.push((
        "runs",
        match job.failed_runs {
            0 => Text::plain(runs),
            errors => Text::plain(runs).and(", ").with(Style::Warning, format!("{errors} failed")),
        },
    ));
    context.output.facts(2, &facts)?;
    Ok(())
}

fn show_runs(context: &mut Context, ids: &ShortIds, runs: &[CronRun]) -> Result<()> {
    let is_wide = context.output.width().is_none_or(|width| width >= 80);
    let mut columns = vec![Column::words("ended"), Column::words("status")];
    if is_wide {
        let more = [Column::numbers("took"), Column::numbers("tokens"), Column::words("session")];
        columns.extend(more);
    }
    columns.push(Column::prose("result"));
    let rows = runs
        .iter()
        .map(|run| {
            let status = run.status.as_deref().unwrap_or("unknown");
            let mut row = vec![
                Text::plain(run.time.map(minute).unwrap_or_default()),
                Text::styled(status_style(status), status),
            ];
            if is_wide {
                row.push(Text::plain(run.duration_ms.map(duration).unwrap_or_default()));
                row.push(Text::plain(run.total_tokens.map(short).unwrap_or_default()));
                let session = run.session_id.as_deref().map(|id| ids.of(id)).unwrap_or_default();
                row.push(Text::styled(Style::Good, session));
            }
            let words = run.error_message.as_deref().or(run.summary.as_deref()).unwrap_or_default();
            row.push(Text::plain(words));
            row
        })
        .collect();
    context.output.table(0, &columns, rows)?;
    Ok(())
}

/// Returns the job that `name` matches.
fn find<'a>(jobs: &'a [CronJob], name: &str) -> Result<&'a CronJob> {
    let found = quipu_ledger::query::matching_jobs(jobs, name);
    let mut error = match found.as_slice() {
        [job] => return Ok(job),
        [] => CommandError::new(format!("no job matches `{name}`"))
            .hint("`quipu cron` lists all jobs"),
        several => {
            let what = format!("`{name}` matches {}", count(several.len() as u64, "job"));
            several.iter().take(MAX_NAMED).fold(
                CommandError::new(what).hint("give more of the name or id:"),
                |error, job| {
                    error.hint(format!("  {}  {}", short_id(&job.job_id), display_name(job)))
                },
            )
        }
    };
    error.kind = Kind::NoMatch;
    Err(error)
}

/// Limit for the number of jobs listed in an error.
const MAX_NAMED: usize = 8;

fn display_name(job: &CronJob) -> &str {
    job.name.as_deref().unwrap_or(&job.job_id)
}

fn state(job: &CronJob) -> Text {
    let style = if job.state == "on" { Style::Good } else { Style::Dim };
    Text::styled(style, job.state)
}

/// Describes the last run: how it ended, and when.
fn last(job: &CronJob) -> Text {
    let Some(time) = job.last_run_at else { return Text::styled(Style::Dim, "never") };
    let status = job.last_status.as_deref().unwrap_or("unknown");
    Text::styled(status_style(status), status).with(Style::Dim, format!(", {}", elapsed(time)))
}

fn status_style(status: &str) -> Style {
    match status {
        "ok" => Style::Good,
        "error" => Style::Bad,
        _ => Style::Plain,
    }
}

/// Formats a duration: `900 ms`, `24 s`, `3 min`.
fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..1000 => format!("{milliseconds} ms"),
        1000..120_000 => format!("{} s", milliseconds / 1000),
        _ => format!("{} min", number(milliseconds / 60_000)),
    }
}
