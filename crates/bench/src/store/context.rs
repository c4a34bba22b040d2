//! Measures the context of a long session, next to pi's own reader on the same lines.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use quipu_ledger::Ledger;
use serde_json::{Value, json};

use super::Plan;
use crate::measure::{Workplace, best, milliseconds};
use crate::report::{Report, Target, Unit, note};

const ROUNDS: usize = 7;

/// Entries between two compactions.
const COMPACTED_EVERY: usize = 500;

/// The id of the session.
pub(crate) const SESSION: &str = "01a1e05d-0000-7000-8000-000000000001";

/// Opens a session and builds its context repeatedly; prints the best time.
const PI_SCRIPT: &str = r#"
const { SessionManager } = await import(process.argv[2]);
let best = Infinity, messages = 0;
for (let round = 0; round < 7; round++) {
  const started = performance.now();
  messages = SessionManager.open(process.argv[3]).buildSessionContext().messages.length;
  best = Math.min(best, performance.now() - started);
}
console.log(JSON.stringify({ best, messages }));
"#;

pub(super) fn run(plan: &Plan, place: &Workplace, report: &mut Report) -> Result<()> {
    note("contexts");
    report.fact("entries", plan.entries as u64);
    // Real sessions of that length are compacted.
    measure(plan, place, report, "compacted", Some(COMPACTED_EVERY), Target::AtLeast(5.0))?;
    // Without a compaction the whole session is the context. That is several times more than any
    // model accepts, and the most work for both readers.
    measure(plan, place, report, "whole", None, Target::None)
}

fn measure(
    plan: &Plan,
    place: &Workplace,
    report: &mut Report,
    which: &str,
    compacted_every: Option<usize>,
    target: Target,
) -> Result<()> {
    place.remove_ledger()?;
    let folder = place.home().join(".openclaw/agents/main/sessions");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{SESSION}.jsonl"));
    fs::write(&file, transcript(plan.entries, compacted_every)?)?;
    place.sync()?;
    let mut times = Vec::new();
    let mut messages = 0;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let ledger = Ledger::open_read_only(&place.ledger())?;
        let session = quipu_ledger::query::find_session(&ledger, SESSION)?;
        messages = quipu_ledger::query::context_of(&ledger, session, None)?.context.messages.len();
        times.push(milliseconds(started.elapsed()));
    }
    let size = fs::metadata(&file)?.len() as f64;
    report.row(format!("{which}: session"), size, Unit::Megabytes, Target::None);
    let ours = best(&times);
    let row = format!("{which}: open and build the context");
    report.row(row, ours, Unit::Milliseconds, Target::None);
    let mut processes = Vec::new();
    for _ in 0..ROUNDS {
        let run = place.quipu(&["session", "context", SESSION, "--json"])?;
        processes.push(milliseconds(run.wall));
    }
    let row = format!("{which}: `session context --json`, a whole process");
    report.row(row, best(&processes), Unit::Milliseconds, Target::None);
    if let Some(pi) = &plan.pi {
        let theirs = time_of_pi(plan, place, pi, &file, messages)?;
        let row = format!("{which}: pi's SessionManager");
        report.row(row, theirs, Unit::Milliseconds, Target::None);
        report.row(format!("{which}: pi / quipu"), theirs / ours, Unit::Times, target);
    } else {
        report.fact("pi", "not run");
    }
    fs::remove_dir_all(place.home().join(".openclaw"))?;
    Ok(())
}

/// Returns the best time of pi's reader in milliseconds, and fails if it finds another number of
/// messages.
fn time_of_pi(
    plan: &Plan,
    place: &Workplace,
    pi: &Path,
    file: &Path,
    messages: usize,
) -> Result<f64> {
    // pi may rewrite the file that it opens.
    let copy = place.at("pi.jsonl");
    fs::copy(file, &copy)?;
    let module = fs::canonicalize(pi.join("dist/index.js"))?;
    let script = place.at("pi.mjs");
    fs::write(&script, PI_SCRIPT)?;
    let run =
        place.program(&plan.node, &[script.as_os_str(), module.as_os_str(), copy.as_os_str()])?;
    let output: serde_json::Value = serde_json::from_slice(&run.stdout)?;
    ensure!(
        output["messages"] == messages,
        "pi's reader returns {} messages, ours {messages}",
        output["messages"]
    );
    output["best"].as_f64().context("pi's reader printed no time")
}

/// Generates a long session. Each turn is a prompt, tool calls with their results, and an answer.
pub(crate) fn transcript(entries: usize, compacted_every: Option<usize>) -> Result<String> {
    let mut text = String::new();
    writeln!(
        text,
        r#"{{"type":"session","version":3,"id":"{SESSION}","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/work"}}"#
    )?;
    for number in 0..entries {
        let parent = number.checked_sub(1).map(|parent| format!("{parent:08x}"));
        let mut entry = match compacted_every {
            Some(every) if number % every == every - 1 => json!({
                "type": "compaction",
                "summary": words(number, 300),
                "firstKeptEntryId": format!("{:08x}", number - number % TURN_ENTRIES),
                "tokensBefore": 150_000,
            }),
            _ => json!({"type": "message", "message": message(number)}),
        };
        entry["id"] = json!(format!("{number:08x}"));
        entry["parentId"] = json!(parent);
        entry["timestamp"] = json!("2026-01-01T00:00:00.000Z");
        writeln!(text, "{entry}")?;
    }
    Ok(text)
}

/// The number of entries of a turn.
const TURN_ENTRIES: usize = 10;

/// Returns the message of an entry, about as long as a real one.
fn message(number: usize) -> Value {
    let time = 1_767_225_600_000_u64 + number as u64;
    let answer = |content: Value, stop: &str| {
        json!({
            "role": "assistant", "content": content, "api": "anthropic-messages",
            "provider": "anthropic", "model": "claude-opus-4-5", "stopReason": stop,
            "usage": {"input": 5, "output": 212, "cacheRead": 81_234, "cacheWrite": 1_200,
                "totalTokens": 82_651,
                "cost": {"input": 0.000_025, "output": 0.0053, "cacheRead": 0.0406,
                    "cacheWrite": 0.0075, "total": 0.053_425}},
            "timestamp": time,
        })
    };
    match number % TURN_ENTRIES {
        0 => json!({"role": "user", "timestamp": time,
            "content": [{"type": "text", "text": words(number, 40)}]}),
        last if last == TURN_ENTRIES - 1 => answer(
            json!([{"type": "thinking", "thinking": words(number, 30), "thinkingSignature": "c2ln"},
                {"type": "text", "text": words(number, 80)}]),
            "stop",
        ),
        odd if odd % 2 == 1 => answer(
            json!([{"type": "text", "text": words(number, 15)},
                {"type": "toolCall", "id": format!("toolu_{number:08}"), "name": "bash",
                    "arguments": {"command": words(number, 20), "timeout": 120}}]),
            "toolUse",
        ),
        _ => json!({"role": "toolResult", "toolCallId": format!("toolu_{:08}", number - 1),
            "toolName": "bash", "isError": false, "timestamp": time,
            "content": [{"type": "text", "text": words(number, 180).replace(" w1", "\n")}]}),
    }
}

fn words(number: usize, count: usize) -> String {
    let words: Vec<String> =
        (0..count).map(|word| format!("w{}", (number * 7919 + word * 104_729) % 5000)).collect();
    words.join(" ")
}
