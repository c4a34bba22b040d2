//! Sessions that Claude Code itself wrote (`tests/fixtures/claude-code-*`). The `SOURCES.md` of
//! each lists the commands that made them and the right answers.

use std::path::Path;

use quipu_ledger::query::{Choice, UsageBy, sessions};
use quipu_ledger::wire::{Session, UsageLine};
use quipu_transcript::entry::Role;
use quipu_transcript::prices::Prices;
use quipu_transcript::story::StoryDetail;

use crate::home::*;
use crate::usage::report;

const FOLDERS: [&str; 2] = ["claude-code-2.1.197", "claude-code-2.1.325"];

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Copies all files of a folder into the home's Claude Code folder, in the order of their paths, or
/// backwards. Collects after each file, so that the order of collecting is the order of copying.
fn collect_one_by_one(folder: &Path, is_backwards: bool) -> Home {
    let home = Home::quick();
    let mut files = files_below(&folder.join("projects"));
    files.sort();
    if is_backwards {
        files.reverse();
    }
    for file in files {
        let name = file.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        home.write(&format!(".claude/{name}"), std::fs::read(&file).unwrap());
        home.sync();
    }
    home.sync_and_check();
    home
}

fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files
}

fn listed(home: &Home) -> Vec<Session> {
    let filter = quipu_ledger::query::Filter { all: true, ..Default::default() };
    sessions(&home.open(), &filter, None).unwrap().sessions
}

/// Returns the beginning of the id of the session that another one was forked from.
fn fork_of(home: &Home, id: &str) -> Option<String> {
    let found =
        listed(home).into_iter().find(|session| session.session_id.starts_with(id)).unwrap();
    found.fork_of.map(|of| of[..8].to_owned())
}

fn tokens_of(line: &UsageLine) -> [u64; 4] {
    [line.input_tokens, line.output_tokens, line.cache_read_tokens, line.cache_write_tokens]
}

/// Returns input, output, cache read and cache write of a session, with its sub-agents.
fn usage_of(home: &Home, id: &str) -> [u64; 4] {
    let report = report(home, UsageBy::Session);
    let line = report.lines.iter().find(|line| line.group.starts_with(id)).unwrap();
    tokens_of(line)
}

/// The original continued after `--fork-session`: it is still the original, in both releases and
/// whichever file was collected first, and keeps its usage.
#[test]
fn an_original_that_continued_after_its_fork_stays_the_original() {
    for is_backwards in [false, true] {
        let home = collect_one_by_one(&fixture(FOLDERS[0]), is_backwards);
        assert_eq!(fork_of(&home, "7c7b51c8"), None);
        assert_eq!(fork_of(&home, "341c4f14").as_deref(), Some("7c7b51c8"));
        assert_eq!(usage_of(&home, "7c7b51c8"), [91 + 22, 131 + 32, 5_000, 500]);
        assert_eq!(usage_of(&home, "341c4f14"), [25, 35, 1_000, 100]);
    }
}

/// All lineages and the usage of each session, as the program's own requests were answered.
#[test]
fn lineage_and_usage_match_the_programs_own_requests() {
    for is_backwards in [false, true] {
        let home = collect_one_by_one(&fixture(FOLDERS[1]), is_backwards);
        assert_eq!(fork_of(&home, "6990bad9"), None);
        assert_eq!(fork_of(&home, "47108f2e").as_deref(), Some("6990bad9"));
        assert_eq!(fork_of(&home, "5ccc6b99"), None);
        assert_eq!(fork_of(&home, "ac68bfb0").as_deref(), Some("5ccc6b99"));
        assert_eq!(fork_of(&home, "31d676a2"), None);
        let subagents = [57 + 26 + 87, 77 + 36 + 117, 6_000, 600];
        let own = [747, 1_007, 26_000, 2_600];
        // The compaction, which only the program's own total has.
        let compaction = [44, 54, 1_000, 100];
        let all = std::array::from_fn(|kind| own[kind] + subagents[kind] + compaction[kind]);
        assert_eq!(usage_of(&home, "6990bad9"), all);
        assert_eq!(usage_of(&home, "47108f2e"), [42, 52, 1_000, 100]);
        assert_eq!(usage_of(&home, "5ccc6b99"), [303, 363, 6_000, 600]);
        assert_eq!(usage_of(&home, "ac68bfb0"), [165, 195, 3_000, 300]);
        assert_eq!(usage_of(&home, "31d676a2"), [116 + 58, 136 + 68, 3_000, 300]);
        let total = report(&home, UsageBy::Session).total;
        assert_eq!(tokens_of(&total), [1_543 + 102, 1_983 + 122, 46_000, 4_600]);
        assert_eq!((total.responses, total.without_line_tokens), (44, 2 * 1_100 + 102 + 122));
    }
}

