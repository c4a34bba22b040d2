//! Last lines without a newline: they are shown and found, and counted when the newline arrives.

use std::ops::ControlFlow;

use quipu_ledger::Ledger;
use quipu_ledger::query::{Choice, Filter, Story, UsageBy};
use quipu_ledger::search::SearchRequest;
use quipu_ledger::wire::Session;
use quipu_transcript::prices::Prices;
use quipu_transcript::search::query;
use quipu_transcript::story::StoryItem;
use serde_json::Value;

use crate::home::*;
use crate::usage::{ALL, answer, groups, report, session};

const TIME: &str = "2026-02-04T10:30:00.000Z";
const LATER: &str = "2026-02-05T11:30:00.000Z";

fn usage(output: u64) -> String {
    format!(r#"{{"input_tokens":3,"output_tokens":{output}}}"#)
}

fn answer_line(uuid: u32, message: &str, time: &str, output: u64) -> String {
    answer(uuid, message, "claude-opus-4-5", time, &usage(output))
}

/// Returns a prompt, in the session of [`answer`].
fn asked(uuid: u32, text: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"00000000-0000-4000-8000-{uuid:012}","parentUuid":null,"sessionId":"00000000-0000-4000-8000-00000000000a","cwd":"/home/a/shop","timestamp":"{LATER}","message":{{"role":"user","content":"{text}"}}}}
"#
    )
}

/// Returns all reports, each with its groups, without the number of unfinished lines.
fn reports(home: &Home) -> Vec<Value> {
    let shown = ALL.map(|by| {
        let mut report = report(home, by);
        report.total.unfinished_transcripts = 0;
        let lines = report.lines.iter().chain([&report.total]);
        lines.map(|line| serde_json::to_value(line).unwrap()).collect()
    });
    shown.to_vec()
}

/// Returns the rows of all sessions, with their costs.
fn rows(home: &Home) -> Vec<Session> {
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    let costs = quipu_ledger::query::costs(&ledger, &Prices::default()).unwrap();
    let filter = Filter { all: true, ..Filter::default() };
    let mut found = quipu_ledger::query::session_rows(&ledger, &filter).unwrap();
    for (row, session) in &mut found {
        costs.add_to(*row, session);
        // These depend on the file, not on its lines.
        (session.bytes, session.modified_at) = (0, None);
    }
    let mut sessions: Vec<Session> = found.into_iter().map(|(_, session)| session).collect();
    sessions.sort_by(|a, b| a.session_id.cmp(&b.session_id));
    sessions
}

/// Returns the tree of a session without the ids of its entries: a tail has another one.
fn drawn(home: &Home, id: &str) -> Vec<String> {
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    let lines = quipu_ledger::query::tree(&ledger, id).unwrap();
    let drawn = lines.iter().map(|line| {
        let (kind, text) = (line.kind, line.text.as_deref().unwrap_or(""));
        let counts = (line.entries, line.turns, line.tool_calls);
        format!("{kind} {text} {counts:?} {} {} {}", line.depth, line.is_leaf, line.is_current)
    });
    drawn.collect()
}

/// Returns the text of each entry that is shown.
fn texts(home: &Home, id: &str) -> Vec<String> {
    let ledger = home.open();
    let mut shown = Vec::new();
    Story::find(&ledger, id)
        .unwrap()
        .each_item(&Choice::default(), &mut |item: &StoryItem<'_>| {
            shown.push(item.words().into_owned());
            ControlFlow::Continue(())
        })
        .unwrap();
    shown
}

/// Asserts that two homes have the same sessions, trees and usage.
#[track_caller]
fn same(left: &Home, right: &Home, when: &str) {
    assert_eq!(reports(left), reports(right), "{when}");
    let listed = |home: &Home| serde_json::to_value(rows(home)).unwrap();
    assert_eq!(listed(left), listed(right), "{when}");
    for session in rows(right) {
        assert_eq!(drawn(left, &session.session_id), drawn(right, &session.session_id), "{when}");
    }
}

