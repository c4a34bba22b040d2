//! Work grows with what there is to do, whatever a transcript is made of. Everything here is
//! counted, nothing is timed.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use quipu_ledger::wire::SyncReport;
use quipu_ledger::{Choice, Ledger, Story};

use crate::home::*;

const SESSIONS: &str = ".openclaw/agents/main/sessions";
const ID: &str = "13f7ee8b-4916-4c0c-a7c3-6a9d44685f32";

/// Readers are as many as cores, up to this.
const MOST_READERS: u64 = 4;

/// Twice as much takes at most so many hundredths of the work.
const TWICE: u64 = 230;

/// Collects, and counts the steps that SQLite takes to write.
#[track_caller]
fn sync_counted(home: &Home) -> (SyncReport, u64) {
    let mut ledger = Ledger::open_to_collect(&home.ledger_path()).unwrap();
    let steps = ledger.count_steps().unwrap();
    let report = quipu_ledger::collect(&mut ledger, &home.roots(), &mut |_| {}).unwrap();
    (report, steps.load(Ordering::Relaxed))
}

#[track_caller]
fn assert_linear(what: &str, count: impl Fn(u32) -> u64, few: u32) {
    let (once, twice) = (count(few), count(2 * few));
    assert!(once > 0 && twice * 100 <= once * TWICE, "{what}: {once}, then {twice}");
}

/// What a session's calls and results look like.
#[derive(Clone, Copy)]
enum Ids {
    EndAlike,
    AreOne,
    HaveNoCalls,
}

/// A session of so many calls and their results, collected.
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
fn calls_whose_ids_end_alike_are_told_in_linear_work() {
    for (name, ids) in [
        ("ids that end alike", Ids::EndAlike),
        ("one id", Ids::AreOne),
        ("results without calls", Ids::HaveNoCalls),
    ] {
        let told = |count| {
            let home = calls(count, ids);
            let session: String = home.one("SELECT session_id FROM sessions");
            let (told, steps) = home.steps(|ledger| {
                let mut told = 0;
                let story = Story::find(ledger, &session).unwrap();
                let all = Choice::default();
                story
                    .tell(&all, &mut |_| {
                        told += 1;
                        ControlFlow::Continue(())
                    })
                    .unwrap();
                told
            });
            assert!(told >= count, "{name}: {told}");
            steps
        };
        assert_linear(name, told, 300);
    }
}

/// A transcript with a header and these messages.
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
    let backup = |number: u32| format!("{ID}.jsonl.bak-{number}-1770193116233");
    let cold = |number: u32| format!("cold/{number:064x}.jsonl");
    type Named<'n> = &'n dyn Fn(u32) -> String;
    let kinds: [(&str, Named<'_>, Named<'_>, u32); 4] = [
        ("growing backups", &backup, &grow, 60),
        ("backups", &backup, &alike, 150),
        ("files with one header", &cold, &apart, 150),
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
            // Each reader looks at each record once, at most.
            let records: u64 = home.one::<i64>("SELECT count(*) FROM records").cast_unsigned();
            let most = MOST_READERS * records;
            assert!(report.old_lines <= most, "{what}: {} of {records}", report.old_lines);
            per_record.push(steps * 100 / records);
            if count == few {
                home.assert_restores();
                home.assert_rebuilds();
            }
        }
        // A record costs the same among twice as many.
        let (once, twice) = (per_record[0], per_record[1]);
        assert!(twice * 100 <= once * 130, "{what}: {once}, then {twice}");
    }
}
