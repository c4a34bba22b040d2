//! `quipu sync` is killed at any moment, again and again, while lines arrive in torn pieces.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::place::Place;
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "kills",
    faults: "F1 F6",
    what: "SIGKILL of sync and rebuild at random moments while lines arrive in torn pieces",
    run,
};

/// A process takes about so long to begin; most kills fall behind that.
const LONGEST_LIFE: u64 = 60_000;

fn run(setting: &Setting) -> Result<Outcome> {
    let place = Place::new(setting)?;
    let mut writer = Writer::new(&place, setting.seed)?;
    let kills = setting.times(25, 1000);
    let mut survived = 0;
    for round in 0..kills {
        let task = if round % 10 == 9 { "rebuild" } else { "sync" };
        let mut child = place.command(&[task]).spawn()?;
        let end = Instant::now() + Duration::from_micros(writer.below(LONGEST_LIFE));
        while Instant::now() < end {
            writer.piece(&place)?;
            std::thread::sleep(Duration::from_micros(500));
        }
        survived += u64::from(child.try_wait()?.is_some());
        child.kill()?;
        child.wait()?;
        if round % 100 == 99 {
            place.check(writer.complete())?;
        }
    }
    writer.lines(&place, 1)?;
    place.check(writer.complete())?;
    let what = format!(
        "{} killed, {survived} done before; {} lines, each stored once",
        kills - survived,
        writer.complete()
    );
    Ok(Outcome::Held { runs: kills, what })
}
