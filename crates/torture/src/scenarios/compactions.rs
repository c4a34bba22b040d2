//! Compactions and repairs are killed: at any time, while a program answers the question for notes or
//! stores them, and while it makes the summary or the compaction is appended.
//!
//! The session is then as before, or it was compacted or repaired once, and every note is whole.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::prng::Prng;
use crate::sandbox::{Sandbox, files};
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "compactions",
    faults: "F6",
    what: "SIGKILL of compactions and repairs between plan, notes, summary and append",
    run,
};

/// The longest running time before a kill, in microseconds. A whole compaction takes about half of
/// it on an idle machine.
const MAX_RUN_MICROS: u64 = 120_000;

/// The longest time between the beginning of a step and a kill, in microseconds. The program takes a
/// part of it.
const MAX_STEP_MICROS: u64 = 60_000;

/// The variable with the step at which the program creates the file `reached`.
const STEP: &str = "QUIPU_TORTURE_STEP";

/// The program takes a moment, so that many kills hit it.
const CONFIG: &str = r#"[store.compaction]
summariser = 'command'
command = ['sh', '-c', """
case "$(cat)" in
  *'appended to memory/'*) step=notes answer='- a note' ;;
  *) step=summary answer=summary ;;
esac
if [ "$step" = "$QUIPU_TORTURE_STEP" ]; then : > "$HOME/reached"; fi
sleep 0.03
echo "$answer"
"""]
"#;

const COMPACT: &[&str] = &["session", "compact", "s", "--keep", "100"];

const REPAIR: &[&str] = &["session", "repair", "s", "--apply"];

fn run(setting: &Setting) -> Result<Outcome> {
    let sandbox = Sandbox::new(setting)?;
    fs::create_dir_all(sandbox.home().join(".config/quipu"))?;
    fs::write(sandbox.home().join(".config/quipu/config.toml"), CONFIG)?;
    let made = sandbox.run(&["session", "new", "--id", "s"])?;
    ensure!(made.code == Some(0), "`session new`: {made:?}");
    let mut prng = Prng::new(setting.seed);
    let rounds = setting.times(6, 150);
    let mut found = Found::default();
    for round in 0..rounds {
        append(&sandbox, round)?;
        compaction(&sandbox, round, &mut prng, &mut found)
            .with_context(|| format!("round {round}"))?;
        repair(&sandbox, &mut prng, &mut found).with_context(|| format!("round {round}"))?;
    }
    sandbox.check_sound()?;
    let diagnosis = sandbox.json(&["doctor", "--deep"])?;
    ensure!(diagnosis["is_ok"] == true, "at the end: {diagnosis}");
    let Found { whole, none } = found;
    let what = format!("{} kills: {whole} wrote everything, {none} nothing", 2 * rounds);
    Ok(Outcome::Held { runs: 2 * rounds, what })
}

/// Counts of the states that were found after kills.
#[derive(Debug, Default)]
struct Found {
    whole: u64,
    none: u64,
}

impl Found {
    fn count(&mut self, is_whole: bool) {
        if is_whole { self.whole += 1 } else { self.none += 1 }
    }
}

/// Appends turns. In each, one call has no result, and one result has no call.
fn append(sandbox: &Sandbox, round: u64) -> Result<()> {
    let mut lines = String::new();
    for turn in 0..4 {
        let call = |id: &str| {
            json!({"type": "toolCall", "id": format!("{id}-{round}-{turn}"), "name": "read",
                "arguments": {"path": "a"}})
        };
        let result = |id: &str| {
            json!({"role": "toolResult", "toolCallId": format!("{id}-{round}-{turn}"),
                "toolName": "read", "content": "contents", "isError": false})
        };
        let text = "count the knots ".repeat(20);
        for message in [
            json!({"role": "user", "content": text}),
            json!({"role": "assistant", "content": [call("a"), call("b")]}),
            json!({"role": "user", "content": "and?"}),
            result("b"),
            result("c"),
            json!({"role": "assistant", "content": "There are seven."}),
        ] {
            lines.push_str(&format!("{message}\n"));
        }
    }
    let appended = sandbox.feed(&["session", "append", "s"], &lines)?;
    ensure!(appended.code == Some(0), "`session append`: {appended:?}");
    Ok(())
}

