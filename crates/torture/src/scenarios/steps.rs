//! quipu is killed at each of its calls that change a file: while it creates a ledger, collects,
//! seals, derives the projection again, checkpoints and trims.

use anyhow::{Context as _, Result};

use crate::place::{Place, copy};
use crate::strace::{self, Fault};
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "steps",
    faults: "F2 F6",
    what: "SIGKILL at every write, sync, truncate, rename and unlink of sync and rebuild",
    run,
};

/// Calls that change a file.
const CALLS: [&str; 5] = ["pwrite64", "fsync", "ftruncate", "rename", "unlink"];

fn run(setting: &Setting) -> Result<Outcome> {
    if !strace::is_there() {
        return Ok(Outcome::Skipped("strace is not installed, or may not trace here".to_owned()));
    }
    let place = Place::new(setting)?;
    let mut writer = Writer::new(&place, setting.seed)?;
    writer.lines(&place, 10)?;
    place.json(&["sync"])?;
    let before = place.at("before");
    copy(&place.data(), &before)?;
    writer.lines(&place, 5)?;
    let mut runs = 0;
    for (task, is_new) in [("sync", true), ("sync", false), ("rebuild", false)] {
        for call in CALLS {
            for when in setting.calls() {
                if is_new {
                    place.remove_ledger()?;
                } else {
                    copy(&before, &place.data())?;
                }
                let faulty = strace::run(&place, &[task], call, Fault::Kill, when)?;
                let about = || format!("{task} killed at {call} number {when}");
                if !faulty.was_hit {
                    faulty.run.check_told().with_context(about)?;
                    break;
                }
                runs += 1;
                place.check(writer.complete()).with_context(about)?;
            }
        }
    }
    Ok(Outcome::Held { runs, what: format!("{runs} kills, complete after the next sync") })
}
