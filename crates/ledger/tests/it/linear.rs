//! Work grows linearly with its input, for any kind of transcript. Everything is counted, nothing
//! is timed.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use quipu_ledger::Ledger;
use quipu_ledger::query::{Choice, Story};
use quipu_ledger::wire::SyncReport;

use crate::home::*;

const SESSIONS: &str = ".openclaw/agents/main/sessions";
const ID: &str = "13f7ee8b-4916-4c0c-a7c3-6a9d44685f32";

/// The largest number of reader threads.
const MAX_READERS: u64 = 4;

/// Limit for the work on twice the input, in percent of the work on the input.
const MAX_PERCENT_FOR_TWICE: u64 = 230;

/// Collects, and counts the steps that SQLite takes to write.
#[track_caller]
fn sync_counted(home: &Home) -> (SyncReport, u64) {
    let mut ledger = Ledger::open_to_collect(&home.ledger_path()).unwrap();
    let steps = ledger.count_steps().unwrap();
    let report = quipu_ledger::collect::collect(&mut ledger, &home.roots(), &mut |_| {}).unwrap();
    (report, steps.load(Ordering::Relaxed))
}

#[track_caller]
fn assert_linear(what: &str, count: impl Fn(u32) -> u64, few: u32) {
    let (once, twice) = (count(few), count(2 * few));
    assert!(
        once > 0 && twice * 100 <= once * MAX_PERCENT_FOR_TWICE,
        "{what}: {once}, then {twice}"
    );
}

/// Archives of one session in a database, each longer than the one before.
#[test]
fn archives_in_a_database_are_collected_in_linear_work() {
    const FEW: u32 = 30;
    for count in [FEW, 2 * FEW] {
        let home = Home::quick();
        crate::rows::real(&home, "native", crate::rows::DATABASE);
        let conn = crate::rows::writer(&home, crate::rows::DATABASE);
        for number in 0..count {
            // The archives of two sessions alternate.
            for session in ["one", "two"] {
                let text = transcript(0..number + 1).replace(ID, session);
                let name = format!("{session}.jsonl.reset.2026-02-04T10-30-{number:05}Z");
                let generation = format!("generation-{number}");
                crate::rows::put_aside(
                    &conn,
                    session,
                    &generation,
                    "reset",
                    text.as_bytes(),
                    &name,
                );
            }
        }
        conn.close().unwrap();
        let (report, _) = sync_counted(&home);
        let records: u64 = home.one::<i64>("SELECT count(*) FROM records").cast_unsigned();
        assert!(records > u64::from(count * count), "{records}");
        assert!(report.old_lines <= 2 * records, "{} of {records}", report.old_lines);
        if count == FEW {
            home.assert_rebuilds();
        }
    }
}

/// A session in many files, each longer than the one before.
#[test]
fn growing_copies_are_derived_again_in_linear_work() {
    let per_record = |count: u32| {
        let home = Home::quick();
        for number in 0..count {
            let path = format!("{SESSIONS}/{ID}.jsonl.bak-{number}-1770193116233");
            home.write(&path, transcript(0..number + 1));
        }
        home.sync();
        let records: u64 = home.one::<i64>("SELECT count(*) FROM records").cast_unsigned();
        let mut ledger = home.open();
        let steps = ledger.count_steps().unwrap();
        quipu_ledger::rebuild::rebuild(&mut ledger, &mut |_, _| {}).unwrap();
        steps.load(Ordering::Relaxed) * 100 / records
    };
    let (once, twice) = (per_record(60), per_record(120));
    assert!(twice * 100 <= once * 130, "{once}, then {twice}");
}

/// The copies' lines are in more chunks than a reader usually keeps open.
#[test]
fn growing_copies_are_derived_again_with_each_chunk_opened_once() {
    let home = Home::quick();
    let mut text = transcript(0..0);
    for number in 0..100 {
        for message in number * 5..number * 5 + 5 {
            let long = format!("{} ", uuid(message)).repeat(40);
            text.push_str(&transcript(message..message + 1).replace("word", &long));
        }
        home.write(&format!("{SESSIONS}/{ID}.jsonl.bak-{number}-1770193116233"), &text);
    }
    home.sync();
    let chunks = home.one::<i64>("SELECT count(*) FROM chunks").cast_unsigned();
    assert!(chunks > 4, "{chunks}");
    let mut slices = 0;
    let mut count = |_, _| slices += 1;
    let opened =
        quipu_ledger::rebuild::rebuild(&mut home.open(), &mut count).unwrap().chunks_opened;
    assert!(opened <= slices * chunks, "{opened} of {chunks} chunks in {slices} slices");
}

/// A deep check compares each copy of a growing session with the ledger.
#[test]
fn growing_copies_are_compared_in_linear_work() {
    let home = Home::quick();
    for number in 0..40_u32 {
        // Each sync stores the newest message in a chunk of its own.
        let mut text = transcript(0..0);
        for message in 0..=number {
            let noise: String = (0..40_000)
                .map(|letter| char::from(b'a' + (letter * (message + 7) % 23) as u8))
                .collect();
            text.push_str(&transcript(message..message + 1).replace("word", &noise));
        }
        home.write(&format!("{SESSIONS}/{ID}.jsonl.bak-{number}-1770193116233"), text);
        home.sync();
    }
    let chunks = home.one::<i64>("SELECT count(*) FROM chunks").cast_unsigned();
    let found = quipu_ledger::doctor::doctor(&home.ledger_path(), &home.roots(), true, &mut |_| {});
    assert!(found.is_ok && chunks > 4, "{chunks}: {found:?}");
    assert!(found.chunks_opened <= 2 * chunks, "{} of {chunks}", found.chunks_opened);
}