/// Runs a command, and kills it after a random time.
fn kill(sandbox: &Sandbox, prng: &mut Prng, arguments: &[&str]) -> Result<()> {
    let mut child = sandbox.command(arguments).spawn()?;
    std::thread::sleep(Duration::from_micros(prng.below(MAX_RUN_MICROS)));
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// Runs a compaction, and kills it a moment after the program has begun a step.
fn kill_at(sandbox: &Sandbox, prng: &mut Prng, step: &str) -> Result<()> {
    let reached = sandbox.home().join("reached");
    let mut child = sandbox.command(COMPACT).env(STEP, step).spawn()?;
    while !reached.exists() && child.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    ensure!(reached.exists(), "a compaction ended before the step `{step}`");
    std::thread::sleep(Duration::from_micros(prng.below(MAX_STEP_MICROS)));
    child.kill()?;
    child.wait()?;
    Ok(fs::remove_file(reached)?)
}

/// Returns the number of notes that are stored. Fails if one of them is not whole.
fn notes(sandbox: &Sandbox) -> Result<usize> {
    let folder = sandbox.data().join("workspaces/main/memory");
    let mut notes = 0;
    for text in files(&folder)?.into_values() {
        let text = String::from_utf8(text)?;
        let is_whole = text.ends_with('\n') && text.lines().all(|line| line == "- a note");
        ensure!(is_whole, "notes that are not whole: {text:?}");
        notes += text.lines().count();
    }
    Ok(notes)
}

/// Returns the messages that a model would see.
fn messages(sandbox: &Sandbox) -> Result<Vec<Value>> {
    let context = sandbox.json(&["session", "context", "s"])?;
    Ok(context["messages"].as_array().cloned().unwrap_or_default())
}

/// Returns how often the session was compacted.
fn compactions(sandbox: &Sandbox) -> Result<u64> {
    Ok(sandbox.json(&["session", "meta", "s"])?["compactionCount"].as_u64().unwrap_or_default())
}

fn compaction(sandbox: &Sandbox, round: u64, prng: &mut Prng, found: &mut Found) -> Result<()> {
    let (before, count, noted) = (messages(sandbox)?, compactions(sandbox)?, notes(sandbox)?);
    match round % 3 {
        0 => kill_at(sandbox, prng, "notes")?,
        1 => kill_at(sandbox, prng, "summary")?,
        _ => kill(sandbox, prng, COMPACT)?,
    }
    let (after, now) = (messages(sandbox)?, compactions(sandbox)?);
    found.count(now > count);
    if now == count {
        ensure!(after == before, "the context has changed without a compaction");
    } else {
        ensure!(now == count + 1, "compacted {} times by one command", now - count);
        check_compacted(&before, &after)?;
    }
    let noted_once = notes(sandbox)?;
    ensure!((noted..=noted + 1).contains(&noted_once), "noted more than once by one command");
    sandbox.json(COMPACT)?;
    ensure!(compactions(sandbox)? == count + 1, "a second call compacted again");
    // The note can be there, and not yet be counted. Then the model is asked again.
    let noted_twice = notes(sandbox)?;
    ensure!((noted + 1..=noted_once + 1).contains(&noted_twice), "{noted_twice} notes");
    check_compacted(&before, &messages(sandbox)?)
}

/// Checks that a summary replaces the beginning, and the rest stays.
fn check_compacted(before: &[Value], after: &[Value]) -> Result<()> {
    let (summary, kept) = after.split_first().context("the context is empty")?;
    ensure!(summary["role"] == "compactionSummary", "it begins with {}", summary["role"]);
    ensure!(!kept.is_empty() && before.ends_with(kept), "other messages than before");
    Ok(())
}

fn repair(sandbox: &Sandbox, prng: &mut Prng, found: &mut Found) -> Result<()> {
    let before = messages(sandbox)?;
    let leaf = sandbox.json(&["session", "leaf", "s"])?;
    kill(sandbox, prng, REPAIR)?;
    ensure!(messages(sandbox)? == before, "a repair has changed the context");
    let now = sandbox.json(&["session", "leaf", "s"])?;
    let is_repaired = sandbox.run(&["session", "repair", "s", "--json"])?.code == Some(0);
    ensure!(is_repaired || now == leaf, "a repair moved the leaf and repaired nothing");
    found.count(is_repaired);
    sandbox.json(REPAIR)?;
    ensure!(messages(sandbox)? == before, "the second repair has changed the context");
    if is_repaired {
        let again = sandbox.json(&["session", "leaf", "s"])?;
        ensure!(again == now, "it was repaired twice");
    }
    let report = sandbox.json(&["session", "repair", "s"])?;
    ensure!(report["isNeeded"] == false, "it was not repaired: {report}");
    Ok(())
}
