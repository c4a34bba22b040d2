//! Scheduled jobs and their runs.

use quipu_ledger::restore::Generations;

use crate::home::*;

const JOBS: &str = ".openclaw/cron/jobs.json";
const RUNS: &str = ".openclaw/cron/runs/5145dbcf.jsonl";

fn jobs(prompt: &str, every_ms: u64) -> String {
    format!(
        r#"{{"jobs":[{{"id":"5145dbcf","name":"Meeting Intel","prompt":"{prompt}","schedule":{{"kind":"interval","everyMs":{every_ms}}},"enabled":true,"createdAt":"2026-01-31T07:00:00Z"}}]}}"#
    )
}

const SPEC: &str = r#"{"timestamp":"2026-01-31T07:30:00.000Z","jobId":"5145dbcf","action":"finished","status":"ok","summary":"No upcoming meetings","durationMs":12500,"nextRunAt":"2026-01-31T07:45:00.000Z"}
"#;

const REAL: &str = r#"{"ts":1769845500000,"jobId":"5145dbcf","action":"finished","status":"error","error":"gateway unreachable","runAtMs":1769845490000,"durationMs":9000,"nextRunAtMs":1769846400000,"sessionId":"s1","sessionKey":"agent:main:cron:5145dbcf","model":"claude-opus-4-5","provider":"anthropic","usage":{"input":5,"output":6}}
"#;

#[test]
fn r6_runs_are_read_in_both_shapes() {
    let home = Home::quick();
    home.write(RUNS, SPEC);
    home.sync_and_check();
    home.append(RUNS, REAL);
    let report = home.sync_and_check();
    assert_eq!((report.records_added, report.lines_parsed), (1, 1), "only what is new is read");
    assert_eq!(
        home.all(
            "SELECT job_id, status, time, run_at, duration_ms, next_run_at, summary, error,
                    session_id, session_key, model FROM cron_runs ORDER BY id"
        ),
        [
            "'5145dbcf'|'error'|1769845500000|1769845490000|9000|1769846400000|NULL|'gateway unreachable'|'s1'|'agent:main:cron:5145dbcf'|'claude-opus-4-5'",
            "'5145dbcf'|'ok'|1769844600000|NULL|12500|1769845500000|'No upcoming meetings'|NULL|NULL|NULL|NULL",
        ]
    );
    assert_eq!((home.hits("upcoming"), home.hits("unreachable")), (1, 1));
    home.assert_restores_all(&[RUNS]);
    assert!(home.problems().is_empty(), "{:?}", home.problems());
}

/// A run is not a session, and its usage is counted in the session that ran.
#[test]
fn r6_the_usage_of_a_run_is_not_counted_twice() {
    let home = Home::quick();
    home.write(RUNS, REAL);
    home.write(
        ".openclaw/agents/main/sessions/s1.jsonl",
        "{\"role\":\"assistant\",\"content\":\"done\",\"usage\":{\"input\":5,\"output\":6}}\n",
    );
    home.sync_and_check();
    assert_eq!(home.all("SELECT session_id FROM sessions"), ["'s1'"]);
    assert_eq!(home.all("SELECT sum(output_tokens) FROM usage WHERE is_counted"), ["6"]);
    assert_eq!(home.all("SELECT session FROM entries WHERE type = 'cron_run'"), ["NULL"]);
    assert_eq!(
        home.one::<i64>("SELECT count(*) FROM cron_runs JOIN sessions USING (session_id)"),
        1
    );
}

#[test]
fn r6_jobs_are_those_of_the_newest_version() {
    let home = Home::quick();
    let now = "SELECT job_id, name, schedule, prompt, is_enabled, created_at FROM cron_jobs";
    home.write(JOBS, jobs("Check calendars", 900_000));
    home.sync_and_check();
    let first = ["'5145dbcf'|'Meeting Intel'|'every 15 minutes'|'Check calendars'|1|1769842800000"];
    assert_eq!(home.all(now), first);
    assert_eq!(home.hits("calendars"), 1);

    home.replace(JOBS, jobs("Check mails", 3_600_000));
    home.sync_and_check();
    assert_eq!(
        home.all(now),
        ["'5145dbcf'|'Meeting Intel'|'every hour'|'Check mails'|1|1769842800000"]
    );
    // Text of the older version is still found, and every version is restored.
    assert_eq!((home.hits("calendars"), home.hits("mails")), (1, 1));
    assert_eq!(home.restored(Generations::All).len(), 2);
    let newest = "SELECT count(*) FROM documents WHERE part = 'cron_jobs' AND id NOT IN (SELECT seq FROM absent)";
    assert_eq!(home.one::<i64>(newest), 1);

    // The first version again: shown as the newest, stored once, found once.
    home.replace(JOBS, jobs("Check calendars", 900_000));
    home.sync_and_check();
    assert_eq!(home.all(now), first);
    assert_eq!(home.hits("calendars"), 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM documents"), 2);
    assert_eq!(home.one::<i64>(newest), 1);
    let absent = "SELECT bytes FROM documents WHERE id IN (SELECT seq FROM absent)";
    assert_eq!(home.all(absent), [jobs("Check mails", 3_600_000).len().to_string()]);
    assert_eq!(home.restored(Generations::All).len(), 3);
    home.assert_restores_all(&[JOBS]);
}

#[test]
fn r6_a_list_that_cannot_be_read_changes_no_job() {
    let home = Home::quick();
    home.write(JOBS, jobs("Check calendars", 900_000));
    home.sync();
    for broken in ["", "{\"jobs\":[", "7", "{\"jobs\":\"none\"}"] {
        home.replace(JOBS, broken);
        home.sync_and_check();
        assert_eq!(home.one::<i64>("SELECT count(*) FROM cron_jobs"), 1, "{broken}");
    }
    home.assert_restores_all(&[JOBS]);
    home.replace(JOBS, "{\"jobs\":[]}");
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM cron_jobs"), 0);
    assert_eq!(home.problems().get("opaque"), Some(&1));
}

/// Newer releases move jobs and runs into their database and leave the files behind.
#[test]
fn r6_migrated_files_are_the_same_sources() {
    let home = Home::quick();
    home.write(JOBS, jobs("Check calendars", 900_000));
    home.write(RUNS, SPEC);
    home.sync();
    home.rename(JOBS, &format!("{JOBS}.migrated"));
    home.rename(RUNS, &format!("{RUNS}.migrated"));
    home.write(".openclaw/state/openclaw.sqlite", "SQLite format 3\0");
    let report = home.sync_and_check();
    assert_eq!((report.renamed_sources, report.gone_sources, report.records_added), (2, 0, 0));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM cron_jobs"), 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM cron_runs"), 1);
    let state = report.skipped.iter().find(|skipped| skipped.paths == ["state/"]).unwrap();
    assert!(state.reason.contains("never opened") && state.reason.contains("cron"), "{state:?}");

    // A copy beside it adds nothing.
    home.write(RUNS, SPEC);
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM cron_runs"), 1);
    assert_eq!(home.hits("upcoming"), 1);
}

/// Damaged lines lose nothing and do not hide other lines.
#[test]
fn r6_damaged_runs_hide_no_others() {
    let home = Home::quick();
    let welded = format!("{}{}", SPEC.trim_end(), REAL);
    home.write(RUNS, format!("{{\"ts\":17698\n\0\0\0\n{welded}[1]\n{{}}\nnonsense\n{REAL}"));
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM cron_runs"), 3);
    home.assert_restores_all(&[RUNS]);
}
