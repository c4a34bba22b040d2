//! Output on a terminal, in a pipe and in a script.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::home::{Home, Run};

/// Every command that prints a result.
const COMMANDS: [&str; 12] = [
    "",
    "sync",
    "status",
    "cursors",
    "formats",
    "rebuild",
    "config show",
    "restore --all --to everything",
    "restore 0000 --to nothing",
    "forget 00000001 --dry-run",
    "forget 00000001 --yes",
    "forget 00000004",
];

#[test]
fn a_closed_pipe_is_success() {
    let home = Home::small();
    home.run("sync");
    for arguments in [
        &["cursors"][..],
        &["status", "--json"],
        &["formats"],
        &["show", "00000001"],
        &["show", "00000001", "--raw"],
        &["tree", "00000001"],
        &["--help"],
        &[],
    ] {
        let mut child =
            home.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let home = Home::small();
    let mut command = home.command(["formats"]);
    command.stdout(OpenOptions::new().write(true).open("/dev/full").unwrap());
    command.stderr(Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("error: cannot write to standard output\n"), "{stderr}");
}

#[test]
fn colours_are_used_only_on_request_or_on_a_terminal() {
    let home = Home::small();
    let has_colour = |arguments: &str, variables: &[(&str, &str)]| {
        let run = home.run_with(arguments, variables);
        assert!(!run.stdout.is_empty() || !run.stderr.is_empty());
        run.stdout.contains('\u{1b}') || run.stderr.contains('\u{1b}')
    };
    home.run("sync");
    for command in ["status", "restore nothing --to out", "--help", "bogus"] {
        assert!(!has_colour(command, &[]), "{command}");
        assert!(!has_colour(command, &[("NO_COLOR", "1")]), "{command}");
        assert!(!has_colour(&format!("--color never {command}"), &[]), "{command}");
        assert!(has_colour(&format!("--color always {command}"), &[]), "{command}");
        assert!(
            has_colour(&format!("--color=always {command}"), &[("NO_COLOR", "1")]),
            "{command}"
        );
    }
    home.write(".config/quipu/config.toml", "color = \"always\"");
    assert!(has_colour("status", &[]));
    assert!(!has_colour("status", &[("NO_COLOR", "1")]));
    assert!(!has_colour("status --json", &[]));
}

#[test]
fn every_line_of_json_is_an_object() {
    let home = Home::small();
    home.run("sync");
    for command in COMMANDS {
        let run = home.run(&format!("{command} --json"));
        for line in run.stdout.lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(value.is_object(), "{command}: {line}");
        }
        assert_eq!(run.stdout.is_empty(), run.code != 0, "{command}: {run}");
    }
}

/// A name that clears the screen, changes the direction of writing and hides a character.
const HOSTILE: &str = "\u{1b}[2J\u{7}\u{9b}31m\u{202e}x\u{200b}\u{7f}\ny";

#[track_caller]
fn check_harmless(run: &Run) {
    for text in [&run.stdout, &run.stderr] {
        let raw = text.chars().find(|character| {
            (character.is_control() && *character != '\n')
                || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}')
        });
        assert_eq!(raw, None, "{text:?}");
    }
}

#[test]
fn hostile_file_names_are_made_visible() {
    let home = Home::small();
    home.write(
        format!(".openclaw/agents/{HOSTILE}/sessions/{HOSTILE}.jsonl"),
        "{\"role\":\"user\",\"content\":\"hello\"}\n",
    );
    home.write(format!(".openclaw/agents/{HOSTILE}/sessions/sessions.json"), "{}");
    home.write(
        ".openclaw/agents/main/sessions/type.jsonl",
        format!("{}\n", serde_json::json!({"type": HOSTILE, "id": "a"})),
    );
    for json in ["", " --json"] {
        for command in COMMANDS {
            let run = home.run(&format!("{command}{json}"));
            check_harmless(&run);
            let _ = std::fs::remove_dir_all(home.path("everything"));
        }
    }
    assert!(
        home.run("cursors").stdout.contains(r"\u{1b}[2J\u{7}\u{9b}31m\u{202e}x\u{200b}\u{7f}\ny")
    );
    let cursors = home.run("cursors --json").json_lines();
    assert!(cursors.iter().any(|cursor| cursor["path"].as_str().unwrap().contains(HOSTILE)));
}

#[test]
fn hostile_arguments_are_made_visible() {
    let home = Home::small();
    home.run("sync");
    let check = |arguments: &[&str], code| {
        let run = home.finish(home.command(arguments));
        check_harmless(&run);
        assert_eq!(run.code, code, "{run}");
        assert!(run.stderr.contains(r"\u{1b}[2J"), "{run}");
    };
    check(&[HOSTILE], 2);
    check(&["sync", &format!("--{HOSTILE}")], 2);
    check(&["restore", "--all", "--to", "out", "--generation", HOSTILE], 2);
    check(&["restore", HOSTILE, "--to", "out"], 1);
    check(&["forget", HOSTILE], 1);
    check(&["cursors", "--ledger", HOSTILE], 2);
    check(&["sync", "--config", HOSTILE], 2);
}

#[test]
fn a_hostile_configuration_is_made_visible() {
    let home = Home::small();
    let key = r#""\u001b[2J\u202e""#;
    home.write(".config/quipu/config.toml", format!("{key} = 1\n[roots]\n{key} = 1\n"));
    let run = home.run("config show");
    check_harmless(&run);
    assert!(run.stderr.contains(r"unknown key `roots.\u{1b}[2J\u{202e}`"), "{run}");
    home.write(".config/quipu/config.toml", format!("color = {key}\n"));
    let run = home.run("config show");
    check_harmless(&run);
    assert_eq!(run.code, 2);
}