/// Returns the last total in a file that contains `mark`, as Claude Code wrote it: its cost and its
/// tokens.
fn own_total(file: &Path, mark: &str) -> (f64, [u64; 4]) {
    let text = std::fs::read_to_string(file).unwrap();
    let is_total = |line: &&str| line.contains(r#""type":"cost-state""#) && line.contains(mark);
    let line = text.lines().rfind(is_total).unwrap();
    let total: serde_json::Value = serde_json::from_str(line).unwrap();
    let model = &total["modelUsage"]["claude-opus-5-5"];
    let tokens =
        ["inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"]
            .map(|kind| model[kind].as_u64().unwrap());
    (total["totalCostUSD"].as_f64().unwrap(), tokens)
}

/// The cost of each session equals the program's own. A fork counts on from the total of its
/// original, which is subtracted.
#[test]
fn costs_are_the_programs_own() {
    let folder = fixture(FOLDERS[1]);
    let projects = folder.join("projects/-home-ada-work");
    // When the fork was made, 29 requests had been sent, each with 1,000 tokens from the cache.
    let original = projects.join("6990bad9-8091-4b0d-9303-69178c52563f.jsonl");
    let of_original = own_total(&original, r#""cacheReadInputTokens":29000"#);
    for is_backwards in [false, true] {
        let home = collect_one_by_one(&folder, is_backwards);
        let lines = report(&home, UsageBy::Session).lines;
        assert_eq!(lines.len(), 5);
        for line in lines {
            let file = projects.join(format!("{}.jsonl", line.group));
            let (mut cost, mut tokens) = own_total(&file, "");
            if line.group.starts_with("47108f2e") {
                cost -= of_original.0;
                tokens = std::array::from_fn(|kind| tokens[kind] - of_original.1[kind]);
            }
            assert_eq!(tokens_of(&line), tokens, "{}", line.group);
            assert!((line.cost_usd.unwrap() - cost).abs() < 1e-9, "{}", line.group);
        }
    }
}

/// A session's own cost, without its sub-agents, includes requests that no line records; in SQL they
/// have a view of their own.
#[test]
fn requests_without_a_line_are_counted() {
    let home = collect_one_by_one(&fixture(FOLDERS[1]), false);
    let costs = quipu_ledger::query::costs(&home.open(), &Prices::default()).unwrap();
    let filter = quipu_ledger::query::Filter { all: true, ..Default::default() };
    let found = sessions(&home.open(), &filter, None).unwrap();
    for (row, mut session) in found.rows.into_iter().zip(found.sessions) {
        costs.add_to(row.unwrap(), &mut session);
        if session.session_id == "6990bad9-8091-4b0d-9303-69178c52563f" {
            assert_eq!(session.total_tokens, 747 + 1_007 + 26_000 + 2_600 + 44 + 54 + 1_000 + 100);
        }
    }
    let without = "SELECT substr(s.session_id, 1, 8), m.name, u.input_tokens, u.output_tokens,
                          u.cache_read_tokens, u.cache_write_tokens
                     FROM usage_without_line u
                     JOIN sessions s ON s.id = u.session JOIN models m ON m.id = u.model
                    ORDER BY 1";
    assert_eq!(
        home.all(without),
        [
            "'31d676a2'|'claude-opus-5-5'|58|68|1000|100",
            "'6990bad9'|'claude-opus-5-5'|44|54|1000|100"
        ]
    );
}

/// Returns an answer of a model with one output token.
fn answer(number: u32, model: &str, input: u32, second: u32) -> String {
    format!(
        r#"{{"type":"assistant","uuid":"00000000-0000-4000-8000-{number:012}","timestamp":"2026-11-16T10:00:{second:02}.000Z","message":{{"role":"assistant","id":"m{number}","model":"{model}","content":[],"usage":{{"input_tokens":{input},"output_tokens":1}}}}}}
"#
    )
}

/// Returns a total of Claude Code: input and output of each model.
fn total(models: &[(&str, u32, u32)]) -> String {
    let models: Vec<String> = models
        .iter()
        .map(|(name, input, output)| {
            format!(r#""{name}":{{"inputTokens":{input},"outputTokens":{output}}}"#)
        })
        .collect();
    // 2026-11-16T10:00:10Z
    format!(
        r#"{{"type":"cost-state","startTime":1794823210000,"modelUsage":{{{}}}}}
"#,
        models.join(",")
    )
}

fn without_line(home: &Home) -> Vec<String> {
    home.all(
        "SELECT m.name, u.input_tokens, u.output_tokens FROM usage_without_line u
           JOIN models m ON m.id = u.model ORDER BY 1",
    )
}

/// Models have other names in totals than in answers; answers from before the count began are not
/// in it; answers after the last total are not compared with it.
#[test]
fn a_total_is_compared_with_the_answers_that_it_counts() {
    let home = Home::quick();
    home.write(MAIN, answer(1, "claude-opus-5-5", 500, 5));
    home.append(MAIN, answer(2, "claude-opus-5-5", 10, 20));
    home.append(
        MAIN,
        total(&[("us.anthropic.claude-opus-5-5-v1:0", 30, 3), ("claude-haiku-4-5", 7, 2)]),
    );
    home.sync_and_check();
    let found = ["'claude-haiku-4-5'|7|2", "'claude-opus-5-5'|20|2"];
    assert_eq!(without_line(&home), found);
    home.append(MAIN, answer(3, "claude-opus-5-5-20260901", 1_000, 30));
    home.sync_and_check();
    assert_eq!(without_line(&home), found);
    home.append(MAIN, total(&[("claude-opus-5-5", 1_031, 4), ("claude-haiku-4-5", 7, 2)]));
    home.sync_and_check();
    assert_eq!(without_line(&home), ["'claude-haiku-4-5'|7|2", "'claude-opus-5-5'|21|2"]);
}

/// A total that is smaller than the sum of the lines before it is ignored.
#[test]
fn a_total_below_its_lines_adds_nothing() {
    for models in [&[("claude-opus-5-5", 9, 9)][..], &[("claude-haiku-4-5", 700, 2)]] {
        let home = Home::quick();
        home.write(MAIN, answer(1, "claude-opus-5-5", 10, 20) + &total(models));
        home.sync_and_check();
        assert_eq!(without_line(&home), Vec::<String>::new());
    }
}

/// The work for requests that no line records grows with the number of sessions, not with its square.
#[test]
fn totals_of_many_sessions_are_compared_in_linear_work() {
    let steps = |sessions: u32| {
        let home = Home::quick();
        for number in 0..sessions {
            let path = format!(".claude/projects/-w/{number:08}-0000-4000-8000-000000000001.jsonl");
            let lines = answer(number, "claude-opus-5-5", 10, 20);
            home.write(&path, lines + &total(&[("claude-opus-5-5", 30, 3)]));
        }
        home.sync();
        let (_, steps) = home.steps(|ledger| {
            quipu_ledger::query::costs(ledger, &Prices::default()).map(drop).unwrap();
        });
        steps
    };
    let (few, many) = (steps(50), steps(400));
    assert!(many < 16 * few, "{few} steps for 50 sessions, {many} for 400");
}

/// Commands that Claude Code runs itself are shown where they were typed, and begin no turn.
#[test]
fn commands_without_a_request_begin_no_turn() {
    let home = collect_one_by_one(&fixture(FOLDERS[1]), false);
    let mut turns: Vec<(String, u64)> =
        listed(&home).iter().map(|s| (s.session_id.chars().take(8).collect(), s.turns)).collect();
    turns.retain(|(id, _)| !id.starts_with("agent"));
    for (id, expected) in
        [("6990bad9", 8), ("47108f2e", 6), ("5ccc6b99", 4), ("ac68bfb0", 7), ("31d676a2", 2)]
    {
        assert!(turns.contains(&(id.to_owned(), expected)), "{id}: {turns:?}");
    }
    let choice = Choice { role: Some(Role::User), ..Choice::default() };
    let shown = home.items_of("31d676a2", &choice, |item| (item.turn, item.words().into_owned()));
    let shown: Vec<(Option<u64>, &str)> =
        shown.iter().map(|(turn, text)| (*turn, &**text)).collect();
    assert_eq!(
        shown,
        [
            (None, "/clear"),
            (Some(1), "after clear koala"),
            (Some(1), "/model"),
            (Some(1), "/compact"),
            (Some(2), "after interactive compact"),
        ]
    );
}

/// The usage of all entries adds up to that of `usage`, except for requests without a line.
#[test]
fn what_is_counted_for_entries_adds_up_to_the_usage() {
    let choice =
        Choice { detail: StoryDetail::FULL, prices: Some(Prices::default()), ..Choice::default() };
    for name in FOLDERS {
        let home = collect_one_by_one(&fixture(name), false);
        let (mut responses, mut tokens, mut cost) = (0, 0, 0.0);
        for session in listed(&home) {
            let counted = home.items_of(&session.session_id, &choice, |item| item.counted);
            for usage in counted.into_iter().flatten() {
                responses += 1;
                tokens += usage.total();
                cost += usage.cost_usd.unwrap();
            }
        }
        let total = report(&home, UsageBy::Session).total;
        assert_eq!(
            (responses, tokens + total.without_line_tokens),
            (total.responses, total.total_tokens)
        );
        let with_all = cost + total.without_line_usd;
        assert!((with_all - total.cost_usd.unwrap()).abs() < 1e-6, "{with_all} {total:?}");
    }
}
