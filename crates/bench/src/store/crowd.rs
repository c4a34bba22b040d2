//! Measures many processes that append to one ledger at the same time, each to its own session.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::runtime::{Runtime, message};
use crate::measure::{Workplace, milliseconds};
use crate::report::{Report, Target, Unit, note};

/// The duration of the writing.
const WRITING_TIME: Duration = Duration::from_secs(10);

pub(super) fn run(writers: usize, place: &Workplace, report: &mut Report) -> Result<()> {
    note("a crowd of writers");
    place.remove_ledger()?;
    let runtimes = (0..writers).map(|_| Runtime::start(place)).collect::<Result<Vec<_>>>()?;
    let until = Instant::now() + WRITING_TIME;
    let threads: Vec<_> = runtimes
        .into_iter()
        .map(|mut runtime| {
            std::thread::spawn(move || -> Result<(u64, Duration)> {
                let (mut count, mut worst) = (0, Duration::ZERO);
                while Instant::now() < until {
                    worst = worst.max(runtime.append(&message(count as usize))?);
                    count += 1;
                }
                runtime.end()?;
                Ok((count, worst))
            })
        })
        .collect();
    let mut counts = Vec::new();
    let mut worst = Duration::ZERO;
    for thread in threads {
        let (count, longest) = thread.join().map_err(|_| anyhow!("a writer panicked"))??;
        counts.push(count);
        worst = worst.max(longest);
    }
    let (slowest, fastest) = (counts.iter().min(), counts.iter().max());
    let ratio = slowest.copied().unwrap_or_default() as f64 / fastest.copied().unwrap_or(1) as f64;
    report.fact("writers", writers as u64);
    report.fact("their appends", counts.iter().sum::<u64>());
    report.row(
        "worst wait of a writer",
        milliseconds(worst),
        Unit::Milliseconds,
        Target::AtMost(2000.0),
    );
    report.row("slowest / fastest writer", ratio, Unit::Share, Target::AtLeast(0.1));
    Ok(())
}
