//! `quipu sync` is killed at random times, again and again, while lines arrive in parts.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::sandbox::Sandbox;
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "kills",
    faults: "F1 F6",
    what: "SIGKILL of sync and rebuild at random times while lines arrive in parts",
    run,
};

/// The longest running time before a kill, in microseconds. Starting a process takes less.
const MAX_RUN_MICROS: u64 = 60_000;

fn run(setting: &Setting) -> Result<Outcome> {
    let sandbox = Sandbox::new(setting)?;
    let mut writer = Writer::new(&sandbox, setting.seed)?;
    let kills = setting.times(25, 1000);
    let mut survived = 0;
    for round in 0..kills {
        let task = if round % 10 == 9 { "rebuild" } else { "sync" };
        let mut child = sandbox.command(&[task]).spawn()?;
        let end = Instant::now() + Duration::from_micros(writer.below(MAX_RUN_MICROS));
        while Instant::now() < end {
            writer.piece(&sandbox)?;
            std::thread::sleep(Duration::from_micros(500));
        }
        survived += u64::from(child.try_wait()?.is_some());
        child.kill()?;
        child.wait()?;
        if round % 100 == 99 {
            sandbox.check(writer.complete())?;
        }
    }
    writer.lines(&sandbox, 1)?;
    sandbox.check(writer.complete())?;
    let what = format!(
        "{} killed, {survived} finished before; {} lines, each stored once",
        kills - survived,
        writer.complete()
    );
    Ok(Outcome::Held { runs: kills, what })
}
