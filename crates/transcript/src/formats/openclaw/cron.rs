//! Decodes scheduled jobs and their runs. OpenClaw's documentation and its releases use different
//! field names; both are read. Newer releases keep both in a database, which quipu does not open,
//! and rename these files to `.migrated`.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use crate::entry::{Block, CronJob, CronRun, Entry, Kind};
use crate::format::Origin;
use crate::json::{self, Oddities, Word, fields, non_empty};
use crate::problem::{Problem, ProblemKind};
use crate::time::Timestamp;

fields! {
    /// One line of `cron/runs/<job>.jsonl`.
    struct Run<'a> {
        "ts" => ts: Timestamp,
        "timestamp" => timestamp: Timestamp,
        "jobId" => job: Word<'a>,
        "action" => action: Cow<'a, str>,
        "status" => status: Cow<'a, str>,
        "summary" => summary: Cow<'a, str>,
        "error" => error: Cow<'a, str>,
        "runAtMs" => run_at_ms: Timestamp,
        "runAt" => run_at: Timestamp,
        "durationMs" => duration_ms: u64,
        "nextRunAtMs" => next_run_at_ms: Timestamp,
        "nextRunAt" => next_run_at: Timestamp,
        "sessionId" => session_id: Word<'a>,
        "sessionKey" => session_key: Cow<'a, str>,
        "model" => model: Cow<'a, str>,
        "provider" => provider: Cow<'a, str>,
    }
}

/// Decodes one run. Its usage is ignored: it is counted in the session that ran.
pub(super) fn decode_run<'a>(origin: &Origin, json: &'a [u8]) -> serde_json::Result<Entry<'a>> {
    let mut odd = Oddities::default();
    let run = *json::object::<Run<'a>>(json, &mut odd)?;
    let mut entry =
        Entry { type_name: "cron_run".into(), time: run.ts.or(run.timestamp), ..Entry::default() };
    if run.job.is_none() && run.status.is_none() && run.action.is_none() {
        // Without a job, a status and an action the line is not a run.
        entry.problems = vec![Problem::new(ProblemKind::NoType, "jobId")];
        return Ok(entry);
    }
    let run = CronRun {
        // The file is named after the job.
        job: run.job.and_then(|job| non_empty(Some(job.0))).unwrap_or_else(|| job_named(origin)),
        action: non_empty(run.action),
        status: non_empty(run.status),
        summary: non_empty(run.summary),
        error: non_empty(run.error),
        run_at: run.run_at_ms.or(run.run_at),
        duration_ms: run.duration_ms,
        next_run_at: run.next_run_at_ms.or(run.next_run_at),
        session_id: run.session_id.and_then(|id| non_empty(Some(id.0))),
        session_key: non_empty(run.session_key),
        model: non_empty(run.model),
        provider: non_empty(run.provider),
    };
    entry.marks.is_error = run.status.as_deref() == Some("error");
    entry.blocks = run.summary.iter().chain(&run.error).cloned().map(Block::Text).collect();
    entry.kind = Kind::CronRun(run);
    entry.problems = odd.into_problems();
    Ok(entry)
}

/// Returns the job's id from the name of the file.
fn job_named<'a>(origin: &Origin) -> Cow<'a, str> {
    origin.name.split(".jsonl").next().unwrap_or_default().to_owned().into()
}

