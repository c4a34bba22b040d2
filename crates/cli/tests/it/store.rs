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
    assert_eq!(made["session_key"], "agent:main:main");
    assert_eq!(made["agent"], "main");
    made["session_id"].as_str().unwrap().to_owned()
}

fn texts(home: &Home, id: &str) -> Vec<String> {
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
    assert_eq!(texts(&home, "agent:main:main"), ["hello", "hi"]);
    home.run(&format!("session mirror {id} sent"));
    assert_eq!(texts(&home, &id), ["hello", "hi", "sent"]);

    let back = home.run(&format!("session leaf {id} {leaf}")).json();
    assert_eq!(back["leaf"], leaf);
    assert_eq!(texts(&home, &id), ["hello"]);
    home.run(&format!("session branch {id} --from root --summary gone"));
    let tips = home.run(&format!("session branch {id} --json")).json_lines();
    assert_eq!(tips.len(), 2);
    assert_eq!(tips[1]["type"], "branch_summary");
    let fork = home.run(&format!("session fork {id} --at {leaf}"));
    assert_eq!(texts(&home, fork.stdout.trim()), ["hello"]);
    home.run(&format!("session label {id} {leaf} start"));
    home.run(&format!("session reset {id}"));
    assert!(texts(&home, &id).is_empty());
    // For people, everything is shown.
    let shown = home.run(&format!("show {id} --no-sync"));
    assert!(shown.stdout.contains("hello"), "{shown}");
    assert!(home.run("search hello --no-sync --json").json_lines().len() > 1);
}

#[test]
fn conflicts_and_refusals_are_reported() {
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
    assert_eq!(texts(&home, &id), ["hello", "kept"]);

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
    assert!(texts(&home, "empty").is_empty());
    assert_eq!(home.feed(&["session", "mirror", &id], "\n").code, 2);
    let taken = home.run(&format!("session new --id {id}"));
    assert_eq!(taken.code, 2);
}

#[test]
fn collected_sessions_are_read_and_forked() {
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
    {"entry_id":"9ba5fcb2","parent_id":"0a47ab14","type":"message","role":"assistant","time":1794766521666,"entries":9,"is_current":true}
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
    let id = claude[0]["session_id"].as_str().unwrap().to_owned();
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
    assert_eq!(listed, [serde_json::json!({"entry_id": entry, "label": "before \u{1b}[31mit"})]);
    let shown = home.run(&format!("session label {id}"));
    assert!(shown.stdout.contains(entry) && !shown.stdout.contains('\u{1b}'), "{shown}");
}

#[test]
fn metadata_is_patched_and_printed() {
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
    assert_eq!(stranger["is_admitted"], false);
    assert!(stranger["reply"].as_str().unwrap().contains("pairing code"));
    assert_eq!(stranger["session_id"], Value::Null);
    home.run("senders allow telegram:7");
    let routed =
        home.run("session route --channel telegram --peer 7 --text hi --workspace w").json();
    assert_eq!(routed["session_key"], "agent:main:main");
    assert_eq!(routed["bootstrap"], serde_json::json!(["AGENTS.md", "SOUL.md"]));
    assert_eq!(routed["is_created"], true);
    let again = home.feed(&["session", "route", "--channel", "telegram", "--peer", "7"], "more");
    assert_eq!(again.json()["session_id"], routed["session_id"]);
    assert_eq!(again.json()["text"], "more");
    let lines = home.feed(&["session", "route", "--channel", "telegram", "--peer", "7"], "a\n\n");
    assert_eq!(lines.json()["text"], "a\n", "a line's end is none of the message");
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
    assert_eq!(texts(&home, "agent:main:main").len(), 4);
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
    assert_eq!(texts(&home, "agent:main:main").len(), 8);
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
    assert_eq!(texts(&home, &id), ["one"]);
}

#[test]
fn a_retry_continues_unless_another_writer_has_appended() {
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
    // Another writer has appended: the old entries are printed, and nothing is written after theirs.
    let three = format!("{both}{{\"role\":\"assistant\",\"content\":\"part 3\"}}\n");
    let stopped = home.feed(&how, &three);
    assert_eq!(stopped.code, 1);
    assert!(stopped.stdout.contains("conflict"), "{}", stopped.stdout);
    assert_eq!(texts(&home, &id), ["q", "part 1", "part 2", "else"]);
    let empty = home.feed(&["session", "append", &id, "--key", ""], one);
    assert_eq!(empty.code, 2);
    // A later line never has the idempotency key of another call.
    let own = home.feed(&["session", "append", &id, "--key", "run7#2"], one).json_lines();
    assert_eq!(own[0]["repeated"], Value::Null);
    let whole = home.feed(&["session", "append", &id, "--key", "run7"], &both).json_lines();
    assert_eq!((&whole[0]["id"], &whole[1]["id"]), (&again[0]["id"], &again[1]["id"]));
}

