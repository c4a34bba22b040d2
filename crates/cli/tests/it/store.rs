//! `quipu session new`, `begin`, `append` and the other commands for runtimes.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::home::{Home, snapshot};

/// Creates an empty session and returns its id.
fn new(home: &Home) -> String {
    let made = home.run("session new --key agent:main:main --json").json();
    assert_eq!(made["key"], "agent:main:main");
    assert_eq!(made["agent"], "main");
    made["session"].as_str().unwrap().to_owned()
}

fn said(home: &Home, id: &str) -> Vec<String> {
    let seen = home.run(&format!("session context {id} --json")).json();
    let messages = seen["messages"].as_array().unwrap();
    messages
        .iter()
        .map(|message| {
            let content = &message["content"];
            content.as_str().or(content[0]["text"].as_str()).unwrap().to_owned()
        })
        .collect()
}

#[test]
fn a_shell_script_can_be_a_runtime() {
    let home = Home::empty();
    let id = new(&home);
    let begun = home.run(&format!("session begin {id} --text hello")).json();
    assert_eq!(begun["leaf"], begun["id"]);
    let lines = "{\"role\":\"assistant\",\"content\":\"hi\"}\n\n{\"type\":\"custom\",\"customType\":\"x\"}\n";
    let leaf = begun["id"].as_str().unwrap();
    let answered = home.feed(&["session", "append", &id, "--expect-leaf", leaf], lines);
    let answers: Vec<Value> = answered.json_lines();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[1]["seq"].as_i64(), answers[0]["seq"].as_i64().map(|seq| seq + 1));
    assert_eq!(said(&home, "agent:main:main"), ["hello", "hi"]);
    home.run(&format!("session mirror {id} sent"));
    assert_eq!(said(&home, &id), ["hello", "hi", "sent"]);

    let back = home.run(&format!("session leaf {id} {leaf}")).json();
    assert_eq!(back["leaf"], leaf);
    assert_eq!(said(&home, &id), ["hello"]);
    home.run(&format!("session branch {id} --from root --summary gone"));
    let tips = home.run(&format!("session branch {id} --json")).json_lines();
    assert_eq!(tips.len(), 2);
    assert_eq!(tips[1]["type"], "branch_summary");
    let fork = home.run(&format!("session fork {id} --at {leaf}"));
    assert_eq!(said(&home, fork.stdout.trim()), ["hello"]);
    home.run(&format!("session label {id} {leaf} start"));
    home.run(&format!("session reset {id}"));
    assert!(said(&home, &id).is_empty());
    // For people, everything is shown.
    let shown = home.run(&format!("show {id} --no-sync"));
    assert!(shown.stdout.contains("hello"), "{shown}");
    assert!(home.run("search hello --no-sync --json").json_lines().len() > 1);
}

#[test]
fn conflicts_and_refusals_are_told_to_scripts_and_people() {
    let home = Home::empty();
    let id = new(&home);
    let begun = home.run(&format!("session begin {id} --text hello")).json();
    let late = home.feed(
        &["session", "append", &id, "--expect-leaf", "root"],
        "{\"role\":\"user\",\"content\":\"x\"}",
    );
    assert_eq!(late.code, 1, "{late}");
    let told: Value = serde_json::from_str(&late.stdout).unwrap();
    assert_eq!(told, serde_json::json!({"error": "conflict", "leaf": begun["id"]}));
    assert!(late.stderr.contains(begun["id"].as_str().unwrap()), "{late}");

    let bad = home.feed(
        &["session", "append", &id],
        "{\"role\":\"assistant\",\"content\":\"kept\"}\n{\"role\":\"wizard\",\"content\":\"secret\"}\n{\"role\":\"user\",\"content\":\"never\"}\n",
    );
    assert_eq!(bad.code, 2, "{bad}");
    assert_eq!(bad.stdout.lines().count(), 1);
    assert!(bad.stderr.contains("line 2") && bad.stderr.contains("unknown role"), "{bad}");
    assert!(!bad.stderr.contains("secret"), "{bad}");
    assert_eq!(said(&home, &id), ["hello", "kept"]);

    let torn = home
        .command(["session", "append", &id])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut torn = torn.unwrap();
    torn.stdin.take().unwrap().write_all(b"{\"role\":\"user\",\"content\":\"\xff\"}\n").unwrap();
    assert_eq!(torn.wait_with_output().unwrap().status.code(), Some(2));

    let again = ["session", "append", &id, "--key", "run-1"];
    let line = "{\"role\":\"user\",\"content\":\"once\"}";
    let first = home.feed(&again, line).json();
    let second = home.feed(&again, line).json();
    assert_eq!(first["id"], second["id"]);
    assert_eq!(second["repeated"], true);

    for wrong in ["session append nobody", "session meta nobody", "session fork nobody"] {
        assert_eq!(home.run(wrong).code, 1);
    }
    // A name that matches nothing is exit code 1, in every option.
    for wrong in [
        "leaf {} nobody",
        "branch {} --from nobody",
        "label {} nobody x",
        "fork {} --at nobody",
        "reset {} --keep nobody",
        "context {} --leaf nobody",
    ] {
        let wrong = home.run(&format!("session {}", wrong.replace("{}", &id)));
        assert_eq!(wrong.code, 1, "{wrong}");
        assert!(wrong.stderr.contains("no entry of the session matches `nobody`"), "{wrong}");
    }
    for orphan in [
        r#"{"type":"custom","customType":"x","parentId":"nobody"}"#,
        r#"{"type":"branch_summary","summary":"x","fromId":"nobody"}"#,
    ] {
        assert_eq!(home.feed(&["session", "append", &id], orphan).code, 1);
    }
    let rooted = r#"{"type":"branch_summary","summary":"x","fromId":"root"}"#;
    assert_eq!(home.feed(&["session", "append", &id], rooted).code, 0);
    let fork = home.run(&format!("session fork {id} --at root --new-id empty"));
    assert_eq!(fork.code, 0, "{fork}");
    assert!(said(&home, "empty").is_empty());
    assert_eq!(home.feed(&["session", "mirror", &id], "\n").code, 2);
    let taken = home.run(&format!("session new --id {id}"));
    assert_eq!(taken.code, 2);
}