/// Decodes `cron/jobs.json`: a list of jobs, or a map from ids to jobs.
pub(super) fn decode_jobs(bytes: &[u8]) -> Entry<'_> {
    let mut entry =
        Entry { type_name: "cron_jobs".into(), kind: Kind::Document, ..Entry::default() };
    let Ok(read) = serde_json::from_slice::<Value>(bytes) else {
        entry.problems.push(Problem::new(ProblemKind::Opaque, "not JSON"));
        return entry;
    };
    let listed = read.get("jobs").unwrap_or(&read);
    let mut jobs = Vec::new();
    match listed {
        Value::Array(list) => jobs.extend(list.iter().filter_map(|job| read_job(None, job))),
        Value::Object(map) if map.values().all(Value::is_object) => {
            jobs.extend(map.iter().filter_map(|(id, job)| read_job(Some(id), job)));
        }
        _ => {
            entry.problems.push(Problem::new(ProblemKind::BadField, "jobs"));
            return entry;
        }
    }
    let all = match listed {
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    };
    if jobs.len() < all {
        entry.problems.push(Problem::new(ProblemKind::BadField, "jobs[]"));
    }
    for job in &jobs {
        let words = [&job.name, &job.description, &job.prompt];
        let words = words.into_iter().flatten().map(|word| Block::Text(word.clone().into()));
        entry.blocks.extend(words);
    }
    entry.kind = Kind::CronJobs(jobs);
    entry
}

/// Decodes one job. Returns `None` if it is not an object or has no id. `key` is its id if the file
/// is a map.
fn read_job(key: Option<&str>, job: &Value) -> Option<CronJob> {
    let text = |value: Option<&Value>| {
        value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let first = |keys: &[&str]| keys.iter().find_map(|key| text(job.get(key)));
    let time = |keys: &[&str]| keys.iter().find_map(|key| time(job.get(key)?));
    let payload = job.get("payload");
    let in_payload = |key: &str| text(payload.and_then(|payload| payload.get(key)));
    let schedule = job.get("schedule");
    let state = job.get("state");
    Some(CronJob {
        id: first(&["id", "jobId"]).or(key.map(str::to_owned)).filter(|_| job.is_object())?,
        name: first(&["name"]),
        description: first(&["description"]),
        agent: first(&["agentId"]),
        prompt: first(&["prompt", "message"])
            .or_else(|| in_payload("message"))
            .or_else(|| in_payload("text"))
            .or_else(|| in_payload("prompt")),
        schedule: schedule.map(in_words).unwrap_or_default(),
        schedule_json: schedule.map(Value::to_string),
        // Without the field, a job is enabled.
        is_enabled: job.get("enabled").and_then(Value::as_bool).unwrap_or(true),
        created_at: time(&["createdAtMs", "createdAt"]),
        updated_at: time(&["updatedAtMs", "updatedAt"]),
        next_run_at: time(&["nextRunAtMs", "nextRunAt"])
            .or_else(|| state.and_then(|state| self::time(state.get("nextRunAtMs")?))),
    })
}

/// Returns a time that is text or a number.
fn time(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => Timestamp::from_text(text),
        Value::Number(number) => Timestamp::from_number(number.as_f64()?),
        _ => None,
    }
}

