//! Collects a session while it is written, a few lines at a time. Afterwards, the ledger must be as
//! small as after one import.

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use anyhow::Result;

use crate::generate;
use crate::measure::{Workplace, median, milliseconds};
use crate::report::{Report, Target, Unit, note};

/// Writes `n_lines` lines and syncs after every `every` of them.
pub(crate) fn run(n_lines: usize, every: usize, seed: u64, place: &Workplace) -> Result<Report> {
    place.remove_ledger()?;
    place.sync()?;
    let ledger_empty = place.ledger_bytes()?;

    let (session_id, lines) = session_with(n_lines, seed);
    let folder = place.home().join(".claude/projects/-home-dev-work-lines");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{session_id}.jsonl"));
    let mut transcript = OpenOptions::new().create(true).append(true).open(&path)?;
    let (mut source, mut records_added) = (0, 0);
    let mut syncs = Vec::new();
    for (i, group) in lines.chunks(every.max(1)).enumerate() {
        if i % 200 == 0 {
            note(&format!("line {} of {n_lines}", i * every.max(1)));
        }
        let bytes = group.concat();
        transcript.write_all(bytes.as_bytes())?;
        source += bytes.len() as u64;
        let synced = place.sync()?;
        records_added += synced.records_added;
        syncs.push(milliseconds(synced.run.wall));
    }
    let ledger_live = place.ledger_bytes()?;
    // No more lines are written; the next sync does the work that earlier ones left.
    place.sync()?;
    place.sync()?;
    let ledger_settled = place.ledger_bytes()?;
    place.remove_ledger()?;
    place.sync()?;
    let ledger_at_once = place.ledger_bytes()?;

    let mut report = Report::new("lines");
    report.fact("lines", lines.len());
    report.fact("lines in a sync", every);
    report.fact("records added", records_added);
    report.fact_bytes("source", source);
    report.fact_bytes("ledger, empty", ledger_empty);
    report.fact_bytes("ledger, after the last line", ledger_live);
    report.fact_bytes("ledger, left alone", ledger_settled);
    report.fact_bytes("ledger, imported at once", ledger_at_once);
    report.fact("sync, median ms", median(syncs));
    // One session is so small that the empty tables would be the larger half.
    let ratio = ledger_settled.saturating_sub(ledger_empty) as f64 / source as f64;
    report.row("ledger, less an empty one / source", ratio, Unit::Times, Target::AtMost(0.45));
    let over_import = ledger_settled as f64 / ledger_at_once as f64;
    report.row("ledger / imported at once", over_import, Unit::Times, Target::None);
    Ok(report)
}

/// Returns a session cut after `n_lines` lines.
fn session_with(n_lines: usize, seed: u64) -> (String, Vec<String>) {
    let mut budget = n_lines * 2500;
    loop {
        let (session_id, mut lines) = generate::one_claude_session(seed, budget);
        if lines.len() >= n_lines {
            lines.truncate(n_lines);
            return (session_id, lines);
        }
        budget *= 2;
    }
}
