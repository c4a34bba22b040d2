//! The context of a long session, beside pi's own reader on the same lines.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::Plan;
use crate::measure::{Workplace, best, milliseconds};
use crate::report::{Report, Target, Unit, note};

const ROUNDS: usize = 7;
const SESSION: &str = "01a1e05d-0000-7000-8000-000000000001";

/// Opens a session and builds its context, again and again; prints the best time.
const PI: &str = r#"
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
    place.remove_ledger()?;
    let folder = place.home().join(".openclaw/agents/main/sessions");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{SESSION}.jsonl"));
    fs::write(&file, transcript(plan.entries)?)?;
    place.sync()?;
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let run = place.quipu(&["session", "context", SESSION, "--json"])?;
        bytes = run.stdout.len();
        times.push(milliseconds(run.wall));
    }
    report.fact("entries", plan.entries as u64);
    report.fact_bytes("context", bytes as u64);
    report.row("session context, a whole process", best(&times), Unit::Milliseconds, Target::None);
    match &plan.pi {
        None => report.fact("pi", "not run"),
        Some(pi) => {
            let theirs = pi_takes(plan, place, pi, &file)?;
            report.row("pi's SessionManager, in process", theirs, Unit::Milliseconds, Target::None);
            let ratio = theirs / best(&times);
            report.row("pi / session context", ratio, Unit::Times, Target::AtLeast(5.0));
        }
    }
    fs::remove_dir_all(place.home().join(".openclaw"))?;
    Ok(())
}

fn pi_takes(plan: &Plan, place: &Workplace, pi: &Path, file: &Path) -> Result<f64> {
    // pi may rewrite what it opens.
    let copy = place.at("pi.jsonl");
    fs::copy(file, &copy)?;
    let module = fs::canonicalize(pi.join("dist/index.js"))?;
    let script = place.at("pi.mjs");
    fs::write(&script, PI)?;
    let run =
        place.program(&plan.node, &[script.as_os_str(), module.as_os_str(), copy.as_os_str()])?;
    let said: serde_json::Value = serde_json::from_slice(&run.stdout)?;
    said["best"].as_f64().context("pi's reader said no time")
}

/// A session that goes on and on.
fn transcript(entries: usize) -> Result<String> {
    let mut text = String::new();
    writeln!(
        text,
        r#"{{"type":"session","version":3,"id":"{SESSION}","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/work"}}"#
    )?;
    for number in 0..entries {
        let message = super::runtime::message(number);
        let parent = match number {
            0 => "null".to_owned(),
            _ => format!("\"{:08x}\"", number - 1),
        };
        writeln!(
            text,
            r#"{{"type":"message","id":"{number:08x}","parentId":{parent},"timestamp":"2026-01-01T00:00:00.000Z","message":{}}}"#,
            message.trim_end()
        )?;
    }
    Ok(text)
}
