//! Scheduled jobs and their runs.
//!
//! Reads what the agents recorded. Never starts or changes a job.

use std::collections::BTreeMap;

use quipu_transcript::entry::Usage;
use rusqlite::Connection;
use serde_json::Value;

use crate::Result;
use crate::base::ids::Seq;
use crate::file::ledger::Ledger;
use crate::truth::chunks::RecordReader;
use crate::wire::{CronJob, CronRun};

/// Returns all jobs, including those that are known only from their runs. The job that runs next
/// comes first.
pub fn cron_jobs(ledger: &Ledger) -> Result<Vec<CronJob>> {
    let conn = ledger.conn();
    let mut jobs = listed(conn)?;
    let mut statement = conn.prepare_cached(
        "SELECT job_id, count(*), sum(status = 'error'), max(time), status, next_run_at
           FROM cron_runs GROUP BY job_id",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        // A job that is no longer in a list is known only from its runs.
        let job = jobs.entry(id.clone()).or_insert_with(|| CronJob {
            job_id: id,
            name: None,
            description: None,
            agent: None,
            schedule: String::new(),
            state: "gone",
            prompt: None,
            runs: 0,
            failed_runs: 0,
            last_run_at: None,
            last_status: None,
            next_run_at: None,
        });
        job.runs = row.get::<_, i64>(1)?.cast_unsigned();
        job.failed_runs = row.get::<_, Option<i64>>(2)?.unwrap_or(0).cast_unsigned();
        job.last_run_at = row.get(3)?;
        job.last_status = row.get(4)?;
        // A run has a newer time than a list that was written before it.
        job.next_run_at = job.next_run_at.max(row.get(5)?).filter(|_| job.state == "on");
    }
    let mut jobs: Vec<CronJob> = jobs.into_values().collect();
    jobs.sort_by(|a, b| {
        let rank = |job: &CronJob| (job.state != "on", job.next_run_at.unwrap_or(i64::MAX));
        rank(a)
            .cmp(&rank(b))
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| a.job_id.cmp(&b.job_id))
    });
    Ok(jobs)
}

fn listed(conn: &Connection) -> Result<BTreeMap<String, CronJob>> {
    let mut statement = conn.prepare_cached(
        "SELECT job_id, name, description, agent, schedule, is_enabled, prompt, next_run_at
           FROM cron_jobs ORDER BY entry",
    )?;
    let jobs = statement
        .query_map([], |row| {
            let id: String = row.get(0)?;
            let is_on: bool = row.get(5)?;
            let job = CronJob {
                job_id: id.clone(),
                name: row.get(1)?,
                description: row.get(2)?,
                agent: row.get(3)?,
                schedule: row.get(4)?,
                state: if is_on { "on" } else { "off" },
                prompt: row.get(6)?,
                runs: 0,
                failed_runs: 0,
                last_run_at: None,
                last_status: None,
                next_run_at: row.get::<_, Option<i64>>(7)?.filter(|_| is_on),
            };
            Ok((id, job))
        })?
        .collect::<Result<_, _>>()?;
    Ok(jobs)
}

/// Returns the runs of one job, newest first, at most `limit`.
pub fn cron_runs(ledger: &Ledger, job: &str, limit: Option<usize>) -> Result<Vec<CronRun>> {
    let conn = ledger.conn();
    let mut reader = RecordReader::new(conn);
    let mut statement = conn.prepare_cached(
        "SELECT id, job_id, coalesce(time, run_at), status, duration_ms, model, summary, error,
                session_id
           FROM cron_runs WHERE job_id = ?1
          ORDER BY time DESC, id DESC LIMIT ?2",
    )?;
    let limit = limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(-1));
    let mut rows = statement.query((job, limit))?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        runs.push(CronRun {
            total_tokens: tokens(&reader.read(Seq(row.get(0)?))?),
            job_id: row.get(1)?,
            time: row.get(2)?,
            status: row.get(3)?,
            duration_ms: row.get::<_, Option<i64>>(4)?.map(i64::cast_unsigned),
            model: row.get(5)?,
            summary: row.get(6)?,
            error_message: row.get(7)?,
            session_id: row.get(8)?,
        });
    }
    Ok(runs)
}

/// Returns the tokens that the line records. They are not added to any usage: the session of the
/// run has them.
fn tokens(line: &[u8]) -> Option<u64> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let usage = line.get("usage")?;
    let first = |names: &[&str]| names.iter().find_map(|name| usage.get(name)?.as_u64());
    let used = Usage {
        input: first(&["input", "input_tokens", "inputTokens"]).unwrap_or(0),
        output: first(&["output", "output_tokens", "outputTokens"]).unwrap_or(0),
        cache_read: first(&["cacheRead", "cache_read_tokens"]).unwrap_or(0),
        cache_write: first(&["cacheWrite", "cache_write_tokens"]).unwrap_or(0),
        ..Usage::default()
    };
    first(&["totalTokens", "total_tokens"]).or(Some(used.total()).filter(|total| *total > 0))
}

/// Returns the jobs that `name` matches: those with this name, or else those whose id begins with
/// it, or else those whose name contains it. Case is ignored.
pub fn matching_jobs<'a>(jobs: &'a [CronJob], name: &str) -> Vec<&'a CronJob> {
    let wanted = name.to_lowercase();
    let named = |fits: &dyn Fn(&str) -> bool| -> Vec<&'a CronJob> {
        let fits =
            |job: &&CronJob| job.name.as_deref().is_some_and(|name| fits(&name.to_lowercase()));
        jobs.iter().filter(fits).collect()
    };
    let by_id =
        |job: &&CronJob| !wanted.is_empty() && job.job_id.to_lowercase().starts_with(&wanted);
    let tries = [
        named(&|name| name == wanted),
        jobs.iter().filter(by_id).collect(),
        named(&|name| !wanted.is_empty() && name.contains(&wanted)),
    ];
    tries.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}
