//! A backup is killed while it is made: it is complete, or not there.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::place::Place;
use crate::strace::{self, Fault};
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "backups",
    faults: "F5",
    what: "SIGKILL while a backup is made, at random moments and at every call that changes a file",
    run,
};

const CALLS: [&str; 5] = ["pwrite64", "fsync", "rename", "renameat2", "unlink"];

fn run(setting: &Setting) -> Result<Outcome> {
    let place = Place::new(setting)?;
    let mut writer = Writer::new(&place, setting.seed)?;
    writer.lines(&place, 30)?;
    place.json(&["sync"])?;
    fs::create_dir(place.at("disk"))?;
    let (mut complete, mut runs) = (0, 0);
    for _ in 0..setting.times(8, 200) {
        let mut child = place.command(&["backup", "disk/copy.db"]).spawn()?;
        std::thread::sleep(Duration::from_micros(writer.below(90_000)));
        child.kill()?;
        child.wait()?;
        complete += u64::from(check(&place, writer.complete())?);
        runs += 1;
    }
    if strace::is_there() {
        for call in CALLS {
            for when in setting.calls() {
                let faulty =
                    strace::run(&place, &["backup", "disk/copy.db"], call, Fault::Kill, when)?;
                let is_complete = check(&place, writer.complete())
                    .with_context(|| format!("killed at {call} number {when}"))?;
                if !faulty.was_hit {
                    ensure!(is_complete || faulty.run.code != Some(0), "{:?}", faulty.run);
                    break;
                }
                complete += u64::from(is_complete);
                runs += 1;
            }
        }
    }
    // The next one clears up after all of them.
    place.json(&["backup", "disk/copy.db"])?;
    let left: Vec<_> = fs::read_dir(place.at("disk"))?.collect();
    ensure!(left.len() == 1, "left behind: {left:?}");
    place.check(writer.complete())?;
    let what = format!("{runs} kills; {complete} backups there and complete, the others absent");
    Ok(Outcome::Held { runs, what })
}

/// Whether the backup is there. If so, it is a whole ledger.
fn check(place: &Place, lines: u64) -> Result<bool> {
    let copy = place.at("disk/copy.db");
    if !copy.exists() {
        return Ok(false);
    }
    let status = place.json(&["status", "--ledger", "disk/copy.db"])?;
    ensure!(status["ledger"]["records"] == lines, "half a backup: {status}");
    place.json(&["backup", "checked.db", "--ledger", "disk/copy.db"])?;
    fs::remove_file(place.at("checked.db"))?;
    fs::remove_file(copy)?;
    for sidecar in ["-wal", "-shm", ".lock", ".wait"] {
        let _ = fs::remove_file(place.at(&format!("disk/copy.db{sidecar}")));
    }
    Ok(true)
}
