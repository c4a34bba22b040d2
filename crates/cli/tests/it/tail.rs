//! `quipu tail`, `show` and `resume` without a name, and the short names of commands.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::home::{Home, Run};

const FIRST: &str = "11111111-1111-4111-8111-111111111111";
const SECOND: &str = "22222222-2222-4222-8222-222222222222";

fn path(session: &str) -> String {
    format!(".claude/projects/-work/{session}.jsonl")
}

/// Returns one line of a session in the folder `work` of the home.
fn line(home: &Home, session: &str, role: &str, number: u8, content: &str) -> String {
    let cwd = home.path("work").canonicalize().unwrap();
    format!(
        r#"{{"type":"{role}","uuid":"abcdef{number:02}-{}","sessionId":"{session}","timestamp":"2026-02-04T10:30:{number:02}.000Z","cwd":"{}","message":{{"role":"{role}","id":"m{number}","stop_reason":"end_turn","content":{content}}}}}"#,
        &session[9..],
        cwd.display()
    ) + "\n"
}

fn append(home: &Home, session: &str, text: &str) {
    let file = OpenOptions::new().append(true).create(true).open(home.path(path(session)));
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

/// Creates a home with a folder and two sessions in it.
fn home() -> Home {
    let home = Home::empty();
    std::fs::create_dir_all(home.path("work")).unwrap();
    std::fs::create_dir_all(home.path("elsewhere")).unwrap();
    std::fs::create_dir_all(home.path(path(FIRST)).parent().unwrap()).unwrap();
    append(&home, FIRST, &line(&home, FIRST, "user", 1, r#""walrus""#));
    append(&home, SECOND, &line(&home, SECOND, "user", 2, r#""penguin""#));
    home
}

fn run_in(home: &Home, folder: &str, arguments: &[&str]) -> Run {
    let mut command = home.command(arguments);
    command.current_dir(home.path(folder));
    home.finish(command)
}

#[test]
fn without_a_name_the_last_session_of_this_folder_is_shown() {
    let home = home();
    let shown = run_in(&home, "work", &["show"]);
    assert!(shown.stdout.contains("penguin") && !shown.stdout.contains("walrus"), "{shown}");
    let resumed = run_in(&home, "work", &["resume"]);
    assert!(resumed.stdout.ends_with(&format!("claude --resume {SECOND}\n")), "{resumed}");
    let none = run_in(&home, "elsewhere", &["show"]);
    assert_eq!(none.code, 1, "{none}");
    assert!(none.stderr.contains("hint: `quipu last` shows"), "{none}");
}

#[test]
fn short_names_run_the_same_commands() {
    let home = home();
    for (short, long) in [
        ("last", "show last"),
        ("last --json", "show last --json"),
        ("--color never last", "show last"),
        ("ls --since 2026-02-01", "sessions --since 2026-02-01"),
        ("log 1111", "show 1111"),
        ("cost monthly", "usage monthly"),
        ("ls -p work -s 2026-02-01 -n 1", "sessions --project work --since 2026-02-01 --limit 1"),
        ("search walrus -p work -s 2026-02-01", "search walrus --project work --since 2026-02-01"),
    ] {
        let (one, other) = (home.run(short).timeless(), home.run(long).timeless());
        assert_eq!((one.code, &one.stdout), (other.code, &other.stdout), "{short}: {one}");
        assert_eq!(one.code, 0, "{one}");
    }
}

/// A runtime stores entries in the ledger itself: no file changes.
#[test]
fn what_another_process_stores_is_printed() {
    let home = Home::empty();
    home.run("session new --id example");
    let mut command = home.command(["tail", "example"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("example")), "the lines at the top");
    let appended = home
        .feed(&["session", "append", "example"], "{\"role\":\"user\",\"content\":\"walrus\"}\n");
    assert_eq!(appended.code, 0, "{appended}");
    assert!(lines.any(|line| line == "❯ walrus"), "tail ended");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn new_entries_are_printed_and_a_command_runs_when_the_agent_waits() {
    let home = home();
    home.run("sync -q");
    let mut command =
        home.command(["tail", "-n", "1", "--notify", "echo \"$QUIPU_EVENT $QUIPU_SESSION\" >&2"]);
    command.current_dir(home.path("work")).env("PATH", "/usr/bin:/bin");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut wait_for = |text: &str| {
        let found = lines.by_ref().map(Result::unwrap).find(|line| line.contains(text));
        assert!(found.is_some(), "no line with {text}");
    };
    wait_for("❯ penguin");
    append(
        &home,
        SECOND,
        &line(&home, SECOND, "assistant", 3, r#"[{"type":"text","text":"Herring."}]"#),
    );
    wait_for("Herring.");
    let mut events = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(events.next().unwrap().unwrap(), format!("turn_ended {SECOND}"));
    append(&home, SECOND, &line(&home, SECOND, "user", 4, r#""plan it""#));
    let question = r#"[{"type":"tool_use","id":"t1","name":"AskUserQuestion","input":{"questions":[{"question":"Which?"}]}}]"#;
    let asked = line(&home, SECOND, "assistant", 5, question).replace("end_turn", "tool_use");
    append(&home, SECOND, &asked);
    wait_for("AskUserQuestion");
    assert_eq!(events.next().unwrap().unwrap(), format!("question {SECOND}"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Reads lines of `tail --events` until one has the text.
fn wait_for_event(lines: &mut impl Iterator<Item = String>, text: &str) -> String {
    lines.find(|line| line.contains(text)).unwrap_or_else(|| panic!("no line with {text}"))
}

#[test]
fn events_go_on_after_a_cursor() {
    let home = home();
    home.run("sync -q");
    home.run("session new --id example");
    let follow = |arguments: &[&str]| {
        let mut command = home.command(["tail", "--events"].iter().chain(arguments));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        (child, lines)
    };
    let end = |mut child: std::process::Child| {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
    };
    // What an agent writes, and what another process appends.
    let (child, mut lines) = follow(&["--after", "start"]);
    wait_for_event(&mut lines, "session.created native");
    append(
        &home,
        FIRST,
        &line(&home, FIRST, "assistant", 3, r#"[{"type":"text","text":"Herring."}]"#),
    );
    let shown = wait_for_event(&mut lines, "entry.appended message assistant");
    assert!(shown.contains("11111111") && shown.ends_with("leaf.moved"), "{shown}");
    home.feed(&["session", "append", "example"], "{\"role\":\"user\",\"content\":\"walrus\"}\n");
    wait_for_event(&mut lines, "entry.appended message user, leaf.moved");
    end(child);
    // One session, as JSON, from a cursor on.
    let (child, mut lines) = follow(&["example", "--json", "--after", "start"]);
    let first = wait_for_event(&mut lines, "session.created");
    let first: serde_json::Value = serde_json::from_str(&first).unwrap();
    let second = lines.next().unwrap();
    end(child);
    let (child, mut lines) =
        follow(&["example", "--json", "--after", first["cursor"].as_str().unwrap()]);
    assert_eq!(lines.next().unwrap(), second);
    end(child);
    let refused = home.run("tail --events --after 0123456789ab.1");
    assert!(refused.stderr.contains("of another ledger"), "{refused}");
    let wrong = home.run("tail --events --after yesterday");
    assert_eq!(wrong.code, 2, "{wrong}");
}
