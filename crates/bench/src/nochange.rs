//! Compares a sync that finds nothing new with a program that only lists and stats the same files.
//!
//! Both sides are whole processes, so that both include the start of a process.

use anyhow::Result;

use crate::generate;
use crate::measure::{Workplace, best, median, milliseconds};
use crate::report::{Report, Target, Unit, note};

/// The number of runs of each side. The two sides alternate.
const ROUNDS: usize = 15;

/// The times of the two sides, in milliseconds, and what quipu read although nothing was new.
pub(crate) struct Unchanged {
    walks: Vec<f64>,
    syncs: Vec<f64>,
    bytes_read: u64,
    records_added: u64,
}

/// Measures a home of `n_files` small sessions in 200 project folders.
pub(crate) fn run(n_files: usize, seed: u64, place: &Workplace) -> Result<Report> {
    note("generating the home");
    let bytes = generate::write_small_sessions(seed, n_files, 200, &place.home())?;
    place.remove_ledger()?;
    note("cold import");
    let import = place.sync()?;
    note("sync with nothing new");
    let unchanged = measure(place)?;
    let mut report = Report::new("nochange");
    report.fact("files", n_files);
    report.fact_bytes("source", bytes);
    report.fact("sources that quipu follows", import.sources);
    report.fact("cold import, ms", milliseconds(import.run.wall));
    unchanged.add_facts(&mut report);
    unchanged.add_rows(&mut report, Target::AtMost(2.5));
    Ok(report)
}

/// Measures a home that was already collected.
pub(crate) fn measure(place: &Workplace) -> Result<Unchanged> {
    // The work that an import leaves for the next sync (sealing, checkpoints) is done first.
    place.sync()?;
    place.walk()?;
    let mut unchanged =
        Unchanged { walks: Vec::new(), syncs: Vec::new(), bytes_read: 0, records_added: 0 };
    for _ in 0..ROUNDS {
        unchanged.walks.push(milliseconds(place.walk()?.wall));
        let synced = place.sync()?;
        unchanged.syncs.push(milliseconds(synced.run.wall));
        unchanged.bytes_read += synced.bytes_read;
        unchanged.records_added += synced.records_added;
    }
    Ok(unchanged)
}

impl Unchanged {
    /// Adds the times themselves.
    pub(crate) fn add_facts(&self, report: &mut Report) {
        report.fact("walk + stat, best ms", best(&self.walks));
        report.fact("walk + stat, median ms", median(self.walks.clone()));
        report.fact("no-change sync, best ms", best(&self.syncs));
        report.fact("no-change sync, median ms", median(self.syncs.clone()));
        report.fact("records added by no change", self.records_added);
    }

    /// Adds the figures with targets. In a home of few files the walk ends before a process has
    /// started, so the ratio has a target only if there are many.
    pub(crate) fn add_rows(&self, report: &mut Report, target: Target) {
        let ratio = best(&self.syncs) / best(&self.walks);
        report.row("no-change sync / walk + stat", ratio, Unit::Times, target);
        report.row(
            "read again by no change",
            self.bytes_read as f64,
            Unit::Bytes,
            Target::AtMost(0.0),
        );
    }
}