/// Asserts that the last line of the last file is shown before its newline arrives, and counted
/// when it arrives.
#[track_caller]
fn check(files: &[(String, String)]) -> Home {
    let [before, torn, whole] = [Home::quick(), Home::quick(), Home::quick()];
    let (last_path, last_text) = files.last().unwrap();
    for (path, text) in &files[..files.len() - 1] {
        for home in [&before, &torn, &whole] {
            home.write(path, text);
        }
    }
    let lines: Vec<&str> = last_text.split_inclusive('\n').collect();
    before.write(last_path, lines[..lines.len() - 1].concat());
    torn.write(last_path, last_text.trim_end());
    whole.write(last_path, last_text);
    before.sync();
    whole.sync();
    torn.sync();
    // A tail is shown once it was seen twice.
    torn.sync_and_check();
    assert_eq!(torn.one::<i64>("SELECT count(*) FROM entries WHERE id < 0"), 1);
    assert_eq!(report(&torn, UsageBy::Day).total.unfinished_transcripts, 1);
    same(&torn, &before, "without the newline");
    for session in rows(&torn) {
        assert_eq!(texts(&torn, &session.session_id), texts(&whole, &session.session_id));
    }
    torn.append(last_path, "\n");
    torn.sync_and_check();
    same(&torn, &whole, "with the newline");
    torn
}

#[test]
fn an_answer_counts_when_its_newline_arrives() {
    check(&[(session(1), answer_line(1, "m1", TIME, 5) + &answer_line(2, "m2", LATER, 7))]);
}

/// A response is written in several lines; the largest counts, whichever has its newline.
#[test]
fn an_answer_with_earlier_lines_counts_once() {
    for output in [1, 5, 9] {
        let lines = answer_line(1, "m1", TIME, 5) + &answer_line(2, "m1", LATER, output);
        check(&[(session(1), lines)]);
    }
    let home =
        check(&[(session(1), answer_line(1, "m1", TIME, 5) + &answer_line(2, "m1", LATER, 9))]);
    assert_eq!(groups(&report(&home, UsageBy::Day)), [("2026-02-04", 9)]);
}

/// Copies in resumed sessions: one of them counts, in its session and on its day.
#[test]
fn an_answer_that_another_session_has_counts_once() {
    for (time, output) in [(TIME, 5), (TIME, 9), (LATER, 5), (LATER, 9), (TIME, 1)] {
        check(&[
            (session(1), answer_line(1, "m1", TIME, 5)),
            (session(2), answer_line(2, "m2", TIME, 5) + &answer_line(1, "m1", time, output)),
        ]);
    }
    let side = answer_line(3, "m1", TIME, 50)
        .replace("\"type\":\"ass", "\"isSidechain\":true,\"type\":\"ass");
    check(&[
        (session(1), answer_line(1, "m1", TIME, 5)),
        (session(2), answer_line(2, "m2", TIME, 5) + &side),
    ]);
}

#[test]
fn a_model_without_other_usage_counts() {
    let new = answer(2, "m2", "claude-haiku-4-5", LATER, &usage(7));
    check(&[(session(1), answer_line(1, "m1", TIME, 5) + &new)]);
    let new = answer(2, "m2", "llama-of-the-lab", LATER, &usage(7));
    check(&[(session(1), answer_line(1, "m1", TIME, 5) + &new)]);
}

/// The only line of a file has no session yet.
#[test]
fn the_only_line_of_a_file_counts() {
    let home = Home::quick();
    home.write(&session(1), answer_line(1, "m1", TIME, 5).trim_end());
    home.sync();
    home.sync();
    assert_eq!((rows(&home).len(), report(&home, UsageBy::Day).total.output_tokens), (0, 0));
    home.append(&session(1), "\n");
    home.sync();
    assert_eq!((rows(&home).len(), report(&home, UsageBy::Day).total.output_tokens), (1, 5));
}

