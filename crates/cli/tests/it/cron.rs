//! `quipu cron`.

use crate::home::{Home, snapshot};

const JOBS: &str = r#"{"jobs":[
 {"id":"5145dbcf","name":"Meeting Intel","prompt":"Check calendars","schedule":{"kind":"interval","everyMs":900000},"enabled":true},
 {"id":"7d0a52aa","name":"Morning briefing","enabled":false,"schedule":{"kind":"cron","expr":"0 7 * * 1-5","tz":"Europe/Berlin"},"payload":{"message":"Summarise the night"}}
]}"#;

const RUNS: &str = r#"{"timestamp":"2026-01-31T07:30:00.000Z","jobId":"5145dbcf","action":"finished","status":"ok","summary":"No upcoming meetings","durationMs":12500,"nextRunAt":"2026-01-31T07:45:00.000Z"}
{"ts":1769845500000,"jobId":"5145dbcf","action":"finished","status":"error","error":"gateway unreachable","durationMs":900,"nextRunAtMs":1769846400000,"sessionId":"s1","model":"claude-opus-4-5","usage":{"input":5,"output":6}}
"#;

fn home() -> Home {
    let home = Home::empty();
    home.write(".openclaw/cron/jobs.json", JOBS);
    home.write(".openclaw/cron/runs/5145dbcf.jsonl", RUNS);
    let gone = RUNS.replace("5145dbcf", "0ld");
    home.write(".openclaw/cron/runs/0ld.jsonl", gone);
    home.run("sync -q");
    home
}

#[test]
fn jobs_are_listed_with_their_state() {
    let home = home();
    snapshot!(home.run_with("cron", &[("TZ", "UTC0")]), @"
    exit 0
    --- stdout
    job               state  schedule                          runs  last               next
    Meeting Intel     on     every 15 minutes                     2  error, 2026-01-31  [MINUTE]
    0ld               gone                                        2  error, 2026-01-31
    Morning briefing  off    cron 0 7 * * 1-5 (Europe/Berlin)     0  never
    ");
    snapshot!(home.run_with("cron", &[("COLUMNS", "60")]), @"
    exit 0
    --- stdout
    job               state  runs  last
    Meeting Intel     on        2  error, 2026-01-31
    0ld               gone      2  error, 2026-01-31
    Morning briefing  off       0  never
    ");
    snapshot!(home.run("cron --json --no-sync"), @r#"
    exit 0
    --- stdout
    {"job_id":"5145dbcf","name":"Meeting Intel","description":null,"agent":null,"schedule":"every 15 minutes","state":"on","prompt":"Check calendars","runs":2,"failed_runs":1,"last_run_at":1769845500000,"last_status":"error","next_run_at":1769846400000,"fresh_as_of":"[TIME]","pending_bytes":null}
    {"job_id":"0ld","name":null,"description":null,"agent":null,"schedule":"","state":"gone","prompt":null,"runs":2,"failed_runs":1,"last_run_at":1769845500000,"last_status":"error","next_run_at":null,"fresh_as_of":"[TIME]","pending_bytes":null}
    {"job_id":"7d0a52aa","name":"Morning briefing","description":null,"agent":null,"schedule":"cron 0 7 * * 1-5 (Europe/Berlin)","state":"off","prompt":"Summarise the night","runs":0,"failed_runs":0,"last_run_at":null,"last_status":null,"next_run_at":null,"fresh_as_of":"[TIME]","pending_bytes":null}
    "#);
}

#[test]
fn runs_of_a_job_are_listed() {
    let home = home();
    snapshot!(home.run_with("cron intel", &[("TZ", "UTC0"), ("COLUMNS", "100")]), @"
    exit 0
    --- stdout
    Meeting Intel  5145dbcf
      state     on
      schedule  every 15 minutes
      next      [MINUTE]
      prompt    Check calendars
      runs      2 runs, 1 failed

    ended             status    took  tokens  session  result
    [MINUTE]  error   900 ms      11  s1       gateway unreachable
    [MINUTE]  ok        12 s                   No upcoming meetings
    ");
    snapshot!(home.run_with("cron 5145 -n 1", &[("TZ", "UTC0"), ("COLUMNS", "40")]), @"
    exit 0
    --- stdout
    Meeting Intel  5145dbcf
      state     on
      schedule  every 15 minutes
      next      [MINUTE]
      prompt    Check calendars
      runs      2 runs, 1 failed

    [MINUTE]
      status  error
      result  gateway unreachable
    and 1 older run; `-n 0` lists all
    ");
    snapshot!(home.run("cron intel --json --no-sync"), @r#"
    exit 0
    --- stdout
    {"job_id":"5145dbcf","time":1769845500000,"status":"error","duration_ms":900,"model":"claude-opus-4-5","total_tokens":11,"summary":null,"error_message":"gateway unreachable","session_id":"s1","fresh_as_of":"[TIME]","pending_bytes":null}
    {"job_id":"5145dbcf","time":1769844600000,"status":"ok","duration_ms":12500,"model":null,"total_tokens":null,"summary":"No upcoming meetings","error_message":null,"session_id":null,"fresh_as_of":"[TIME]","pending_bytes":null}
    "#);
    snapshot!(home.run("cron brief"), @"
    exit 0
    --- stdout
    Morning briefing  7d0a52aa
      state     off
      schedule  cron 0 7 * * 1-5 (Europe/Berlin)
      prompt    Summarise the night
      runs      0 runs
    ");
    snapshot!(home.run("cron dinner"), @"
    exit 1
    --- stderr
    error: no job matches `dinner`
    hint: `quipu cron` lists all jobs
    ");
    snapshot!(home.run("cron ing"), @"
    exit 1
    --- stderr
    error: `ing` matches 2 jobs
    hint: give more of the name or id:
          5145dbcf  Meeting Intel
          7d0a52aa  Morning briefing
    ");
}

#[test]
fn no_jobs_are_no_error() {
    snapshot!(Home::empty().run("cron"), @"
    exit 0
    --- stdout
    no scheduled jobs
    ");
}
