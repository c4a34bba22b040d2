//! Limits of the system on one process: how large a file may become, how many files may be open.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::half::HalfCollected;
use crate::place::{Place, Run};
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "limits",
    faults: "F14 F15",
    what: "limits on file size (SIGXFSZ) and on open files, lower and lower",
    run,
};

fn run(setting: &Setting) -> Result<Outcome> {
    let half = HalfCollected::new(setting, 300)?;
    let HalfCollected { place, writer, .. } = &half;
    let (mut runs, mut told) = (0, 0);
    // Blocks of 512 bytes or a kilobyte, as the shell has it.
    let sizes = (0..setting.times(4, 60)).map(|step| ("-f", step * setting.times(300, 20)));
    let files = (3..setting.times(8, 24)).map(|files| ("-n", files));
    for (option, limit) in sizes.chain(files) {
        for is_new in [true, false] {
            half.reset(is_new)?;
            let run = limited(place, option, limit)?;
            let about = || format!("ulimit {option} {limit}");
            if !run.is_not_started() {
                run.check_told().with_context(about)?;
            }
            told += u64::from(run.code != Some(0));
            runs += 1;
            place.check(writer.complete()).with_context(about)?;
        }
    }
    ensure!(told > 0, "no limit was reached");
    let what = format!("{runs} limits: {told} reached and told; complete without them");
    Ok(Outcome::Held { runs, what })
}

fn limited(place: &Place, option: &str, limit: u64) -> Result<Run> {
    let script = format!("ulimit {option} {limit} && exec \"$QUIPU\" sync");
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    place.environment(&mut command);
    Run::of(command.env("QUIPU", place.quipu()))
}
