//! Hostile arguments and text: an idempotency key that is used for two bodies, a query that spends
//! minutes in one SQL function, folder names that a shell could misread, control characters in
//! tables.

use std::fs;
use std::io::Read as _;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::signals::{end, is_ignored, send};
use super::sources::create;
use crate::sandbox::{Run, Sandbox};
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "inputs",
    faults: "A80 A90",
    what: "a key with two bodies, SQL that stays in a function, odd folders, controls in CSV",
    run,
};

/// Parts of names and texts that a shell, a terminal or a spreadsheet could take for a command, an
/// option or a formula.
const PIECES: [&str; 16] = [
    "-rf",
    "-",
    "a",
    " ",
    "'",
    "\"",
    "$(touch run)",
    "`touch run`",
    "; touch run;",
    "\\",
    "\n",
    "\u{1b}[2J",
    "\t",
    "\u{202e}",
    "%s",
    "=1+1",
];

/// The length in bytes of the first row of [`ENDLESS`]. It is printed before the second row is
/// computed, so a reader knows when that begins.
const FIRST_ROW: usize = 300_000;

/// A query that prints one row and then computes a second one, which would take very long.
const ENDLESS: &str = "
    SELECT CASE value WHEN 1 THEN printf('%.*c', 300000, 'x')
           ELSE instr(printf('%.*c', 4000000 + value, 'a'),
                      printf('%.*c', 2000000, 'a') || 'b') END
    FROM json_each('[1, 2]')";

fn run(setting: &Setting) -> Result<Outcome> {
    let sandbox = Sandbox::new(setting)?;
    let mut writer = Writer::new(&sandbox, setting.seed)?;
    writer.lines(&sandbox, 10)?;
    sandbox.json(&["sync"])?;
    let made = sandbox.json(&["session", "new"])?;
    let session = made["session_id"].as_str().context("a session without an id")?;
    let keys = setting.times(3, 100);
    for number in 0..keys {
        key(&sandbox, session, number).context("a key with another body")?;
    }
    let mut runs = keys;
    for (signal, number) in [("INT", 2), ("TERM", 15)] {
        if !is_ignored(number) {
            interrupted(&sandbox, signal).with_context(|| format!("SIG{signal} in a function"))?;
            runs += 1;
        }
    }
    let shells: Vec<&str> = ["sh", "dash", "bash", "zsh", "ksh"]
        .into_iter()
        .filter(|shell| Command::new(shell).args(["-c", ":"]).output().is_ok())
        .collect();
    fs::create_dir(sandbox.at("folders"))?;
    let folders = setting.times(8, 300);
    for number in 0..folders {
        let mut name: String = (0..1 + writer.below(4)).map(|_| piece(&mut writer)).collect();
        if number.is_multiple_of(4) {
            name.push('\n');
        }
        resumed(&sandbox, number, &name, &shells).with_context(|| format!("folder {name:?}"))?;
        runs += 1;
    }
    for command in [
        &["export", "--all", "--format", "csv"][..],
        &["sql", "--csv", "SELECT * FROM sessions"],
        &["sql", "--csv", "SELECT * FROM messages"],
    ] {
        let run = sandbox.run(command)?;
        ensure!(run.code == Some(0) && !run.stdout.is_empty(), "{run:?}");
        for row in run.stdout.split_terminator("\r\n") {
            check_plain(row).with_context(|| command.join(" "))?;
        }
        runs += 1;
    }
    ensure!(!sandbox.at("run").exists(), "a part of a name was run");
    // The session that `key` uses has one record of its own and one for each key. Each folder has
    // one transcript of one record.
    sandbox.check(writer.complete() + 1 + keys + folders)?;
    let what = format!("{runs} inputs; none taken for something else by {}", shells.join(", "));
    Ok(Outcome::Held { runs, what })
}

fn piece(writer: &mut Writer) -> &'static str {
    PIECES.get(writer.below(PIECES.len() as u64) as usize).copied().unwrap_or_default()
}

fn check_plain(text: &str) -> Result<()> {
    let is_odd = |character: char| character.is_control() || character == '\u{202e}';
    ensure!(!text.contains(is_odd), "a control character: {text:?}");
    Ok(())
}

/// Appends one body with a key, another body with the same key, which must be refused, and the
/// first body again, which must return the first entry.
fn key(sandbox: &Sandbox, session: &str, number: u64) -> Result<()> {
    let key = format!("key-{number}");
    let append = |text: &str| -> Result<(Run, Value)> {
        let body = json!({"role": "user", "content": text}).to_string();
        let run = sandbox.feed(&["session", "append", session, "--key", &key], &body)?;
        let answer = serde_json::from_str(&run.stdout).with_context(|| format!("{run:?}"))?;
        Ok((run, answer))
    };
    let (_, first) = append("one")?;
    let (run, answer) = append("two")?;
    let expected = json!({"error": "key_used", "id": first["id"]});
    ensure!(run.code == Some(2) && answer == expected, "{run:?}, not {expected}");
    let (run, again) = append("one")?;
    ensure!(again["id"] == first["id"], "{run:?}, not {first}");
    Ok(())
}

/// Sends a signal to a query that is inside one function of SQLite, and checks that it ends.
fn interrupted(sandbox: &Sandbox, signal: &str) -> Result<()> {
    let mut child = sandbox.command(&["sql", ENDLESS]).spawn()?;
    let mut row = vec![0; FIRST_ROW];
    child.stdout.as_mut().context("its output")?.read_exact(&mut row)?;
    ensure!(send(&mut child, signal)?, "the query ended by itself");
    let status = end(&mut child)?;
    ensure!(matches!(status.code(), None | Some(130 | 143)), "{status}");
    Ok(())
}

/// Prints the command that resumes a session of the folder `name`, and checks that it changes to
/// that folder in every shell.
fn resumed(sandbox: &Sandbox, number: u64, name: &str, shells: &[&str]) -> Result<()> {
    let parent = fs::canonicalize(sandbox.at("folders"))?;
    let folder = parent.join(format!("{number}")).join(name);
    fs::create_dir_all(&folder)?;
    // Transcripts with an odd number have a relative path.
    let cwd = if number.is_multiple_of(2) { folder.clone() } else { name.into() };
    let session = format!("{number:08x}-1111-4111-8111-111111111111");
    let line = json!({
        "type": "user", "uuid": session, "parentUuid": null, "sessionId": session, "cwd": cwd,
        "message": {"role": "user", "content": name},
    });
    let path = format!(".claude/projects/-resumed/{session}.jsonl");
    create(&sandbox.home().join(path), &format!("{line}\n"))?;
    let run = sandbox.run(&["resume", &session])?;
    ensure!(run.code == Some(0), "{run:?}");
    let command = run.stdout.trim_end_matches('\n');
    check_plain(command)?;
    for shell in shells {
        let script = format!("claude() {{ pwd -P; }}; {command}");
        let mut shell = Command::new(shell);
        sandbox.environment(shell.args(["-c", &script]));
        let entered = Run::of(shell.current_dir(parent.join(format!("{number}"))))?;
        let expected = format!("{}\n", folder.display());
        ensure!(entered.stdout == expected, "{shell:?}: {entered:?}");
    }
    Ok(())
}
