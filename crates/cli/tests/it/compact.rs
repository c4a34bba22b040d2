//! `quipu session headroom` and `quipu session compact`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::home::Home;

fn repository(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// Returns a home with the session of docs/compaction.md.
pub(crate) fn example() -> Home {
    let home = Home::empty();
    home.run("session new --id example");
    append(&home, &repository("docs/examples/compaction.jsonl"));
    home
}

fn append(home: &Home, lines: &str) {
    let appended = home.feed(&["session", "append", "example"], lines);
    assert_eq!(appended.code, 0, "{appended}");
}

/// Configures a program as the summariser.
fn with_program(home: &Home, script: &str) {
    home.write("script.sh", script);
    let config = format!(
        "[store.compaction]\nsummariser = 'command'\ncommand = ['sh', '{}']\n",
        home.path("script.sh").display()
    );
    home.write(".config/quipu/config.toml", config);
}

/// Gives the program a second to answer.
fn with_a_second(home: &Home) {
    let config = fs::read_to_string(home.path(".config/quipu/config.toml")).unwrap();
    home.write(".config/quipu/config.toml", format!("{config}timeout_seconds = 1\n"));
}

/// The page has the summary of its example; `documents.rs` compares the numbers.
#[test]
fn r80_the_worked_example_is_true() {
    let page = repository("docs/compaction.md");
    let home = example();
    assert_eq!(home.run("session compact example --window 900").code, 0);
    let context = home.run("session context example --json").json();
    let summary = context["messages"][0]["summary"].as_str().unwrap();
    assert!(page.contains(summary), "docs/compaction.md has another summary:\n{summary}");
}

#[test]
fn headroom_names_what_is_missing() {
    let home = Home::empty();
    home.run("session new --id example");
    append(&home, r#"{"role":"user","content":"hello"}"#);
    let unknown = home.run("session headroom example").stdout;
    let expected = "session example: 2 tokens in 1 message\n  window  not known without a model, so \
                    no compaction is due\n";
    assert_eq!(unknown, expected);
    let json = home.run("session headroom example --window 9223372036854775808 --json").json();
    assert_eq!(json["limit_tokens"], 9_223_372_036_854_751_808_u64);
    assert_eq!((&json["context_tokens"], &json["is_due"]), (&2.into(), &false.into()));
    assert_eq!(home.run("session headroom example --window 0").code, 2);
    home.write(".config/quipu/config.toml", "[models]\n'parrot' = { context_window = 1.5 }\n");
    let broken = home.run("session headroom example");
    assert!(broken.stderr.contains("is 1.5"), "{broken}");
    assert!(broken.stderr.contains("a whole number of tokens"), "{broken}");
    home.write(
        ".config/quipu/config.toml",
        "[models]\n'parrot' = { context_window = 100 }\n[store.compaction]\nreserve_tokens_floor = 10\nreserve_tokens = 20\n",
    );
    append(&home, r#"{"role":"assistant","content":"hi","provider":"none","model":"parrot"}"#);
    let known = home.run("session headroom example").stdout;
    assert!(known.contains("window    100 from [models] of the configuration\n"), "{known}");
    assert!(known.contains("reserved  20\n  due       above 80 tokens: 77 more\n"), "{known}");
}

#[test]
fn a_session_is_compacted_only_when_that_is_possible() {
    let home = example();
    let nothing = home.run("session compact example --window 90000 --json");
    assert_eq!(nothing.json(), serde_json::json!({"is_compacted": false}));
    assert_eq!(
        home.run("session compact example --window 90000").stdout,
        "nothing to compact: every message stays\n"
    );
    for wrong in ["--tokens 5", "--reason overflow", "--reason never", "--window 0", "--keep -1"] {
        assert_eq!(home.run(&format!("session compact example {wrong}")).code, 2, "{wrong}");
    }
    let refused =
        home.run("session compact example --window 100 --reason overflow --tokens 999999");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("and 50 fit"), "{refused}");
    let done = home.run("session compact example --window 900 --json").json();
    assert_eq!((&done["is_compacted"], &done["session_id"]), (&true.into(), &"example".into()));
    let again = home.run("session compact example --window 900 --json").json();
    assert_eq!(again["is_compacted"], false);
}

#[test]
fn instructions_choose_lines_of_the_summary() {
    let home = example();
    home.run("session compact example --keep 30 --instructions memchr");
    let context = home.run("session context example --json").json();
    let summary = context["messages"][0]["summary"].as_str().unwrap();
    assert!(summary.contains("## Focus\n- I decided to search"), "{summary}");
}

#[test]
fn a_program_makes_the_summary() {
    let home = example();
    with_program(&home, "grep -c '^.User]: \\|^.Assistant]: '; echo done");
    let done = home.run("session compact example --keep 30 --json").json();
    assert_eq!(done["is_compacted"], true);
    let context = home.run("session context example --json").json();
    let summary = context["messages"][0]["summary"].as_str().unwrap();
    assert!(summary.starts_with("4\ndone\n\n<modified-files>\nsrc/parser.rs"), "{summary}");
}

/// Whatever the program does, the session stays as it was, and no process is left behind.
#[test]
fn a_program_that_fails_changes_nothing() {
    let home = example();
    let before = home.run("session context example --json").json();
    for (script, why) in [
        ("exit 3", "exit status: 3"),
        ("kill -9 $$", "signal: 9"),
        ("true", "it returned nothing"),
        ("sleep 600", "no answer after 1 seconds"),
        ("trap '' TERM INT HUP; sleep 600; echo late", "no answer after 1 seconds"),
        ("printf '\\377\\376'", "not UTF-8"),
        ("head -c 2000000 /dev/zero", "it printed more than 1048576 bytes"),
        ("yes", "it printed more than 1048576 bytes"),
    ] {
        with_program(&home, script);
        if why.starts_with("no answer") {
            with_a_second(&home);
        }
        let failed = home.run("session compact example --window 900");
        assert_eq!(failed.code, 2, "{script}: {failed}");
        assert!(failed.stderr.contains("the summariser `command` failed"), "{script}: {failed}");
        assert!(failed.stderr.contains(why), "{script}: {failed}");
        assert!(!failed.stderr.contains("parser"), "{script}: {failed}");
    }
    assert_eq!(home.run("session context example --json").json(), before);
    // A child that keeps running holds the output open; it is killed with its group.
    with_program(&home, "sleep 600 & echo $! > \"$HOME/child\"; echo summary");
    let done = home.run("session compact example --window 900 --json");
    assert_eq!(done.json()["is_compacted"], true, "{done}");
    let child = fs::read_to_string(home.path("child")).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.trim()));
    assert!(stat.is_err() || stat.unwrap().contains(") Z "), "the child still runs");
    home.write(".config/quipu/config.toml", "[store.compaction]\nsummariser = 'command'\n");
    let none = home.run("session compact example --window 900");
    assert!(none.code == 2 && none.stderr.contains("has no program"), "{none}");
    // That is said before anything is planned, too.
    for command in ["compact", "flush"] {
        let dry = home.run(&format!("session {command} example --window 900 --dry-run"));
        assert!(dry.code == 2 && dry.stderr.contains("has no program"), "{dry}");
    }
}

