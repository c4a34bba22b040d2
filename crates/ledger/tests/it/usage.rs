//! Tokens and cost: each response once, days of the person's time zone, and no invented price.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use quipu_ledger::Ledger;
use quipu_ledger::query::{Filter, RecentRequest, UsageBy, UsageRequest};
use quipu_ledger::wire::{UsageLine, UsageReport};
use quipu_transcript::prices::Prices;
use quipu_transcript::project::Name;
use serde_json::Value;

use crate::home::*;

fn ask(home: &Home, by: UsageBy, change: impl FnOnce(&mut UsageRequest<'_>)) -> UsageReport {
    let prices = Prices::default();
    let mut request = UsageRequest {
        by,
        since: None,
        until: None,
        sessions: None,
        zone: TimeZone::UTC,
        prices: &prices,
        by_model: false,
    };
    change(&mut request);
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    quipu_ledger::query::usage(&ledger, &request).unwrap().unwrap()
}

/// All groupings.
pub(crate) const ALL: [UsageBy; 8] = [
    UsageBy::Day,
    UsageBy::Week,
    UsageBy::Block { hours: 5 },
    UsageBy::Month,
    UsageBy::Session,
    UsageBy::Model,
    UsageBy::Project,
    UsageBy::Agent,
];

pub(crate) fn report(home: &Home, by: UsageBy) -> UsageReport {
    ask(home, by, |_| {})
}

pub(crate) fn groups(report: &UsageReport) -> Vec<(&str, u64)> {
    report.lines.iter().map(|line| (line.group.as_str(), line.output_tokens)).collect()
}

const PROJECT: &str = ".claude/projects/-home-a-shop";

/// Returns an answer of Claude Code.
pub(crate) fn answer(uuid: u32, message: &str, model: &str, time: &str, usage: &str) -> String {
    format!(
        r#"{{"type":"assistant","uuid":"00000000-0000-4000-8000-{uuid:012}","parentUuid":null,"sessionId":"00000000-0000-4000-8000-00000000000a","cwd":"/home/a/shop","requestId":"req_{message}","timestamp":"{time}","message":{{"role":"assistant","id":"{message}","model":"{model}","content":[{{"type":"text","text":"answer {uuid}"}}],"usage":{usage}}}}}
"#
    )
}

pub(crate) fn session(number: u32) -> String {
    format!("{PROJECT}/00000000-0000-4000-8000-{number:012}.jsonl")
}

/// The usage in the fixtures of both agents equals an independent count that does not use the
/// ledger.
#[test]
fn totals_equal_an_independent_count() {
    let home = Home::quick();
    home.copy_fixtures();
    home.sync_and_check();
    let mut best: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    let mut add = |key: String, usage: &Value| {
        // One fixture spells its numbers unusually.
        let read = |value: &Value| match value {
            Value::String(text) => text.parse().ok(),
            value => value.as_f64().map(|number| number as u64),
        };
        let number = |names: [&str; 3]| names.iter().find_map(|name| read(&usage[*name]));
        let created = &usage["cache_creation"];
        let by_lifetime = ["ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"]
            .map(|name| read(&created[name]).unwrap_or(0));
        let tokens = [
            number(["input_tokens", "input", "inputTokens"]).unwrap_or(0),
            number(["output_tokens", "output", "outputTokens"]).unwrap_or(0),
            number(["cache_read_input_tokens", "cacheRead", "cacheReadTokens"]).unwrap_or(0),
            number(["cache_creation_input_tokens", "cacheWrite", "cacheWriteTokens"])
                .unwrap_or_else(|| by_lifetime.iter().sum()),
        ];
        let known = best.entry(key).or_default();
        if tokens.iter().sum::<u64>() >= known.iter().sum() {
            *known = tokens;
        }
    };
    for (path, bytes) in files(&home.path("")) {
        if !path.contains(".jsonl") || path.contains("/cron/") {
            continue;
        }
        let bytes =
            if path.ends_with(".zst") { zstd::decode_all(&bytes[..]).unwrap() } else { bytes };
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
            // A sub-agent's answer is repeated inside its parent's progress.
            let line = match line["data"]["message"]["message"]["usage"].is_object() {
                true => line["data"]["message"].clone(),
                false => line,
            };
            let message = if line["message"].is_object() { &line["message"] } else { &line };
            let usage =
                if message["usage"].is_object() { &message["usage"] } else { &line["usage"] };
            if !usage.is_object()
                || message["model"] == "<synthetic>"
                || message["provider"] == "openclaw"
                || line["isApiErrorMessage"] == true
            {
                continue;
            }
            let is_claude = path.contains(".claude/");
            let key = match (&message["id"], &message["responseId"], &line["id"]) {
                (Value::String(id), _, _) if is_claude => id.clone(),
                (_, Value::String(id), _) => id.clone(),
                (_, _, Value::String(id)) => {
                    format!("{id} {} {}", line["timestamp"], message["model"])
                }
                _ => format!("{path} {number}"),
            };
            add(key, usage);
        }
    }
    let mut expected = [0; 4];
    for tokens in best.values() {
        for (sum, part) in expected.iter_mut().zip(tokens) {
            *sum += part;
        }
    }
    assert!(expected.iter().all(|sum| *sum > 0), "the fixtures have all kinds: {expected:?}");
    for by in ALL {
        let report = report(&home, by);
        let total = &report.total;
        let tokens = [
            total.input_tokens,
            total.output_tokens,
            total.cache_read_tokens,
            total.cache_write_tokens,
        ];
        assert_eq!(tokens, expected, "{by:?}");
        assert_eq!(total.responses, best.len() as u64, "{by:?}");
        let sum = |field: fn(&UsageLine) -> u64| report.lines.iter().map(field).sum::<u64>();
        assert_eq!(sum(|line| line.total_tokens), total.total_tokens, "{by:?}");
        assert_eq!(sum(|line| line.responses), total.responses, "{by:?}");
        assert_eq!(sum(|line| line.unpriced_tokens), total.unpriced_tokens, "{by:?}");
        let cost: f64 = report.lines.iter().filter_map(|line| line.cost_usd).sum();
        assert!((cost - total.cost_usd.unwrap()).abs() < 1e-9, "{by:?}");
    }
}

