//! Measures search over a collected home: the time in the ledger, and the whole command next to
//! ripgrep over the same files.
//!
//! The two do different work: ripgrep counts lines of raw JSON, quipu ranks entries and shows the
//! best with a snippet each. ripgrep is what people use instead.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::generate;
use crate::measure::{Finished, Workplace, best, find_program, median, milliseconds};
use crate::report::{Report, Target, Unit, note};

/// Candidates for the most frequent word.
const FREQUENT: &[&str] = &["the", "a", "to", "in", "of", "and", "is", "for", "it", "1", "0"];

/// The command that prints the first page of hits.
const FIRST_PAGE: &[&str] = &["search", "--no-sync", "--timing", "--json", "-n", "20"];

/// A query of the measurement.
struct Question {
    name: &'static str,
    quipu: Vec<String>,
    ripgrep: Vec<String>,
    /// The target for the first page in process, in milliseconds.
    target: Target,
}

/// Measures a home.
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
    for question in questions(&frequent) {
        note(question.name);
        let mut inside = Vec::new();
        let mut whole = Vec::new();
        let mut beside = Vec::new();
        let mut hits = 0;
        for _ in 0..runs.max(1) {
            let arguments: Vec<&str> = question.quipu.iter().map(String::as_str).collect();
            let timed = place.quipu(&[FIRST_PAGE, &*arguments].concat())?;
            inside.push(searched_in(&timed)?);
            hits = total(&timed);
            whole.push(milliseconds(place.quipu(&[&["search"], &*arguments].concat())?.wall));
            if let Some(ripgrep) = &ripgrep {
                let arguments: Vec<&str> = question.ripgrep.iter().map(String::as_str).collect();
                beside.push(milliseconds(place.ripgrep(ripgrep, &arguments)?.wall));
            }
        }
        let name = question.name;
        let described = format!("{name}: {} ({hits} hits)", question.quipu.join(" "));
        report.row(described, best(&inside), Unit::Milliseconds, question.target);
        report.row("  median of all runs", median(inside), Unit::Milliseconds, Target::None);
        report.row("  whole command, with sync", best(&whole), Unit::Milliseconds, Target::None);
        if ripgrep.is_some() {
            report.row("  ripgrep", best(&beside), Unit::Milliseconds, Target::None);
            let ratio = best(&beside) / best(&whole);
            report.row("  ripgrep / whole command", ratio, Unit::Times, Target::AtLeast(1.0));
        }
    }
    Ok(report)
}

fn questions(frequent: &str) -> Vec<Question> {
    let word = |name, word: &str, target| Question {
        name,
        quipu: vec![word.to_owned()],
        ripgrep: vec!["-w".to_owned(), "-e".to_owned(), word.to_owned()],
        target,
    };
    let like = |name, quipu: &[&str], ripgrep: &str, target| Question {
        name,
        quipu: quipu.iter().map(|word| (*word).to_owned()).collect(),
        ripgrep: vec!["-e".to_owned(), ripgrep.to_owned()],
        target,
    };
    vec![
        word("rare word", generate::RARE_WORD, Target::AtMost(2.0)),
        word("middle word", "migration", Target::AtMost(20.0)),
        word("frequent word", "error", Target::AtMost(20.0)),
        word("most frequent word", frequent, Target::AtMost(20.0)),
        like("two words", &["migration", "error"], "migration.*error", Target::None),
        like("phrase", &["\"the error\""], r"\bthe error\b", Target::None),
        like("prefix", &["conf*"], r"\bconf", Target::None),
        like("newest first", &["--recent", frequent], frequent, Target::AtMost(10.0)),
    ]
}

/// Returns the word with the most hits.
fn most_frequent(place: &Workplace) -> Result<String> {
    let mut most = (0, "the");
    for word in FREQUENT {
        if let Ok(found) = place.quipu(&["search", "--no-sync", "--json", "-n", "1", word]) {
            most = most.max((total(&found), word));
        }
    }
    Ok(most.1.to_owned())
}

/// Returns the number of all hits.
fn total(found: &Finished) -> u64 {
    let first = found.stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let hit: Value = serde_json::from_slice(first).unwrap_or_default();
    hit.get("total").and_then(Value::as_u64).unwrap_or_default()
}

/// Returns the time that `--timing` printed.
fn searched_in(found: &Finished) -> Result<f64> {
    let output = String::from_utf8_lossy(&found.stderr);
    output
        .lines()
        .find_map(|line| line.strip_prefix("searched in ")?.strip_suffix(" ms")?.parse().ok())
        .with_context(|| format!("`quipu search --timing` printed: {output}"))
}
