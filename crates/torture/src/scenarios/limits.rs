//! Limits of the system on one process: how large a file may become, how many files may be open,
//! how much memory it may have.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::half::HalfCollected;
use crate::place::{Place, Run};
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "limits",
    faults: "F14 F15 F43",
    what: "limits on file size (SIGXFSZ), open files and memory, lower and lower",
    run,
};

/// The option of `ulimit` for the size of a process.
const MEMORY: &str = "-v";

fn run(setting: &Setting) -> Result<Outcome> {
    let half = HalfCollected::new(setting, 300)?;
    let HalfCollected { place, writer, .. } = &half;
    let (mut runs, mut told) = (0, 0);
    // Blocks of 512 bytes or a kilobyte, as the shell has it.
    let sizes = (0..setting.times(4, 60)).map(|step| ("-f", step * setting.times(300, 20)));
    let files = (3..setting.times(8, 24)).map(|files| ("-n", files));
    // Kilobytes of addresses. The program alone takes some 40 MB of them.
    let memory = (0..setting.times(3, 30))
        .map(|step| (MEMORY, 50_000 + step * setting.times(50_000, 10_000)));
    for (option, limit) in sizes.chain(files).chain(memory) {
        for is_new in [true, false] {
            half.reset(is_new)?;
            let run = limited(place, option, limit)?;
            let about = || format!("ulimit {option} {limit}");
            // Rust ends a process that gets no memory; there is no way to make an error of that
            // without unsafe code.
            let is_ended = option == MEMORY && run.code.is_none();
            if !run.is_not_started() && !is_ended {
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