#[test]
fn resume_names_the_commands_of_a_runtime() {
    let home = Home::empty();
    new(&home);
    snapshot!(home.run("resume agent:main:main"), @"
    exit 1
    --- stderr
    error: no agent can resume this session: a runtime keeps it in quipu
    hint: `quipu session begin agent:main:main` begins its next turn, and `quipu session context agent:main:main` prints the messages for the model
    ");
}

#[test]
fn an_import_refuses_the_folders_of_other_programs() {
    let home = Home::small();
    home.write(
        ".claude/history.jsonl",
        "{\"display\":\"hello\",\"project\":\"/w\",\"timestamp\":1}\n",
    );
    home.write(".claude/sessions/4711.json", "{\"pid\":4711}");
    for folder in ["~/.claude", "~/.claude/projects", "~/.claude/sessions"] {
        let run = home.run(&format!("import {folder}"));
        assert_eq!(run.code, 2, "{run}");
        assert!(run.stderr.contains("has no OpenClaw sessions"), "{run}");
        assert!(run.stderr.contains("quipu sync"), "{run}");
    }
    assert_eq!(home.run("sessions --format native --json").stdout, "");
}

#[test]
fn an_imported_session_is_listed_once() {
    let home = Home::empty();
    let id = "13f7ee8b-4916-4c0c-a7c3-6a9d44685f32";
    let header = format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-01-05T10:00:00.000Z\",\"cwd\":\"/w\"}}\n"
    );
    let line = |entry: &str, parent: &str, text: &str| {
        format!(
            "{{\"type\":\"message\",\"id\":\"{entry}\",\"parentId\":{parent},\"timestamp\":\"2026-01-05T10:00:01.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
        )
    };
    let path = format!(".openclaw/agents/main/sessions/{id}.jsonl");
    let mut text = format!("{header}{}", line("aaaaaaaa", "null", "a zebra crosses"));
    home.write(&path, &text);
    home.run("sync");
    let import = home.run("import ~/.openclaw");
    assert_eq!(import.code, 0, "{import}");
    let ids = |command: &str| {
        let found = home.run(command).json_lines();
        let id = |value: &Value| value["session_id"].as_str().unwrap().to_owned();
        found.iter().map(id).collect::<Vec<String>>()
    };
    let formats = |command: &str| {
        let found = home.run(command).json_lines();
        found.iter().map(|it| it["format"].as_str().unwrap().to_owned()).collect::<Vec<String>>()
    };
    assert_eq!(
        (ids("sessions --json"), formats("sessions --json")),
        (vec![id.to_owned()], vec!["native".to_owned()])
    );
    assert_eq!(formats("search zebra --json"), ["native"]);
    assert_eq!(formats("search --exact zebra --json"), ["native"]);
    // The original stays reachable, under a name of its own.
    let original = format!("openclaw/{id}");
    let mut all = ids("sessions --all --json");
    all.sort();
    assert_eq!(all, [id.to_owned(), original.clone()]);
    assert!(home.run("sessions --all").stdout.contains(&original));
    assert_eq!(home.run(&format!("show {original} --json")).code, 0);
    assert_eq!(formats("search zebra format:openclaw --json"), ["openclaw"]);
    // What OpenClaw adds later is found in the original, until it is imported.
    text += &line("bbbbbbbb", "\"aaaaaaaa\"", "the zebra is gone");
    home.write(&path, &text);
    home.run("sync");
    assert_eq!(ids("search gone --json"), [original]);
    home.run("import ~/.openclaw");
    assert_eq!(ids("search gone --json"), [id]);
    assert_eq!(home.run("doctor").code, 0);
}