/// A streamed response grows over several syncs, and copies of it appear and disappear.
#[test]
fn sums_follow_every_change() {
    let home = Home::quick();
    let time = "2026-02-04T10:30:00.000Z";
    let small =
        answer(1, "m1", "claude-opus-4-5", time, r#"{"input_tokens":10,"output_tokens":1}"#);
    let large =
        answer(2, "m1", "claude-opus-4-5", time, r#"{"input_tokens":10,"output_tokens":9}"#);
    home.write(&session(1), &small);
    home.sync_and_check();
    assert_eq!(report(&home, UsageBy::Day).total.output_tokens, 1);
    home.append(&session(1), &large);
    home.sync_and_check();
    let total = report(&home, UsageBy::Day).total;
    assert_eq!((total.responses, total.output_tokens), (1, 9));
    // A copy with lower numbers changes nothing; one with higher numbers counts instead.
    home.write(&session(2), &small);
    home.sync_and_check();
    assert_eq!(report(&home, UsageBy::Day).total.output_tokens, 9);
    let larger = answer(
        2,
        "m1",
        "claude-opus-4-5",
        "2026-02-05T10:30:00.000Z",
        r#"{"input_tokens":250000,"output_tokens":20}"#,
    );
    home.append(&session(2), &larger);
    home.sync_and_check();
    let report = report(&home, UsageBy::Session);
    assert_eq!(groups(&report), [("00000000-0000-4000-8000-000000000002", 20)]);
    assert_eq!(report.total.responses, 1);
}

/// A quarter of an hour before midnight in London is the next day in Kolkata and in Kathmandu.
#[test]
fn days_are_those_of_the_time_zone() {
    let home = Home::quick();
    let usage = |output: u32| format!(r#"{{"input_tokens":1,"output_tokens":{output}}}"#);
    let lines = [
        answer(1, "m1", "m", "2026-01-31T18:14:59.000Z", &usage(1)),
        answer(2, "m2", "m", "2026-01-31T18:15:00.000Z", &usage(10)),
        answer(3, "m3", "m", "2026-01-31T18:30:00.000Z", &usage(100)),
        answer(4, "m4", "m", "2026-02-01T00:00:00.000Z", &usage(1000)),
    ];
    home.write(&session(1), lines.concat());
    home.sync_and_check();
    let days = |zone: &str, by| {
        let zone = TimeZone::posix(zone).unwrap();
        let report = ask(&home, by, |request| request.zone = zone);
        report
            .lines
            .iter()
            .map(|line| format!("{} {}", line.group, line.output_tokens))
            .collect::<Vec<_>>()
    };
    assert_eq!(days("UTC0", UsageBy::Day), ["2026-01-31 111", "2026-02-01 1000"]);
    assert_eq!(days("IST-5:30", UsageBy::Day), ["2026-01-31 11", "2026-02-01 1100"]);
    assert_eq!(days("NPT-5:45", UsageBy::Day), ["2026-01-31 1", "2026-02-01 1110"]);
    assert_eq!(days("NPT-5:45", UsageBy::Month), ["2026-01 1", "2026-02 1110"]);
    assert_eq!(days("EST5", UsageBy::Day), ["2026-01-31 1111"]);
}

#[test]
fn a_report_covers_its_range_of_time() {
    let home = Home::quick();
    let day = |uuid, day: &str| {
        let time = format!("2026-02-{day}T12:00:00.000Z");
        answer(uuid, &format!("m{uuid}"), "m", &time, r#"{"output_tokens":1}"#)
    };
    let undated = answer(9, "m9", "m", "not a time", r#"{"output_tokens":100}"#);
    home.write(&session(1), [day(1, "01"), day(2, "02"), day(3, "03"), undated].concat());
    home.sync_and_check();
    let noon = |day: i64| 1_769_947_200_000 + (day - 1) * 86_400_000;
    let named = |since, until| {
        let report = ask(&home, UsageBy::Day, |request| {
            request.since = since;
            request.until = until;
        });
        report.lines.into_iter().map(|line| line.group).collect::<Vec<_>>()
    };
    let all = ["2026-02-01", "2026-02-02", "2026-02-03"];
    assert_eq!(named(Some(noon(2)), None), all[1..]);
    assert_eq!(named(None, Some(noon(2))), ["2026-02-01", "unknown"]);
    assert_eq!(named(Some(noon(2)), Some(noon(2) + 1)), all[1..2]);
    assert_eq!(named(None, None).len(), 4, "usage without a time is in a group");
}

/// Responses without a price are never counted as free.
#[test]
fn responses_without_a_price_are_reported() {
    let home = Home::quick();
    let time = "2026-02-04T10:30:00.000Z";
    let million = r#"{"input_tokens":1000000,"output_tokens":1000000}"#;
    let fast = r#"{"input_tokens":1000000,"output_tokens":0,"speed":"fast"}"#;
    home.write(
        &session(1),
        [
            answer(1, "m1", "claude-opus-4-5", time, million),
            answer(2, "m2", "llama-of-the-lab", time, million),
            answer(3, "m3", "claude-opus-4-6", time, fast),
            answer(4, "m4", "<synthetic>", time, million),
        ]
        .concat(),
    );
    home.sync_and_check();
    let report = report(&home, UsageBy::Model);
    let costs: Vec<_> =
        report.lines.iter().map(|line| (line.group.as_str(), line.cost_usd)).collect();
    assert_eq!(
        costs,
        [
            ("claude-opus-4-5", Some(30.0)),
            ("claude-opus-4-6", Some(30.0)),
            ("llama-of-the-lab", None)
        ]
    );
    assert_eq!(report.total.cost_usd, Some(60.0));
    assert_eq!(report.total.unpriced_tokens, 2_000_000);
    assert_eq!(report.total.unpriced_models, ["llama-of-the-lab"]);
    assert_eq!(report.total.responses, 3, "messages that no model wrote are not counted");
}

/// A cost that OpenClaw recorded is used as it is, even if the price list differs, and even if it
/// is zero.
#[test]
fn a_recorded_cost_is_used_as_it_is() {
    let home = Home::quick();
    let answer = |id: u32, cost: &str| {
        format!(
            r#"{{"type":"message","id":"{id:08x}","timestamp":"2026-02-04T10:30:01.000Z","message":{{"role":"assistant","content":"x","model":"claude-opus-4-5","usage":{{"input":1000000,"output":0{cost}}}}}}}
"#
        )
    };
    let lines = [
        answer(1, r#","cost":{"total":0.123456789}"#),
        answer(2, r#","cost":{"total":0}"#),
        answer(3, ""),
    ];
    home.write(".openclaw/agents/main/sessions/s1.jsonl", lines.concat());
    home.sync_and_check();
    let report = report(&home, UsageBy::Agent);
    assert_eq!(groups(&report), [("openclaw/main", 0)]);
    assert_eq!(report.total.recorded_usd, 0.123456789);
    assert_eq!(report.total.cost_usd, Some(0.123456789 + 5.0));
}

#[test]
fn usage_of_sub_agents_counts_in_their_session() {
    let home = Home::quick();
    let time = "2026-02-04T10:30:00.000Z";
    let usage = r#"{"input_tokens":1,"output_tokens":5}"#;
    home.write(&session(1), answer(1, "m1", "claude-opus-4-5", time, usage));
    home.write(
        &format!("{}/subagents/agent-a1.jsonl", session(1).trim_end_matches(".jsonl")),
        answer(2, "m2", "claude-haiku-4-5", time, usage),
    );
    home.sync_and_check();
    let sessions = report(&home, UsageBy::Session);
    assert_eq!(groups(&sessions), [("00000000-0000-4000-8000-000000000001", 10)]);
    assert_eq!(sessions.lines[0].models, ["claude-haiku-4-5", "claude-opus-4-5"]);
    assert_eq!(groups(&report(&home, UsageBy::Project)), [("/home/a/shop", 10)]);
    assert_eq!(groups(&report(&home, UsageBy::Agent)), [("claude-code", 10)]);
}

#[test]
fn a_filter_limits_a_report_to_its_sessions() {
    let home = Home::quick();
    let time = "2026-02-04T10:30:00.000Z";
    let usage = r#"{"input_tokens":1,"output_tokens":5}"#;
    home.write(&session(1), answer(1, "m1", "m", time, usage));
    let other = answer(2, "m2", "m", time, usage).replace("/home/a/shop", "/home/a/garden");
    home.write(&session(2).replace("shop", "garden"), other);
    home.sync_and_check();
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    let of = |filter: Filter| {
        let request = UsageRequest {
            by: UsageBy::Day,
            since: None,
            until: None,
            sessions: Some(&filter),
            zone: TimeZone::UTC,
            prices: &Prices::default(),
            by_model: false,
        };
        quipu_ledger::query::usage(&ledger, &request)
            .unwrap()
            .map(|report| report.total.output_tokens)
    };
    let named = |name: &str| Filter { project: Some(Name::new(name)), ..Filter::default() };
    assert_eq!(of(Filter { all: true, ..Filter::default() }), Some(10));
    assert_eq!(of(Filter { all: true, ..named("garden") }), Some(5));
    assert_eq!(of(Filter { all: true, ..named("bakery") }), None);
}

/// Absurd numbers stop neither a report nor an import.
#[test]
fn absurd_numbers_stop_no_report() {
    let home = Home::quick();
    let usage = |cost: &str| {
        format!(
            r#"{{"input_tokens":18446744073709551615,"output_tokens":9223372036854775807,"cache_read_input_tokens":1e300,"cost":{cost}}}"#
        )
    };
    let lines: String = (0..200)
        .map(|n| {
            let cost = if n % 2 == 0 { "1e300" } else { "-5" };
            answer(n, &format!("m{n}"), "claude-opus-4-5", "9999-12-31T23:59:59Z", &usage(cost))
        })
        .collect();
    home.write(&session(1), lines);
    home.sync_and_check();
    for by in [UsageBy::Day, UsageBy::Month, UsageBy::Session] {
        assert_eq!(report(&home, by).total.responses, 200);
    }
    assert_eq!(home.problems().get("token_count"), Some(&200));
}

#[test]
fn an_empty_ledger_has_no_usage() {
    let home = Home::quick();
    home.sync();
    let report = report(&home, UsageBy::Day);
    assert!(report.lines.is_empty());
    assert_eq!((report.total.responses, report.total.cost_usd), (0, Some(0.0)));
}

// --- Weeks, windows, models ----------------------------------------------------------------------

#[test]
fn weeks_begin_on_monday_and_windows_with_a_response() {
    let home = Home::quick();
    let usage = r#"{"input_tokens":1,"output_tokens":1}"#;
    let times = [
        "2026-02-01T23:50:00.000Z", // a Sunday
        "2026-02-02T00:10:00.000Z",
        "2026-02-02T04:59:00.000Z",
        "2026-02-02T05:00:00.000Z",
        "2026-02-08T12:30:00.000Z",
    ];
    let lines = (1..)
        .zip(times)
        .map(|(number, time)| answer(number, &format!("m{number}"), "m", time, usage));
    home.write(&session(10), lines.collect::<String>());
    home.sync_and_check();
    assert_eq!(groups(&report(&home, UsageBy::Week)), [("2026-01-26", 1), ("2026-02-02", 4)]);
    let blocks = report(&home, UsageBy::Block { hours: 5 });
    assert_eq!(
        groups(&blocks),
        [("2026-02-01 23:00", 2), ("2026-02-02 04:00", 2), ("2026-02-08 12:00", 1)]
    );
    let block = blocks.lines[0].block.clone().unwrap();
    assert_eq!((block.starts_at, block.ends_at - block.starts_at), (1_769_986_800_000, 18_000_000));
    // A report that begins later has the same windows.
    let late = ask(&home, UsageBy::Block { hours: 5 }, |request| {
        request.since = Some(1_770_004_800_000);
    });
    assert_eq!(groups(&late), [("2026-02-02 04:00", 2), ("2026-02-08 12:00", 1)]);
}

#[test]
fn groups_are_split_by_model() {
    let home = Home::quick();
    let usage = |output: u32| format!(r#"{{"input_tokens":1,"output_tokens":{output}}}"#);
    let lines = [
        answer(1, "m1", "claude-opus-4-5", "2026-02-03T10:00:00.000Z", &usage(10)),
        answer(2, "m2", "claude-haiku-4-5", "2026-02-03T11:00:00.000Z", &usage(20)),
        answer(3, "m3", "lab", "2026-02-04T11:00:00.000Z", &usage(30)),
    ];
    home.write(&session(10), lines.concat());
    home.sync_and_check();
    for by in ALL {
        assert!(report(&home, by).lines.iter().all(|line| line.by_model.is_empty()));
        for line in ask(&home, by, |request| request.by_model = true).lines {
            let sum: u64 = line.by_model.iter().map(|part| part.total_tokens).sum();
            assert_eq!(sum, line.total_tokens, "{by:?} {}", line.group);
        }
    }
    let days = ask(&home, UsageBy::Day, |request| request.by_model = true).lines;
    let names =
        |line: &UsageLine| line.by_model.iter().map(|part| part.group.clone()).collect::<Vec<_>>();
    assert_eq!(names(&days[0]), ["claude-opus-4-5", "claude-haiku-4-5"], "the dearest first");
    assert_eq!(names(&days[1]), ["lab"]);
}

#[test]
fn recent_usage_takes_the_same_work_in_a_large_ledger() {
    let prices = Prices::default();
    // 2026-02-10T12:00Z
    let now = 1_770_724_800_000;
    let ask = |home: &Home| {
        home.steps(|ledger| {
            let request = RecentRequest {
                now,
                day: now - 12 * 3_600_000,
                window: Some(("claude-code", 5)),
                prices: &prices,
            };
            quipu_ledger::query::recent(ledger, &request).unwrap()
        })
    };
    let usage = r#"{"input_tokens":0,"output_tokens":1000000}"#;
    let home = Home::quick();
    let lines = [
        answer(1, "m1", "claude-opus-4-5", "2026-02-09T10:00:00.000Z", usage),
        answer(2, "m2", "claude-opus-4-5", "2026-02-10T03:00:00.000Z", usage),
        answer(3, "m3", "claude-opus-4-5", "2026-02-10T09:20:00.000Z", usage),
        answer(4, "m4", "claude-opus-4-5", "2026-02-10T11:59:00.000Z", usage),
    ];
    home.write(&session(10), lines.concat());
    home.sync_and_check();
    let (small, few) = ask(&home);
    assert_eq!(small.day_usd, Some(75.0));
    let window = small.window.clone().unwrap();
    assert_eq!((window.ends_at, window.usd, window.tokens), (now + 2 * 3_600_000, 50.0, 2_000_000));
    let old = |number: u32| {
        let time = format!("2026-01-{:02}T{:02}:00:00.000Z", number % 28 + 1, number % 24);
        answer(number, &format!("old{number}"), "claude-opus-4-5", &time, usage)
    };
    for file in 0..40 {
        let lines: String = (0..25).map(|line| old(1000 + file * 25 + line)).collect();
        home.write(&session(100 + file), lines);
    }
    home.sync();
    let (large, many) = ask(&home);
    assert_eq!(large, small);
    assert!(many <= few + few / 4, "{few} steps became {many}");
}
