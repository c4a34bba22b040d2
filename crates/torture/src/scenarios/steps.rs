//! quipu is killed at each system call that changes a file: while it creates a ledger, collects,
//! seals, rebuilds, checkpoints and trims.

use anyhow::{Context as _, Result};

use crate::half_collected::HalfCollected;
use crate::strace::{self, Fault};
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "steps",
    faults: "F2 F6",
    what: "SIGKILL at every write, sync, truncate, rename and unlink of sync and rebuild",
    run,
};

/// System calls that change a file.
const CALLS: [&str; 5] = ["pwrite64", "fsync", "ftruncate", "rename", "unlink"];

fn run(setting: &Setting) -> Result<Outcome> {
    if !strace::is_there() {
        return Ok(Outcome::Skipped("strace is not installed, or may not trace here".to_owned()));
    }
    let half = HalfCollected::new(setting, 5)?;
    let HalfCollected { sandbox, writer, .. } = &half;
    let mut runs = 0;
    for (task, is_new) in [("sync", true), ("sync", false), ("rebuild", false)] {
        for call in CALLS {
            for when in setting.calls() {
                half.reset(is_new)?;
                let faulty = strace::run(sandbox, &[task], call, Fault::Kill, when)?;
                let about = || format!("{task} killed at {call} number {when}");
                if !faulty.was_hit {
                    faulty.run.check_reported().with_context(about)?;
                    break;
                }
                runs += 1;
                sandbox.check(writer.complete()).with_context(about)?;
            }
        }
    }
    Ok(Outcome::Held { runs, what: format!("{runs} kills, complete after the next sync") })
}
