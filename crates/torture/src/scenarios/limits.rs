//! Limits of one process: the size of a file, the number of open files, and memory.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::half_collected::HalfCollected;
use crate::sandbox::{Run, Sandbox};
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "limits",
    faults: "F14 F15 F43",
    what: "limits on file size (SIGXFSZ), open files and memory, lower and lower",
    run,
};

/// The option of `ulimit` for the size of a process.
const MEMORY_OPTION: &str = "-v";

fn run(setting: &Setting) -> Result<Outcome> {
    let half = HalfCollected::new(setting, 300)?;
    let HalfCollected { sandbox, writer, .. } = &half;
    let (mut runs, mut reported) = (0, 0);
    // Blocks of 512 bytes or a kilobyte, depending on the shell.
    let sizes = (0..setting.times(4, 60)).map(|step| ("-f", step * setting.times(300, 20)));
    let files = (3..setting.times(8, 24)).map(|files| ("-n", files));
    // Kilobytes of address space. The program alone takes some 40 MB.
    let memory = (0..setting.times(3, 30))
        .map(|step| (MEMORY_OPTION, 50_000 + step * setting.times(50_000, 10_000)));
    for (option, limit) in sizes.chain(files).chain(memory) {
        for is_new in [true, false] {
            half.reset(is_new)?;
            let run = limited(sandbox, option, limit)?;
            let about = || format!("ulimit {option} {limit}");
            // Rust ends a process that gets no memory; that cannot become an error without unsafe
            // code.
            let is_ended = option == MEMORY_OPTION && run.code.is_none();
            if !run.is_not_started() && !is_ended {
                run.check_reported().with_context(about)?;
            }
            reported += u64::from(run.code != Some(0));
            runs += 1;
            sandbox.check(writer.complete()).with_context(about)?;
        }
    }
    ensure!(reported > 0, "no limit was reached");
    let what = format!("{runs} limits: {reported} reached and reported; complete without them");
    Ok(Outcome::Held { runs, what })
}

fn limited(sandbox: &Sandbox, option: &str, limit: u64) -> Result<Run> {
    let script = format!("ulimit {option} {limit} && exec \"$QUIPU\" sync");
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    sandbox.environment(&mut command);
    Run::of(command.env("QUIPU", sandbox.quipu()))
}
