//! Measures a usage report over a large home, against ccusage on the same files.
//!
//! Both sides are whole processes and report every day in the data. quipu also checks for new data
//! first, as it does for people.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::import::Comparison;
use crate::measure::{Workplace, best, find_program, median, milliseconds};
use crate::report::{Report, Target, Unit, note};

/// The parameters of the measurement.
pub(crate) struct Plan {
    pub(crate) size: u64,
    pub(crate) seed: u64,
    pub(crate) ccusage: Comparison,
    /// Its path, if it is not on the search path.
    pub(crate) program: Option<PathBuf>,
}

/// The number of runs of quipu. ccusage runs once for every five of them.
const ROUNDS: usize = 15;

/// The time limit of a report, in milliseconds.
const MAX_REPORT_MS: f64 = 100.0;

pub(crate) fn run(plan: &Plan, place: &Workplace) -> Result<Report> {
    let ccusage = ccusage(plan)?;
    note("generating the home");
    place.generate(plan.size, plan.seed)?;
    let import = place.import()?;

    note("usage reports");
    let (mut daily, mut without_sync, mut sessions, mut ccusage_times) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut output = Vec::new();
    for round in 0..ROUNDS {
        let run = place.quipu(&["usage", "daily", "--json"])?;
        daily.push(milliseconds(run.wall));
        output = run.stdout;
        let run = place.quipu(&["usage", "daily", "--json", "--no-sync"])?;
        without_sync.push(milliseconds(run.wall));
        sessions.push(milliseconds(place.quipu(&["usage", "session"])?.wall));
        if let Some(program) = ccusage.as_ref().filter(|_| round % 5 == 0) {
            ccusage_times.push(milliseconds(place.ccusage(program)?.wall));
        }
    }

    let mut report = Report::new("usage");
    report.fact_bytes("source", import.bytes_read);
    report.fact("records", import.records_added);
    report.fact("responses", total(&output, "responses")?);
    report.fact("tokens", total(&output, "total_tokens")?);
    for (name, times) in [
        ("usage daily", &daily),
        ("usage daily --no-sync", &without_sync),
        ("usage session", &sessions),
    ] {
        // As in an import, the best time counts: longer ones include other programs' work.
        report.row(name, best(times), Unit::Milliseconds, Target::AtMost(MAX_REPORT_MS));
    }
    report.fact("usage daily, median ms", median(daily.clone()));
    report.fact("usage daily --no-sync, median ms", median(without_sync.clone()));
    report.fact("usage session, median ms", median(sessions.clone()));
    if ccusage_times.is_empty() {
        report.fact("ccusage", "not run");
    } else {
        report.fact("ccusage daily --offline, best ms", best(&ccusage_times));
        let ccusage_best = best(&ccusage_times);
        report.row("ccusage / usage daily", ccusage_best / best(&daily), Unit::Times, Target::None);
        report.row(
            "ccusage / usage daily --no-sync",
            ccusage_best / best(&without_sync),
            Unit::Times,
            Target::AtLeast(50.0),
        );
    }
    Ok(report)
}

/// Returns a number of the last line, which has the totals.
fn total(output: &[u8], field: &str) -> Result<u64> {
    let text = String::from_utf8_lossy(output);
    let last = text.lines().last().context("`quipu usage --json` printed nothing")?;
    let line: Value = serde_json::from_str(last)?;
    line[field].as_u64().with_context(|| format!("`quipu usage --json` has no `{field}`"))
}

fn ccusage(plan: &Plan) -> Result<Option<PathBuf>> {
    let found = || plan.program.clone().or_else(|| find_program("ccusage"));
    match plan.ccusage {
        Comparison::Never => Ok(None),
        Comparison::Auto => Ok(found()),
        Comparison::Always => found().map(Some).context(
            "ccusage is not on the search path\nhint: `npm i ccusage@20.0.24 @ccusage/ccusage-linux-x64@20.0.24`, then --ccusage-at node_modules/.bin/ccusage",
        ),
    }
}
