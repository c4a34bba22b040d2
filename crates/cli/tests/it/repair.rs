//! `quipu session repair`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::home::Home;

fn repository(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// Returns a home with the session of docs/store.md.
fn example() -> Home {
    let home = Home::empty();
    home.run("session new --id example");
    append(&home, &repository("docs/examples/repair.jsonl"));
    home
}

fn append(home: &Home, lines: &str) {
    let appended = home.feed(&["session", "append", "example"], lines);
    assert_eq!(appended.code, 0, "{appended}");
}

/// The page shows these commands and their output.
#[test]
fn r103_the_example_is_true() {
    let page = repository("docs/store.md");
    let (_, section) = page.split_once("## Repair\n").unwrap();
    let (block, _) = section.split_once("```shellsession\n").unwrap().1.split_once("```").unwrap();
    let home = Home::empty();
    let mut checked = 0;
    for command in block.split("$ quipu ").skip(1) {
        let (command, expected) = command.split_once('\n').unwrap();
        if command.starts_with("session append") {
            append(&home, &repository("docs/examples/repair.jsonl"));
            continue;
        }
        let run = home.run(command);
        let lines = |text: &str| -> Vec<String> {
            let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
            // The id of the new leaf is random.
            lines.filter(|line| !line.starts_with("  continues")).map(str::to_owned).collect()
        };
        assert_eq!(lines(&run.stdout), lines(expected), "{command}: {run}");
        checked += 1;
    }
    assert_eq!(checked, 4);
}

#[test]
fn r103_the_exit_code_is_1_until_the_errors_are_repaired() {
    let home = example();
    let before = home.run("session context example --json").json()["messages"].clone();
    let report = home.run("session repair example --json");
    assert_eq!(report.code, 1, "{report}");
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(report["repaired"], false);
    assert_eq!(report["droppedLines"], 0);
    assert_eq!(report["reason"], json!(null));
    assert_eq!(report["original"], json!({"session": "example", "leaf": "00000005"}));
    let apart = json!({"kind": "resultApart", "line": 5, "entry": "00000004", "message": 4,
        "call": "call_1", "other": "00000002"});
    assert_eq!(report["changes"][1], apart);
    let applied = home.run("session repair example --apply --json");
    assert_eq!(applied.code, 0, "{applied}");
    let applied = applied.json();
    assert_eq!(applied["repaired"], true);
    assert_eq!(applied["continuation"]["session"], "example");
    let leaf = home.run("session leaf example").stdout;
    assert_eq!(applied["continuation"]["leaf"], leaf.trim());
    assert_eq!(home.run("session context example --json").json()["messages"], before);
    let again = home.run("session repair example --apply --json");
    assert_eq!((again.code, &again.json()["repaired"]), (0, &json!(false)));
    let unknown = home.run("session repair nothing");
    assert_eq!(unknown.code, 1, "{unknown}");
}

/// An export has the repaired branch, so other programs need no repair either.
#[test]
fn r103_an_export_is_repaired() {
    let home = example();
    home.run("session repair example --apply");
    let exported = home.run("export example --format openclaw --to out");
    assert_eq!(exported.code, 0, "{exported}");
    let text = fs::read_to_string(home.path("out/agents/main/sessions/example.jsonl")).unwrap();
    let last = text.lines().last().unwrap();
    assert_eq!(last, text.lines().rfind(|line| line.contains("How far are you?")).unwrap());
}

#[test]
fn r102_a_bad_header_needs_an_option() {
    let home = Home::empty();
    let prompt = r#"{"type":"message","id":"a1","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"go on"}}"#;
    let call = "\u{1b}[31mred";
    let torn = "{\"type\":\"mess";
    let result = json!({"type": "message", "id": call, "parentId": "a1", "message":
        {"role": "toolResult", "toolCallId": call, "content": "x"}});
    let lines = format!("{{\"type\":\"session\"}}\n{prompt}\n{torn}\n{result}\n");
    home.write(".openclaw/agents/main/sessions/bad.jsonl", lines);
    home.run("sync");
    let shown = home.run("session repair bad");
    assert_eq!(shown.code, 1, "{shown}");
    assert!(shown.stdout.contains("invalid session header"), "{shown}");
    assert!(!shown.stdout.contains('\u{1b}'), "{shown}");
    let refused = home.run("session repair bad --apply --json");
    assert_eq!(refused.code, 1, "{refused}");
    let refused: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!(refused["reason"], "invalid session header");
    assert_eq!((&refused["repaired"], &refused["droppedLines"]), (&json!(false), &json!(1)));
    assert_eq!(home.run("sessions --json").stdout.lines().count(), 1);
    let rebuilt = home.run("session repair bad --apply --rebuild-header --json");
    assert_eq!(rebuilt.code, 0, "{rebuilt}");
    let id = rebuilt.json()["continuation"]["session"].as_str().unwrap().to_owned();
    let clean = home.run(&format!("session repair {id}"));
    assert_eq!(clean.code, 0, "{clean}");
    assert!(clean.stdout.contains("nothing is wrong"), "{clean}");
}
