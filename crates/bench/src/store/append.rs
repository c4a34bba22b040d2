//! Measures the durable appends of one client: first through the library, then through a pipe to
//! the command. After each append it writes the same line to a plain file and calls `fdatasync`,
//! and compares the two times.

use std::fs::File;
use std::io::Write as _;
use std::time::Instant;

use anyhow::Result;
use quipu_ledger::store::{Entry, NewSession, Store};

use super::runtime::{Runtime, message};
use crate::measure::{Workplace, median, milliseconds};
use crate::report::{Report, Target, Unit, note};

pub(super) fn run(appends: usize, place: &Workplace, report: &mut Report) -> Result<()> {
    note("durable appends");
    place.remove_ledger()?;
    let store = Store::open(place.ledger())?;
    let session = store.create(&NewSession::default())?;
    let (ours, theirs) = in_turns(appends, place, &mut |line| {
        let started = Instant::now();
        session.append(Entry::json(line))?;
        Ok(milliseconds(started.elapsed()))
    })?;
    drop((session, store));
    report.fact("appends", appends as u64);
    let (ours_median, theirs_median) = (median(ours.clone()), median(theirs.clone()));
    report.row("write + fdatasync, p50", theirs_median, Unit::Milliseconds, Target::None);
    report.row("append, p50", ours_median, Unit::Milliseconds, Target::None);
    let ratio = ours_median / theirs_median;
    report.row("append / write + fdatasync, p50", ratio, Unit::Times, Target::AtMost(1.7));
    let over = p99(ours) - p99(theirs);
    report.row(
        "append minus write + fdatasync, p99",
        over,
        Unit::Milliseconds,
        Target::AtMost(5.0),
    );
    through_a_pipe(appends, place, report)
}

/// Measures appends as a script makes them: through a pipe to a process that answers each line.
fn through_a_pipe(appends: usize, place: &Workplace, report: &mut Report) -> Result<()> {
    place.remove_ledger()?;
    let mut runtime = Runtime::start(place)?;
    let (ours, theirs) =
        in_turns(appends, place, &mut |line| Ok(milliseconds(runtime.append(line)?)))?;
    runtime.end()?;
    let ratio = median(ours) / median(theirs);
    report.row("through a pipe / write + fdatasync, p50", ratio, Unit::Times, Target::None);
    Ok(())
}

/// Appends each line, then writes it to a plain file. Returns the milliseconds of both.
fn in_turns(
    appends: usize,
    place: &Workplace,
    append: &mut dyn FnMut(&str) -> Result<f64>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let mut bare = File::create(place.at("bare.jsonl"))?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for number in 0..appends {
        let line = message(number);
        ours.push(append(&line)?);
        let started = Instant::now();
        bare.write_all(line.as_bytes())?;
        bare.sync_data()?;
        theirs.push(milliseconds(started.elapsed()));
    }
    Ok((ours, theirs))
}

/// Returns the 99th percentile.
pub(crate) fn p99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() * 99 / 100).or(values.last()).copied().unwrap_or_default()
}
