//! Measures searches: the time inside quipu, and the time of the whole command compared with
//! ripgrep on the same files.
//!
//! The two do different work: ripgrep counts lines of raw JSON, quipu ranks entries and shows the
//! best with a snippet each. ripgrep is measured because people would use it instead.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::generate;
use crate::measure::{Finished, Workplace, best, find_program, median, milliseconds};
use crate::report::{Report, Target, Unit, note};

/// Words that may be the most frequent one of a home.
const FREQUENT_CANDIDATES: &[&str] =
    &["the", "a", "to", "in", "of", "and", "is", "for", "it", "1", "0"];

/// The arguments of a search for the first 20 hits.
const FIRST_PAGE_ARGS: &[&str] = &["search", "--no-sync", "--timing", "--json", "-n", "20"];

/// A query, for quipu and for ripgrep.
struct MeasuredQuery {
    name: &'static str,
    quipu: Vec<String>,
    ripgrep: Vec<String>,
    /// The target for the time inside quipu, in milliseconds.
    target: Target,
}

/// Imports a home and measures every query on it.
pub(crate) fn run(
    size: u64,
    home: Option<&Path>,
    runs: usize,
    seed: u64,
    mut place: Workplace,
) -> Result<Report> {
    place.use_or_generate(home, size, seed)?;
    place.import()?;
    let mut report = Report::new("search");
    let files = crate::corpus::sources(&place.home())?;
    report.fact("files", files.len());
    report.fact_bytes("source", files.iter().map(|file| file.size).sum());
    report.fact_bytes("ledger", place.ledger_bytes()?);
    let ripgrep = find_program("rg");
    if ripgrep.is_none() {
        note("ripgrep is not installed; its times are left out");
    }
    let frequent = most_frequent(&place)?;
    for query in queries(&frequent) {
        note(query.name);
        let mut inside_times = Vec::new();
        let mut command_times = Vec::new();
        let mut ripgrep_times = Vec::new();
        let mut hits = 0;
        for _ in 0..runs.max(1) {
            let arguments: Vec<&str> = query.quipu.iter().map(String::as_str).collect();
            let timed = place.quipu(&[FIRST_PAGE_ARGS, &*arguments].concat())?;
            inside_times.push(time_inside(&timed)?);
            hits = total_hits(&timed);
            let finished = place.quipu(&[&["search"], &*arguments].concat())?;
            command_times.push(milliseconds(finished.wall));
            if let Some(ripgrep) = &ripgrep {
                let arguments: Vec<&str> = query.ripgrep.iter().map(String::as_str).collect();
                ripgrep_times.push(milliseconds(place.ripgrep(ripgrep, &arguments)?.wall));
            }
        }
        let name = query.name;
        let label = format!("{name}: {} ({hits} hits)", query.quipu.join(" "));
        report.row(label, best(&inside_times), Unit::Milliseconds, query.target);
        report.row("  median", median(inside_times), Unit::Milliseconds, Target::None);
        report.row(
            "  whole command, with sync",
            best(&command_times),
            Unit::Milliseconds,
            Target::None,
        );
        if ripgrep.is_some() {
            report.row("  ripgrep", best(&ripgrep_times), Unit::Milliseconds, Target::None);
            let ratio = best(&ripgrep_times) / best(&command_times);
            report.row("  ripgrep / whole command", ratio, Unit::Times, Target::AtLeast(1.0));
        }
    }
    Ok(report)
}

/// Returns the queries, from a rare word to the most frequent one, then other kinds.
fn queries(frequent: &str) -> Vec<MeasuredQuery> {
    let word = |name, word: &str, target| MeasuredQuery {
        name,
        quipu: vec![word.to_owned()],
        ripgrep: vec!["-w".to_owned(), "-e".to_owned(), word.to_owned()],
        target,
    };
    let pattern = |name, quipu: &[&str], ripgrep: &str, target| MeasuredQuery {
        name,
        quipu: quipu.iter().map(|word| (*word).to_owned()).collect(),
        ripgrep: vec!["-e".to_owned(), ripgrep.to_owned()],
        target,
    };
    vec![
        word("rare word", generate::RARE_WORD, Target::AtMost(2.0)),
        word("common word", "migration", Target::AtMost(20.0)),
        word("frequent word", "error", Target::AtMost(20.0)),
        word("most frequent word", frequent, Target::AtMost(20.0)),
        pattern("two words", &["migration", "error"], "migration.*error", Target::None),
        pattern("phrase", &["\"the error\""], r"\bthe error\b", Target::None),
        pattern("prefix", &["conf*"], r"\bconf", Target::None),
        pattern("newest first", &["--recent", frequent], frequent, Target::AtMost(10.0)),
    ]
}

/// Returns the word with the most hits.
fn most_frequent(place: &Workplace) -> Result<String> {
    let mut most = (0, "the");
    for word in FREQUENT_CANDIDATES {
        if let Ok(found) = place.quipu(&["search", "--no-sync", "--json", "-n", "1", word]) {
            most = most.max((total_hits(&found), word));
        }
    }
    Ok(most.1.to_owned())
}

/// Returns the total number of hits, from the first line of `search --json`.
fn total_hits(found: &Finished) -> u64 {
    let first = found.stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let hit: Value = serde_json::from_slice(first).unwrap_or_default();
    hit.get("total_hits").and_then(Value::as_u64).unwrap_or_default()
}

/// Returns the milliseconds that `--timing` printed.
fn time_inside(found: &Finished) -> Result<f64> {
    let output = String::from_utf8_lossy(&found.stderr);
    output
        .lines()
        .find_map(|line| line.strip_prefix("searched in ")?.strip_suffix(" ms")?.parse().ok())
        .with_context(|| format!("`quipu search --timing` printed: {output}"))
}