#[test]
fn collected_sessions_are_looked_at_and_forked() {
    let home = Home::small();
    home.run("sync");
    snapshot!(home.run("session leaf 13f7ee8b"), @"
    exit 0
    --- stdout
    9ba5fcb2
    ");
    snapshot!(home.run("session branch 13f7ee8b --json"), @r#"
    exit 0
    --- stdout
    {"id":"9ba5fcb2","parent":"0a47ab14","type":"message","role":"assistant","time":1794766521666,"length":9,"is_current":true}
    "#);
    let meta = home.run("session meta 13f7ee8b");
    assert!(meta.json()["sessionId"].as_str().unwrap().starts_with("13f7ee8b"), "{meta}");
    assert_eq!(home.run("session label 13f7ee8b").code, 0);
    snapshot!(home.run("session leaf 13f7ee8b root"), @"
    exit 2
    --- stderr
    error: session 13f7ee8b-4916-4c0c-a7c3-6a9d44685f32 was collected from openclaw and is read-only here
    hint: `quipu session fork` creates a copy that can be written to
    ");
    snapshot!(home.run("session mirror 13f7ee8b hello"), @"
    exit 2
    --- stderr
    error: session 13f7ee8b-4916-4c0c-a7c3-6a9d44685f32 was collected from openclaw and is read-only here
    hint: `quipu session fork` creates a copy that can be written to
    ");
    let claude = home.run("sessions --all --no-sync --format claude-code --json").json_lines();
    let id = claude[0]["id"].as_str().unwrap().to_owned();
    let seen = home.run(&format!("session context {id} --json")).json();
    let fork = home.run(&format!("session fork {id}"));
    assert_eq!(fork.code, 0, "{fork}");
    let copied = home.run(&format!("session context {} --json", fork.stdout.trim())).json();
    assert_eq!(copied["messages"], seen["messages"]);
    // A copy of the ledger works too.
    let copy = home.path("copy.db");
    home.run(&format!("backup {}", copy.display()));
    for action in ["leaf", "branch", "meta", "label", "context"] {
        let read = home.run(&format!("--ledger {} session {action} 13f7ee8b", copy.display()));
        assert_eq!(read.code, 0, "{read}");
    }
}

#[test]
fn labels_are_listed() {
    let home = Home::empty();
    let id = new(&home);
    let begun = home.run(&format!("session begin {id} --text hello")).json();
    let entry = begun["id"].as_str().unwrap();
    home.command(["session", "label", &id, entry, "before \u{1b}[31mit"]).output().unwrap();
    let listed = home.run(&format!("session label {id} --json")).json_lines();
    assert_eq!(listed, [serde_json::json!({"target": entry, "label": "before \u{1b}[31mit"})]);
    let shown = home.run(&format!("session label {id}"));
    assert!(shown.stdout.contains(entry) && !shown.stdout.contains('\u{1b}'), "{shown}");
}

#[test]
fn metadata_in_and_out() {
    let home = Home::empty();
    let id = new(&home);
    let patch = r#"{"label":"release","deliveryContext":{"channel":"telegram"},"mine":[1]}"#;
    let all = home.feed(&["session", "meta", &id, "--patch", "-"], patch).json();
    assert_eq!(all["label"], "release");
    assert_eq!(all["mine"][0], 1);
    assert_eq!(home.run(&format!("session meta {id}")).json(), all);
    let odd = "{\"odd\":\n [1E5, 18446744073709551617, 0.10 ]}";
    let written = home.feed(&["session", "meta", &id, "--patch", "-"], odd);
    assert!(written.stdout.contains(r#""odd":[1E5,18446744073709551617,0.10]"#), "{written}");
    let written = home.run(&format!("session meta {id}"));
    assert!(written.stdout.contains(r#""odd":[1E5,18446744073709551617,0.10]"#), "{written}");
    for bad in [r#"{"a":1e400}"#, r#"{"sessionStartedAt":5}"#, "[]", "{\"a\":1"] {
        let refused = home.feed(&["session", "meta", &id, "--patch", bad], "");
        assert_eq!(refused.code, 2, "{refused}");
    }
    let sessions = home.run("sessions --no-sync --all --channel telegram --json").json_lines();
    assert_eq!(sessions.len(), 1);
    for (wrong, words) in
        [(r#"{"sendPolicy":7}"#, "allow, deny"), (r#"{"ttsAuto":"loud"}"#, "off, always, inbound")]
    {
        let wrong = home.feed(&["session", "meta", &id, "--patch", wrong], "");
        assert_eq!(wrong.code, 2);
        assert!(wrong.stderr.contains(words), "{wrong}");
    }
    // Half of a letter, as JavaScript cuts texts, stays; a number without an end is reported.
    let half = r#"{"displayName":"cut \ud83d"}"#;
    for all in [
        home.feed(&["session", "meta", &id, "--patch", half], ""),
        home.run(&format!("session meta {id}")),
    ] {
        assert!(all.stdout.contains(r#""displayName":"cut \ud83d""#), "{all}");
    }
    let endless = home.feed(&["session", "meta", &id, "--patch", r#"{"n":1e400}"#], "");
    assert!(endless.stderr.contains("`n`"), "{endless}");
}

#[test]
fn a_message_is_routed() {
    let home = Home::empty();
    home.write("w/SOUL.md", "");
    home.write("w/AGENTS.md", "");
    let stranger = home.run("session route --channel telegram --peer 7 --text hi").json();
    assert_eq!(stranger["admitted"], false);
    assert!(stranger["reply"].as_str().unwrap().contains("pairing code"));
    assert_eq!(stranger["session"], Value::Null);
    home.run("senders allow telegram:7");
    let routed =
        home.run("session route --channel telegram --peer 7 --text hi --workspace w").json();
    assert_eq!(routed["key"], "agent:main:main");
    assert_eq!(routed["bootstrap"], serde_json::json!(["AGENTS.md", "SOUL.md"]));
    assert_eq!(routed["created"], true);
    let again = home.feed(&["session", "route", "--channel", "telegram", "--peer", "7"], "more");
    assert_eq!(again.json()["session"], routed["session"]);
    assert_eq!(again.json()["message"], "more");
    let lines = home.feed(&["session", "route", "--channel", "telegram", "--peer", "7"], "a\n\n");
    assert_eq!(lines.json()["message"], "a\n", "a line's end is none of the message");
    assert_eq!(home.run("session route --channel main --peer 7 --text x").code, 2);
    assert_eq!(home.run("session route --channel telegram --chat crowd --peer 7 --text x").code, 2);
}

/// Runs the script of the documents with these prompts, and returns its output.
fn script(home: &Home, prompts: &[u8]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/agent.sh");
    let binary = Path::new(env!("CARGO_BIN_EXE_quipu")).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", binary.display());
    let mut child = std::process::Command::new("sh")
        .arg(script)
        .env_clear()
        .env("HOME", home.path(""))
        .env("PATH", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(prompts).unwrap();
    let said = child.wait_with_output().unwrap();
    assert!(said.status.success());
    String::from_utf8(said.stdout).unwrap()
}

/// The script in the documents works.
#[test]
fn the_script_in_the_documents_runs() {
    let home = Home::empty();
    let said = script(&home, b"one\ntwo\n");
    assert!(said.contains("said 1 things") && said.contains("said 2 things"), "{said}");
    assert_eq!(self::said(&home, "agent:main:main").len(), 4);
}

#[test]
fn the_script_in_the_documents_survives_rebuilds() {
    let home = Home::empty();
    new(&home);
    let is_over = AtomicBool::new(false);
    let said = std::thread::scope(|scope| {
        let rebuilds = scope.spawn(|| {
            let mut rebuilds = 0;
            while !is_over.load(Ordering::Relaxed) {
                let done = home.run("rebuild");
                assert_eq!(done.code, 0, "{done}");
                rebuilds += 1;
            }
            rebuilds
        });
        let said = script(&home, b"one\ntwo\nthree\nfour\n");
        is_over.store(true, Ordering::Relaxed);
        assert!(rebuilds.join().unwrap() > 0);
        said
    });
    assert!(said.contains("said 4 things"), "{said}");
    assert_eq!(self::said(&home, "agent:main:main").len(), 8);
}

#[test]
fn a_killed_rebuild_hides_no_session() {
    let home = Home::full();
    home.run("sync");
    let id = new(&home);
    let entry = home.run(&format!("session begin {id} --text hello")).json()["id"].clone();
    let entry = entry.as_str().unwrap();
    let short = &id[..6];
    let commands = [
        format!("session mirror {short} sent"),
        format!("session leaf {id}"),
        format!("session leaf agent:main:main {entry}"),
        format!("session begin {short} --text again"),
        format!("session fork {id} --at {entry}"),
        format!("session label {id} {entry} start"),
        format!("session meta {short}"),
        format!("session branch {id}"),
        format!("session context {short}"),
        format!("session reset {id}"),
        format!("show {short}"),
    ];
    for (number, command) in commands.iter().enumerate() {
        let mut rebuild = home.command(["rebuild"]).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(5 + 7 * (number as u64 % 4)));
        rebuild.kill().unwrap();
        rebuild.wait().unwrap();
        let done = home.run(command);
        assert_eq!(done.code, 0, "{command}: {done}");
    }
}

#[test]
fn a_key_that_was_used_for_another_body_names_its_entry() {
    let home = Home::empty();
    let id = new(&home);
    let how = ["session", "append", &id, "--key", "run7"];
    let first = home.feed(&how, "{\"role\":\"user\",\"content\":\"one\"}\n").json();
    let other = home.feed(&how, "{\"role\":\"user\",\"content\":\"two\"}\n");
    assert_eq!(other.code, 2);
    let answer: serde_json::Value = serde_json::from_str(&other.stdout).unwrap();
    assert_eq!(answer, serde_json::json!({"error": "key_used", "id": first["id"]}));
    assert!(other.stderr.contains("the idempotency key `run7` was used for entry"), "{other}");
    assert_eq!(said(&home, &id), ["one"]);
}

#[test]
fn a_retry_goes_on_from_what_it_wrote_and_not_past_others() {
    let home = Home::empty();
    let id = new(&home);
    let leaf = home.run(&format!("session begin {id} --text q")).json()["id"].clone();
    let leaf = leaf.as_str().unwrap();
    let how = ["session", "append", &id, "--expect-leaf", leaf, "--key", "run7"];
    let one = "{\"role\":\"assistant\",\"content\":\"part 1\"}\n";
    let both = format!("{one}{{\"role\":\"assistant\",\"content\":\"part 2\"}}\n");
    home.feed(&how, one);
    // No other writer came between: the retry writes the rest.
    let again = home.feed(&how, &both).json_lines();
    assert_eq!((&again[0]["repeated"], &again[1]["repeated"]), (&Value::Bool(true), &Value::Null));
    home.feed(&["session", "append", &id], "{\"role\":\"user\",\"content\":\"else\"}\n");
    // Another writer did: the old entries are printed, and nothing is written after theirs.
    let three = format!("{both}{{\"role\":\"assistant\",\"content\":\"part 3\"}}\n");
    let stopped = home.feed(&how, &three);
    assert_eq!(stopped.code, 1);
    assert!(stopped.stdout.contains("conflict"), "{}", stopped.stdout);
    assert_eq!(said(&home, &id), ["q", "part 1", "part 2", "else"]);
    let empty = home.feed(&["session", "append", &id, "--key", ""], one);
    assert_eq!(empty.code, 2);
    // The key of another call is never that of a later line.
    let own = home.feed(&["session", "append", &id, "--key", "run7#2"], one).json_lines();
    assert_eq!(own[0]["repeated"], Value::Null);
    let whole = home.feed(&["session", "append", &id, "--key", "run7"], &both).json_lines();
    assert_eq!((&whole[0]["id"], &whole[1]["id"]), (&again[0]["id"], &again[1]["id"]));
}

#[test]
fn how_to_go_on_with_a_session_that_a_runtime_keeps() {
    let home = Home::empty();
    new(&home);
    snapshot!(home.run("resume agent:main:main"), @"
    exit 1
    --- stderr
    error: no agent can resume this session: a runtime keeps it in quipu
    hint: `quipu session begin agent:main:main` begins its next turn, and `quipu session context agent:main:main` prints the messages for the model
    ");
}