#[test]
fn a_prompt_and_a_call_are_shown() {
    let home = check(&[(session(1), answer_line(1, "m1", TIME, 5) + &asked(2, "and now?"))]);
    assert_eq!(rows(&home)[0].last_prompts, ["and now?"]);
    let call = answer_line(2, "m2", LATER, 5).replace(
        r#"{"type":"text","text":"answer 2"}"#,
        r#"{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}"#,
    );
    check(&[(session(1), asked(1, "list them") + &call)]);
    // Its parent is the entry that it names, not the line before.
    let parent = r#""parentUuid":"00000000-0000-4000-8000-000000000001""#;
    let back = |line: String| line.replacen(r#""parentUuid":null"#, parent, 1);
    let lines = [asked(1, "a"), back(answer_line(2, "m2", LATER, 5)), back(asked(3, "b"))];
    check(&[(session(1), lines.concat())]);
}

/// A hit in a last line has no turn until the line ends.
#[test]
fn a_prompt_is_found_before_it_ends() {
    let home = Home::quick();
    let lines = asked(1, "one") + &answer_line(2, "m2", LATER, 5) + &asked(3, "a needle");
    home.write(&session(1), lines.trim_end());
    home.sync();
    home.sync();
    let turn = |word: &str| {
        let query = query::parse(word, &"2026-11-16T08:30:00[UTC]".parse().unwrap()).unwrap();
        let request = SearchRequest { query, ..SearchRequest::default() };
        quipu_ledger::search::search(&home.open(), &request).unwrap().hits[0].turn_number
    };
    assert_eq!((turn("one"), turn("needle")), (Some(1), None));
    home.append(&session(1), "\n");
    home.sync();
    assert_eq!(turn("needle"), Some(2));
}

/// A copy of a file whose last line exists already adds nothing.
#[test]
fn a_line_that_exists_already_adds_nothing() {
    let lines = asked(1, "hello") + &answer_line(2, "m2", LATER, 5);
    let home = Home::quick();
    home.write(&session(1), &lines);
    home.sync();
    let before = rows(&home);
    home.write(&format!("{}.bak", session(1)), lines.trim_end());
    home.sync();
    home.sync();
    let after = rows(&home);
    assert_eq!((after[0].turns, after[0].messages), (before[0].turns, before[0].messages));
    assert_eq!(after[0].last_prompts, ["hello"]);
}

/// An unfinished line is not counted, and reported.
#[test]
fn an_incomplete_line_is_reported() {
    let home = Home::quick();
    let half = answer_line(2, "m2", LATER, 7);
    home.write(&session(1), answer_line(1, "m1", TIME, 5) + &half[..half.len() / 2]);
    home.sync();
    home.sync();
    let shown = report(&home, UsageBy::Day).total;
    assert_eq!((shown.output_tokens, shown.unfinished_transcripts), (5, 1));
    home.append(&session(1), half[half.len() / 2..].trim_end());
    home.sync();
    home.sync();
    let shown = report(&home, UsageBy::Day).total;
    assert_eq!((shown.output_tokens, shown.unfinished_transcripts), (5, 1));
    home.append(&session(1), "\n");
    home.sync();
    let shown = report(&home, UsageBy::Day).total;
    assert_eq!((shown.output_tokens, shown.unfinished_transcripts), (12, 0));
}

/// Lines of OpenClaw, with the recorded cost.
#[test]
fn openclaws_recorded_cost_counts() {
    let line = |id: u32, cost: f64| {
        format!(
            r#"{{"type":"message","id":"{id:08x}","timestamp":"{TIME}","message":{{"role":"assistant","content":"x","model":"m","usage":{{"input":10,"output":1,"cost":{{"total":{cost}}}}}}}}}
"#
        )
    };
    let path = ".openclaw/agents/main/sessions/s1.jsonl".to_owned();
    check(&[(path, line(1, 0.5) + &line(2, 0.25))]);
}

/// A long last line, and one that is odd but complete, is shown like any other.
#[test]
fn a_long_or_odd_last_line_is_shown() {
    let long = "sea ".repeat(300_000);
    for (text, shown) in [
        (long.as_str(), "sea sea"),
        (r"half \ud83d a pair", "half \u{fffd} a pair"),
        ("a raw \t tab", "a raw \t tab"),
        ("\u{feff}mark", "\u{feff}mark"),
    ] {
        let home = check(&[(session(1), answer_line(1, "m1", TIME, 5) + &asked(2, text))]);
        let last = rows(&home)[0].last_prompts.pop().unwrap();
        assert!(last.starts_with(shown), "{last}");
    }
    let nul = |line: String| format!("\0\0{line}");
    check(&[(session(1), answer_line(1, "m1", TIME, 5) + &nul(asked(2, "after a crash")))]);
}

/// A torn line, or one in which a record is merely nested, is not an entry, wherever it is torn.
#[test]
fn a_torn_last_line_is_no_entry() {
    let first = answer_line(1, "m1", TIME, 5);
    let nested = asked(2, "x").replace(
        r#""message""#,
        r#""data":{"type":"user","uuid":"u","message":{"role":"user","content":"y"}},"message""#,
    );
    let welded = asked(2, "x").trim_end().to_owned() + &asked(3, "y");
    let home = Home::quick();
    for whole in [nested.trim_end(), welded.trim_end()] {
        for length in 1..whole.len() {
            // A complete record with nothing after it may be shown.
            if whole.get(..length).is_none_or(|part| serde_json::from_str::<Value>(part).is_ok()) {
                continue;
            }
            home.write(&session(1), format!("{first}{}", &whole[..length]));
            home.sync();
            home.sync();
            assert_eq!(home.one::<i64>("SELECT count(*) FROM entries WHERE id < 0"), 0, "{length}");
        }
    }
}