/// Describes a schedule: `every 15 minutes`, `at 2026-02-01T07:00:00Z`, `cron 0 7 * * *
/// (Europe/Berlin)`, `when it ends: make`. Returns an unknown kind as written.
fn in_words(schedule: &Value) -> String {
    let Value::Object(fields) = schedule else {
        return schedule.as_str().unwrap_or_default().to_owned();
    };
    let text = |keys: &[&str]| {
        keys.iter().find_map(|key| match fields.get(*key)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
    };
    let kind = text(&["kind", "type"]).unwrap_or_default();
    match kind.as_str() {
        "interval" | "every" => {
            match text(&["everyMs", "intervalMs"]).and_then(|ms| ms.parse::<u64>().ok()) {
                Some(ms) => format!("every {}", duration(ms)),
                None => format!("every {}", text(&["every", "interval"]).unwrap_or("?".to_owned())),
            }
        }
        "at" => {
            let at = ["at", "atMs"].iter().find_map(|key| fields.get(*key));
            match at.and_then(time).and_then(|at| jiff::Timestamp::from_millisecond(at.0).ok()) {
                Some(at) => format!("at {at}"),
                None => format!("at {}", text(&["at", "atMs"]).unwrap_or("?".to_owned())),
            }
        }
        "cron" => {
            let mut words =
                format!("cron {}", text(&["expr", "cron", "expression"]).unwrap_or("?".to_owned()));
            if let Some(zone) = text(&["tz", "timezone"]) {
                let _ = write!(words, " ({zone})");
            }
            words
        }
        "on-exit" => match text(&["command"]) {
            Some(command) => format!("when it ends: {command}"),
            None => "when a command ends".to_owned(),
        },
        _ => kind,
    }
}

/// Formats a duration in the largest unit that divides it: `15 minutes`, or `second` for `every
/// second`.
fn duration(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second")];
    for (unit, name) in UNITS {
        if ms >= unit && ms.is_multiple_of(unit) {
            let number = ms / unit;
            return if number == 1 { name.to_owned() } else { format!("{number} {name}s") };
        }
    }
    format!("{ms} ms")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Part;

    fn run(line: &str) -> Entry<'_> {
        let origin = Origin::of(Part::CronRuns, "job-7.jsonl.migrated");
        decode_run(&origin, line.as_bytes()).unwrap_or_default()
    }

    #[track_caller]
    fn check_run(line: &str, check: impl FnOnce(&CronRun<'_>, &Entry<'_>)) {
        let entry = run(line);
        let Kind::CronRun(run) = &entry.kind else { unreachable!("{:?}", entry.kind) };
        check(run, &entry);
    }

    #[test]
    fn r6_a_run_as_the_documents_show_it_is_read() {
        let line = r#"{"timestamp":"2026-01-31T07:30:00.000Z","jobId":"5145dbcf","action":"finished","status":"ok","summary":"No upcoming meetings","durationMs":12500,"nextRunAt":"2026-01-31T07:45:00.000Z"}"#;
        check_run(line, |run, entry| {
            assert_eq!((&*run.job, run.status.as_deref()), ("5145dbcf", Some("ok")));
            assert_eq!(run.duration_ms, Some(12_500));
            assert_eq!(run.next_run_at, Some(Timestamp(1_769_845_500_000)));
            assert_eq!(entry.time, Some(Timestamp(1_769_844_600_000)));
            assert_eq!(entry.text(), "No upcoming meetings");
            assert!(entry.problems.is_empty() && !entry.marks.is_error);
        });
    }

    #[test]
    fn r6_a_run_as_releases_write_it_is_read() {
        let line = r#"{"ts":1769844600000,"jobId":"j","action":"finished","status":"error","error":"no reply","summary":"tried","runAtMs":1769844590000,"durationMs":9.5e3,"nextRunAtMs":1769845500,"sessionId":"s","sessionKey":"agent:main:cron:j","model":"m","provider":"p","usage":{"input":5,"output":6},"delivered":true}"#;
        check_run(line, |run, entry| {
            assert_eq!(run.run_at, Some(Timestamp(1_769_844_590_000)));
            assert_eq!(run.next_run_at, Some(Timestamp(1_769_845_500_000)));
            assert_eq!(run.duration_ms, Some(9500));
            assert_eq!(run.session_key.as_deref(), Some("agent:main:cron:j"));
            assert_eq!(entry.text(), "tried\nno reply");
            assert!(entry.usage.is_none(), "the usage is counted in the session that ran");
            assert!(entry.marks.is_error);
            assert!(entry.facts.is_empty());
        });
    }

    #[test]
    fn r6_odd_runs_are_runs() {
        check_run(r#"{"ts":"soon","status":"ok","summary":[1],"durationMs":-4}"#, |run, entry| {
            assert_eq!(run.job, "job-7", "named by its file");
            assert_eq!(entry.time, None);
            assert_eq!(entry.problems.len(), 3);
        });
        assert!(matches!(run(r#"{"hello":1}"#).kind, Kind::Unknown));
    }

    #[track_caller]
    fn check_jobs(json: &str, check: impl FnOnce(&[CronJob], &Entry<'_>)) {
        let entry = decode_jobs(json.as_bytes());
        let Kind::CronJobs(jobs) = &entry.kind else { unreachable!("{:?}", entry.kind) };
        check(jobs, &entry);
    }

    #[test]
    fn r6_jobs_as_the_documents_show_them_are_read() {
        let json = r#"{"jobs":[{"id":"5145dbcf","name":"Meeting Intel","prompt":"Check calendars","schedule":{"kind":"interval","everyMs":900000},"enabled":true,"createdAt":"2026-01-31T07:00:00Z"}]}"#;
        check_jobs(json, |jobs, entry| {
            let [job] = jobs else { unreachable!("{jobs:?}") };
            assert_eq!((&*job.id, job.prompt.as_deref()), ("5145dbcf", Some("Check calendars")));
            assert_eq!((&*job.schedule, job.is_enabled), ("every 15 minutes", true));
            assert_eq!(job.created_at, Some(Timestamp(1_769_842_800_000)));
            assert_eq!(entry.text(), "Meeting Intel\nCheck calendars");
        });
    }

    #[test]
    fn r6_jobs_as_releases_write_them_are_read() {
        let json = r#"{"version":1,"jobs":[
            {"id":"a","agentId":"work","name":"n","enabled":false,"createdAtMs":1769842800000,"schedule":{"kind":"cron","expr":"0 7 * * *","tz":"Europe/Berlin"},"payload":{"kind":"agentTurn","message":"wake up"},"state":{"nextRunAtMs":1769845500000}},
            {"id":"b","schedule":{"kind":"at","at":"2026-02-01T07:00:00Z"},"payload":{"kind":"systemEvent","text":"ping"}},
            {"id":"c","schedule":{"kind":"at","atMs":1769845500000}},
            {"id":"d","schedule":{"kind":"every","everyMs":86400000}},
            {"id":"e","schedule":{"kind":"on-exit","command":"make"}},
            {"id":"f","schedule":{"kind":"moon"}},{"id":"g","schedule":"0 7 * * *"},{"id":"h"}]}"#;
        check_jobs(json, |jobs, entry| {
            let schedules: Vec<&str> = jobs.iter().map(|job| &*job.schedule).collect();
            assert_eq!(
                schedules,
                [
                    "cron 0 7 * * * (Europe/Berlin)",
                    "at 2026-02-01T07:00:00Z",
                    "at 2026-01-31T07:45:00Z",
                    "every day",
                    "when it ends: make",
                    "moon",
                    "0 7 * * *",
                    ""
                ]
            );
            let prompts: Vec<&str> = jobs.iter().filter_map(|job| job.prompt.as_deref()).collect();
            assert_eq!(prompts, ["wake up", "ping"]);
            assert_eq!(jobs.first().and_then(|job| job.agent.as_deref()), Some("work"));
            assert_eq!(
                jobs.first().and_then(|job| job.next_run_at),
                Some(Timestamp(1_769_845_500_000))
            );
            assert!(!jobs.iter().any(|job| job.id == "a" && job.is_enabled));
            assert!(entry.problems.is_empty());
        });
    }

    #[test]
    fn r6_odd_lists_of_jobs_are_read_or_noted() {
        check_jobs(r#"{"jobs":{"a":{"name":"by key"}}}"#, |jobs, _| {
            assert_eq!(jobs.first().map(|job| &*job.id), Some("a"));
        });
        check_jobs(r#"[{"id":"a"},7,{"name":"nameless"}]"#, |jobs, entry| {
            assert_eq!((jobs.len(), entry.problems.len()), (1, 1));
        });
        check_jobs(r#"{"jobs":[]}"#, |jobs, _| assert!(jobs.is_empty()));
        for json in ["", "{", "7", r#"{"jobs":7}"#, "\u{0}", r#""jobs""#] {
            let entry = decode_jobs(json.as_bytes());
            assert!(matches!(entry.kind, Kind::Document), "{json}");
            assert_eq!(entry.problems.len(), 1, "{json}");
        }
    }

    #[test]
    fn r6_durations_are_described_in_words() {
        for (ms, words) in [
            (1000, "second"),
            (900_000, "15 minutes"),
            (90_000, "90 seconds"),
            (1500, "1500 ms"),
            (0, "0 ms"),
        ] {
            assert_eq!(duration(ms), words);
        }
    }
}