/// The ids that a session's calls and results have.
#[derive(Clone, Copy)]
enum Ids {
    EndAlike,
    AreOne,
    HaveNoCalls,
}

/// Returns a home with a collected session of this many calls and their results.
fn calls(count: u32, ids: Ids) -> Home {
    let home = Home::quick();
    let mut text = line("user", &uuid(0), None, "begin");
    let mut last = 0;
    let mut add = |role: &str, content: &str| {
        let parent = uuid(last);
        last += 1;
        text.push_str(&line_of(role, &uuid(last), Some(&parent), content));
    };
    for number in 0..count {
        let id = match ids {
            Ids::AreOne => "toolu_01same".to_owned(),
            Ids::EndAlike | Ids::HaveNoCalls => format!("toolu_01{number:08}same"),
        };
        if !matches!(ids, Ids::HaveNoCalls) {
            add(
                "assistant",
                &format!(
                    r#"[{{"type":"tool_use","id":"{id}","name":"Bash","input":{{"command":"ls {number}"}}}}]"#
                ),
            );
        }
        add(
            "user",
            &format!(r#"[{{"type":"tool_result","tool_use_id":"{id}","content":"out {number}"}}]"#),
        );
    }
    home.write(MAIN, text);
    home.sync();
    home
}

#[test]
fn calls_whose_ids_end_alike_take_linear_work() {
    for (name, ids) in [
        ("ids that end alike", Ids::EndAlike),
        ("one id", Ids::AreOne),
        ("results without calls", Ids::HaveNoCalls),
    ] {
        let shown = |count| {
            let home = calls(count, ids);
            let session: String = home.one("SELECT session_id FROM sessions");
            let (shown, steps) = home.steps(|ledger| {
                let mut shown = 0;
                let story = Story::find(ledger, &session).unwrap();
                let all = Choice::default();
                story
                    .each_item(&all, &mut |_| {
                        shown += 1;
                        ControlFlow::Continue(())
                    })
                    .unwrap();
                shown
            });
            assert!(shown >= count, "{name}: {shown}");
            steps
        };
        assert_linear(name, shown, 300);
    }
}

/// Returns a transcript with a header and these messages.
fn transcript(range: std::ops::Range<u32>) -> String {
    let mut text = format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{ID}\",\"timestamp\":\"2026-02-04T10:30:00.000Z\",\"cwd\":\"/p\"}}\n"
    );
    for number in range {
        let parent = match number {
            0 => "null".to_owned(),
            _ => format!("\"{:08x}\"", number - 1),
        };
        text.push_str(&format!(
            "{{\"type\":\"message\",\"id\":\"{number:08x}\",\"parentId\":{parent},\"timestamp\":\"2026-02-04T10:31:00.000Z\",\
             \"message\":{{\"role\":\"user\",\"content\":\"word{number}\"}}}}\n"
        ));
    }
    text
}

#[test]
fn copies_of_a_session_are_collected_in_linear_work() {
    let grow = |number: u32| transcript(0..number + 1);
    let alike = |_| transcript(0..5);
    let apart = |number: u32| transcript(number..number + 1);
    // Enough bytes to be sealed. The headers are stored once, so that no chunk ends before a record.
    let long = |number: u32| apart(number).replace("word", &"long ".repeat(40));
    let backup = |number: u32| format!("{ID}.jsonl.bak-{number}-1770193116233");
    let cold = |number: u32| format!("cold/{number:064x}.jsonl");
    type Named<'n> = &'n dyn Fn(u32) -> String;
    let kinds: [(&str, Named<'_>, Named<'_>, u32); 5] = [
        ("growing backups", &backup, &grow, 60),
        ("backups", &backup, &alike, 150),
        ("files with one header", &cold, &apart, 150),
        ("files with one header and sealed records", &cold, &long, 1200),
        ("files that are one", &cold, &alike, 150),
    ];
    for (what, name, text, few) in kinds {
        let mut per_record = Vec::new();
        for count in [few, 2 * few] {
            let home = Home::quick();
            home.write(&format!("{SESSIONS}/{}", name(0)), text(0));
            home.sync();
            for number in 1..count {
                home.write(&format!("{SESSIONS}/{}", name(number)), text(number));
            }
            let (report, steps) = sync_counted(&home);
            assert_eq!(report.sources_added, u64::from(count) - 1, "{what}");
            // Each reader considers each record at most once.
            let records: u64 = home.one::<i64>("SELECT count(*) FROM records").cast_unsigned();
            let most = MAX_READERS * records;
            assert!(report.old_lines <= most, "{what}: {} of {records}", report.old_lines);
            per_record.push(steps * 100 / records);
            if count == few {
                home.assert_restores();
                home.assert_rebuilds();
            }
        }
        // The cost of a record does not grow with the number of records.
        let (once, twice) = (per_record[0], per_record[1]);
        assert!(twice * 100 <= once * 130, "{what}: {once}, then {twice}");
    }
}
