//! Measures daily reading on a large ledger: the list of sessions, the story of one, an export.
//!
//! Measures whole commands, including the start of the process and the check for new data, because
//! a person waits for all of it. Exports one huge session, which must not be held in memory.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::generate;
use crate::measure::{Workplace, best, median, milliseconds};
use crate::report::{Report, Target, Unit, note};

/// The time limit of a command, in milliseconds.
const MAX_ANSWER_MS: f64 = 100.0;

/// The session with the number of lines nearest to this one is shown.
const SHOWN_LINES: u64 = 1000;

/// The memory limit of an export in bytes, for any size of session.
const MAX_EXPORT_MEMORY_BYTES: f64 = 150e6;

/// The export formats of the huge session.
const FORMATS: &[&str] = &["md", "html", "json", "jsonl"];

/// The parameters of the measurement.
pub(crate) struct Plan<'a> {
    pub(crate) size: u64,
    /// An existing home.
    pub(crate) home: Option<&'a Path>,
    pub(crate) runs: usize,
    /// Bytes of the exported session; 0 for no export.
    pub(crate) huge: u64,
    pub(crate) seed: u64,
}

pub(crate) fn run(plan: &Plan<'_>, mut place: Workplace) -> Result<Report> {
    place.use_or_generate(plan.home, plan.size, plan.seed)?;
    let import = place.import()?;
    let mut report = Report::new("read");
    report.fact_bytes("source", import.bytes_read);
    report.fact("records", import.records_added);
    let (id, lines, sessions) = session_to_show(&place)?;
    report.fact("sessions", sessions);
    report.fact("lines of the session that is shown", lines);
    for (name, arguments) in [
        ("sessions", vec!["sessions"]),
        ("sessions --json, all of them", vec!["sessions", "--json"]),
        ("projects", vec!["projects"]),
        ("show", vec!["show", &id]),
        ("show --full", vec!["show", &id, "--full"]),
        ("tree", vec!["tree", &id]),
        ("usage", vec!["usage"]),
    ] {
        note(name);
        let mut times = Vec::new();
        for _ in 0..plan.runs.max(1) {
            times.push(milliseconds(place.quipu(&arguments)?.wall));
        }
        let has_target = matches!(name, "sessions" | "show" | "usage");
        let target = if has_target { Target::AtMost(MAX_ANSWER_MS) } else { Target::None };
        report.row(name, best(&times), Unit::Milliseconds, target);
        report.row("  median of all runs", median(times), Unit::Milliseconds, Target::None);
    }
    if plan.huge > 0 && plan.home.is_none() {
        exports(plan, &place, &mut report)?;
    }
    Ok(report)
}

/// Returns the id of the session to show, its number of lines, and the number of all sessions.
fn session_to_show(place: &Workplace) -> Result<(String, u64, u64)> {
    let listed = place.quipu(&["sessions", "--json"])?;
    let text = String::from_utf8_lossy(&listed.stdout);
    let mut sessions = Vec::new();
    for line in text.lines() {
        let session: Value = serde_json::from_str(line)?;
        let id = session["session_id"].as_str().context("a session without an id")?.to_owned();
        sessions.push((id, session["lines"].as_u64().unwrap_or_default()));
    }
    let count = sessions.len() as u64;
    let nearest = sessions.into_iter().min_by_key(|(_, lines)| lines.abs_diff(SHOWN_LINES));
    let (id, lines) = nearest.context("`quipu sessions` lists nothing")?;
    Ok((id, lines, count))
}

/// Exports a session that is much larger than the memory limit of an export.
fn exports(plan: &Plan<'_>, place: &Workplace, report: &mut Report) -> Result<()> {
    note("a huge session");
    let budget = usize::try_from(plan.huge)?;
    let (id, lines) = generate::one_claude_session(plan.seed.wrapping_add(1), budget);
    let folder = place.home().join(".claude/projects/-home-dev-work-huge");
    fs::create_dir_all(&folder)?;
    let text = lines.concat();
    report.fact_bytes("huge session", text.len() as u64);
    report.fact("its lines", lines.len());
    fs::write(folder.join(format!("{id}.jsonl")), text)?;
    drop(lines);
    place.sync()?;
    for format in FORMATS {
        for redact in [false, true] {
            let to = place.at(&format!("export-{redact}.{format}"));
            let path = to.to_string_lossy().into_owned();
            let mut arguments = vec!["export", &id, "--format", format, "--to", &path];
            if redact {
                arguments.push("--redact");
            }
            note(&arguments.join(" "));
            let run = place.quipu(&arguments)?;
            let name = match redact {
                true => format!("export --format {format} --redact"),
                false => format!("export --format {format}"),
            };
            report.row(name, milliseconds(run.wall), Unit::Milliseconds, Target::None);
            let peak = run.peak_memory as f64;
            report.row(
                "  peak memory",
                peak,
                Unit::Megabytes,
                Target::AtMost(MAX_EXPORT_MEMORY_BYTES),
            );
            fs::remove_file(&to).with_context(|| format!("no export at {path}"))?;
        }
    }
    Ok(())
}