#[test]
fn every_shape_of_the_documents_can_be_appended() {
    let home = Home::empty();
    let id = new(&home);
    let lines = [
        // Times in milliseconds, and types of custom entries.
        r#"{"type":"message","timestamp":1706976000000,"message":{"role":"user","content":[{"type":"text","text":"hi"}]}}"#,
        r#"{"type":"custom:openclaw.cache-ttl","data":{"x":1}}"#,
        r#"{"type":"compaction","timestamp":1706976000000,"summary":"s","compactedCount":0,"tokensBefore":100000,"tokensAfter":15000}"#,
        r#"{"type":"branch_summary","parentSession":"/path/to/parent.jsonl","branchPoint":"71443552","summary":"b"}"#,
        r#"{"role":"user","content":"What's the weather?","timestamp":"2026-02-27T08:30:00.000Z"}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"toolu_01","name":"get_weather","input":{"location":"Sydney"}}],"timestamp":"2026-02-27T08:30:01.000Z"}"#,
        r#"{"type":"message","message":{"role":"toolResult","content":[{"type":"text","text":"22"}]}}"#,
    ];
    let run = home.feed(&["session", "append", &id], &format!("{}\n", lines.join("\n")));
    assert_eq!(run.json_lines().len(), lines.len(), "{run}");
    let stored = home.run(&format!("export {id} --format jsonl")).json_lines();
    assert_eq!(stored[1]["timestamp"], "2024-02-03T16:00:00.000Z");
    assert_eq!(
        (&stored[2]["type"], &stored[2]["customType"]),
        (&"custom".into(), &"openclaw.cache-ttl".into())
    );
    assert_eq!(stored[7]["message"]["toolCallId"], "toolu_01");
    // A retry is known again; a second result has no open call.
    let result = r#"{"role":"toolResult","content":"22"}"#;
    let refused = home.feed(&["session", "append", &id], result);
    assert!(refused.stderr.contains("here 0 are"), "{refused}");
    home.feed(&["session", "append", &id], r#"{"role":"assistant","content":[{"type":"toolCall","id":"c2","name":"x","arguments":{}}]}"#);
    let again = || home.feed(&["session", "append", &id, "--key", "k"], result).json();
    assert_eq!(again()["id"], again()["id"]);
    home.feed(&["session", "append", &id], r#"{"role":"assistant","content":[{"type":"toolCall","id":"c3","name":"x","arguments":{}},{"type":"toolCall","id":"c4","name":"x","arguments":{}}]}"#);
    let refused = home.feed(&["session", "append", &id], result);
    assert!(refused.stderr.contains("here 2 are"), "{refused}");
    // A call that was answered in the other shape of results is not open.
    home.feed(
        &["session", "append", &id],
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"c5","name":"x","input":{}}]}"#,
    );
    home.feed(
        &["session", "append", &id],
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c5","content":"22"}]}"#,
    );
    let refused = home.feed(&["session", "append", &id], result);
    assert!(refused.stderr.contains("here 0 are"), "{refused}");
    assert_eq!(home.run("doctor").code, 0);
}

#[test]
fn r121_a_new_session_names_the_callers_folder() {
    let home = Home::empty();
    // The current folder is the home folder, whose path is masked in output.
    let here = Path::new("[HOME]");
    let cwd = |id: &str| {
        let lines = home.run(&format!("export {id} --format jsonl")).json_lines();
        lines[0]["cwd"].as_str().unwrap().to_owned()
    };
    let id = home.run("session new").stdout.trim().to_owned();
    assert_eq!(Path::new(&cwd(&id)), here);
    home.run("senders allow telegram:7");
    let routed = home.run("session route --channel telegram --peer 7 --text hello").json();
    assert_eq!(Path::new(&cwd(routed["session_id"].as_str().unwrap())), here);
    let routed =
        home.run("session route --channel telegram --peer 7 --cwd /elsewhere --text /new").json();
    assert_eq!(cwd(routed["session_id"].as_str().unwrap()), "/elsewhere");
}

#[test]
fn r123_the_registry_is_one_command() {
    let home = Home::small();
    home.run("sync");
    let id = new(&home);
    home.feed(&["session", "append", &id], r#"{"role":"assistant","content":"hi","model":"m","provider":"p","usage":{"input":7,"output":3}}"#);
    home.run(&format!("session meta {id} --patch {{\"channel\":\"telegram\"}}"));
    let keys = home.run("session keys --json").json_lines();
    let own = keys.iter().find(|key| key["session_id"] == *id).unwrap();
    assert_eq!(
        (&own["session_key"], &own["input_tokens"], &own["output_tokens"]),
        (&"agent:main:main".into(), &7.into(), &3.into())
    );
    assert_eq!(own["channel"], "telegram");
    assert!(own["created_at"].as_i64().unwrap() > 0);
    let count = ["sql", "SELECT count(*) AS n FROM session_keys", "--json"];
    let index = home.feed(&count, "").json_lines();
    assert_eq!(index[0]["n"].as_u64().unwrap(), keys.len() as u64);
    let shown = home.run("session keys");
    assert!(shown.stdout.contains("agent:main:main"), "{shown}");
    assert_eq!(home.run("session keys --agent none --json").stdout, "");
}

#[test]
fn the_context_of_an_empty_session_is_empty() {
    let home = Home::empty();
    home.write(".openclaw/agents/main/sessions/empty.jsonl", "");
    let header = "{\"type\":\"session\",\"version\":3,\"id\":\"bare\",\"timestamp\":\"2026-01-05T10:00:00.000Z\",\"cwd\":\"/w\"}\n";
    home.write(".openclaw/agents/main/sessions/bare.jsonl", header);
    home.run("sync");
    let made = new(&home);
    for id in ["empty", "bare", &made, "agent:main:main"] {
        let run = home.run(&format!("session context {id} --json"));
        assert_eq!(run.code, 0, "{id}: {run}");
        let context = run.json();
        assert_eq!(
            (&context["messages"], &context["leaf"]),
            (&serde_json::json!([]), &Value::Null)
        );
        assert_eq!(home.run(&format!("session context {id}")).code, 0);
    }
    assert_eq!(home.run("session context nothing").code, 1);
}
