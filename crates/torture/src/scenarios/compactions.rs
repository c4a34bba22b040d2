//! Compactions and repairs are killed at random times: while they plan, while a program makes the
//! summary, and while they append.
//!
//! The session is then as before, or it was compacted or repaired once.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::prng::Prng;
use crate::sandbox::Sandbox;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "compactions",
    faults: "F6",
    what: "SIGKILL of compactions and repairs between plan, summary and append",
    run,
};

/// The longest running time before a kill, in microseconds. A whole compaction takes about half of
/// it on an idle machine.
const MAX_RUN_MICROS: u64 = 120_000;

/// The summariser takes a moment, so that many kills hit it.
const CONFIG: &str = "[store.compaction]
summariser = 'command'
command = ['sh', '-c', 'cat > /dev/null; sleep 0.03; echo summary']
";

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
        compaction(&sandbox, &mut prng, &mut found).with_context(|| format!("round {round}"))?;
        repair(&sandbox, &mut prng, &mut found).with_context(|| format!("round {round}"))?;
    }
    sandbox.check_sound()?;
    let diagnosis = sandbox.json(&["doctor", "--deep"])?;
    ensure!(diagnosis["is_ok"] == true, "at the end: {diagnosis}");
    let Found { whole, none } = found;
    let what = format!("{} kills: {whole} wrote everything, {none} nothing", 2 * rounds);
    Ok(Outcome::Held { runs: 2 * rounds, what })
}

/// What was found after a kill.
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

/// Returns the messages that a model would see.
fn messages(sandbox: &Sandbox) -> Result<Vec<Value>> {
    let context = sandbox.json(&["session", "context", "s"])?;
    Ok(context["messages"].as_array().cloned().unwrap_or_default())
}

/// Returns how often the session was compacted.
fn compactions(sandbox: &Sandbox) -> Result<u64> {
    Ok(sandbox.json(&["session", "meta", "s"])?["compactionCount"].as_u64().unwrap_or_default())
}

fn compaction(sandbox: &Sandbox, prng: &mut Prng, found: &mut Found) -> Result<()> {
    let (before, count) = (messages(sandbox)?, compactions(sandbox)?);
    kill(sandbox, prng, COMPACT)?;
    let (after, now) = (messages(sandbox)?, compactions(sandbox)?);
    found.count(now > count);
    if now == count {
        ensure!(after == before, "the context has changed without a compaction");
    } else {
        ensure!(now == count + 1, "compacted {} times by one command", now - count);
        check_compacted(&before, &after)?;
    }
    sandbox.json(COMPACT)?;
    ensure!(compactions(sandbox)? == count + 1, "a second call compacted again");
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