/// The session goes elsewhere while the summary is made.
#[test]
fn a_conflict_is_planned_again() {
    let home = example();
    let quipu = env!("CARGO_BIN_EXE_quipu");
    with_program(&home, &format!("'{quipu}' session reset example >&2; echo summary"));
    let refused = home.run("session compact example --window 900 --json");
    assert!(refused.code == 1 && refused.stdout.contains("\"conflict\""), "{refused}");
    assert!(refused.stderr.contains("run the command again"), "{refused}");
    assert!(!refused.stderr.contains("append again"), "{refused}");
}

/// The reason of a compaction is that of its event.
#[test]
fn the_event_of_a_compaction_has_its_reason() {
    let home = example();
    assert_eq!(home.run("session compact example --window 900").code, 0);
    let mut command = home.command(["tail", "--events", "example", "--json", "--after", "start"]);
    let mut tail = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines().map(Result::unwrap);
    let event = lines.find(|line| line.contains("tokens_before")).unwrap();
    tail.kill().unwrap();
    tail.wait().unwrap();
    assert!(event.contains(r#""reason":"manual""#), "{event}");
}

/// A signal that ends quipu ends the program too, although it is in another group.
#[test]
fn a_program_ends_with_quipu() {
    let home = example();
    let pipe = home.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // A child of the program has the pipe open too.
    with_program(
        &home,
        "exec 3> \"$HOME/pipe\"; echo started >&3; (sleep 40; echo late >&3); echo late >&3",
    );
    let mut command = home.command(["session", "compact", "example", "--window", "900"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut quipu = command.spawn().unwrap();
    let mut pipe = BufReader::new(File::open(&pipe).unwrap());
    let mut line = String::new();
    pipe.read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    let id = quipu.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
    assert_eq!(quipu.wait().unwrap().signal(), Some(15));
    let mut rest = String::new();
    pipe.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "the program goes on");
}

#[test]
fn a_collected_session_needs_a_fork() {
    let home = Home::small();
    home.run("sync");
    let id = "00000001-0000-4000-8000-000000000001";
    let refused = home.run(&format!("session compact {id} --keep 0"));
    assert_eq!(refused.code, 2, "{refused}");
    let dry = home.run(&format!("session compact {id} --keep 0 --dry-run --json")).json();
    assert_eq!(dry["is_dry_run"], true);
    let done = home.run(&format!("session compact {id} --keep 0 --fork --json")).json();
    assert_eq!(done["tokens_before"], dry["tokens_before"]);
    let fork = done["session_id"].as_str().unwrap();
    let context: Value = home.run(&format!("session context {fork} --json")).json();
    assert_eq!(context["messages"][0]["role"], "compactionSummary");
}

#[test]
fn settings_of_compactions_are_shown_and_checked() {
    let home = Home::empty();
    home.write(
        "openclaw.json",
        "{agents: {defaults: {compaction: {reserveTokens: 5, keepRecentTokens: 6}}}}",
    );
    home.write(
        ".config/quipu/config.toml",
        "[models]\nm = { context_window = 7 }\n[store]\nopenclaw_config = '~/openclaw.json'\n\
         [store.compaction]\nkeep_recent_tokens = 8\nsummariser = 'command'\ncommand = ['a', 'b']\n",
    );
    let shown = home.run("config show --json").json_lines();
    let value = |key: &str| {
        shown.iter().find(|line| line["setting"] == key).map(|line| line["value"].clone()).unwrap()
    };
    assert_eq!(value("models.m.context_window"), 7);
    assert_eq!(value("store.compaction.reserve_tokens"), 5);
    assert_eq!(value("store.compaction.keep_recent_tokens"), 8);
    assert_eq!(value("store.compaction.summariser"), "command");
    assert_eq!(value("store.compaction.command"), serde_json::json!(["a", "b"]));
    for (config, why) in [
        ("[store.compaction]\nsummariser = 'oracle'", "use one of \"digest\", \"command\""),
        ("[store.compaction]\nkeep_recent_tokens = -1", "at least 0"),
        ("[store.compaction]\ncommand = 'a'", "must be a list of words"),
        ("[store.compaction]\ntimeout_seconds = 0", "from 1 to 3600"),
        ("[models]\nm = 7", "context_window = 32768"),
        ("[models]\nm = { context_window = 0 }", "is 0"),
    ] {
        home.write(".config/quipu/config.toml", config);
        let refused = home.run("session keys");
        assert!(refused.code == 2 && refused.stderr.contains(why), "{config}: {refused}");
    }
    home.write(
        ".config/quipu/config.toml",
        "[store.compaction]\nkeep_tokens = 1\n[models.m]\nwindow = 1",
    );
    let warned = home.run("session keys").stderr;
    assert!(warned.contains("store.compaction.keep_tokens") && warned.contains("models.m.window"));
}

/// A runtime appends, and its session is compacted when that is due.
#[test]
fn r80_an_append_compacts_when_that_is_due() {
    let home = example();
    let append = |line: &str, more: &[&str]| {
        let arguments =
            [&["session", "append", "example", "--auto-compact", "--window", "900"], more];
        home.feed(&arguments.concat(), line)
    };
    let two = "{\"role\":\"assistant\",\"content\":\"Measured.\"}\n{\"role\":\"user\",\"content\":\"Thanks.\"}\n";
    // The next line continues from the compaction.
    let lines = append(two, &["--expect-leaf", "00000009"]).json_lines();
    assert_eq!(lines[0]["leaf"], lines[0]["compaction"]["id"]);
    assert_eq!(lines[0]["compaction"]["tokens_before"], 498);
    assert!(lines[1]["compaction"].is_null() && lines[1]["compaction_due"].is_null());
    let context = home.run("session context example --json").json();
    let roles: Vec<&str> = context["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!((roles[0], roles.last().copied()), ("compactionSummary", Some("user")));
    // Without a summary, the entry is stored anyway.
    with_program(&home, "exit 1");
    let long = format!("{{\"role\":\"user\",\"content\":\"{}\"}}", "x".repeat(4000));
    let failed = append(&long, &[]);
    assert_eq!(
        (failed.code, failed.json()["compaction_due"].as_bool()),
        (0, Some(true)),
        "{failed}"
    );
    assert!(failed.stderr.contains("the session was not compacted"), "{failed}");
    let plain = home.feed(&["session", "append", "example"], &long);
    assert!(plain.json()["compaction_due"].is_null());
}

#[test]
fn a_context_fits_into_a_budget() {
    let home = example();
    let json = home.run("session context example --budget 300 --json").json();
    assert_eq!(
        (&json["shortened_results"], json["context_tokens"].as_u64() <= Some(300)),
        (&1.into(), true)
    );
    let shown = home.run("session context example --budget 320").stdout;
    assert!(shown.contains("1 result shortened"), "{shown}");
    let over = home.run("session context example --budget 10 --json");
    assert_eq!(over.code, 1, "{over}");
    assert!(over.stderr.contains("does not fit into the budget"), "{over}");
    let plain = home.run("session context example --json").json();
    assert!(plain["context_tokens"].is_null() && plain["messages"][2]["quipuShortened"].is_null());
}
