//! A backup is killed while it is made: it is complete, or does not exist.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::sandbox::Sandbox;
use crate::strace::{self, Fault};
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "backups",
    faults: "F5",
    what: "SIGKILL of a backup at random times and at every call that changes a file",
    run,
};

const CALLS: [&str; 5] = ["pwrite64", "fsync", "rename", "renameat2", "unlink"];

fn run(setting: &Setting) -> Result<Outcome> {
    let sandbox = Sandbox::new(setting)?;
    let mut writer = Writer::new(&sandbox, setting.seed)?;
    writer.lines(&sandbox, 30)?;
    sandbox.json(&["sync"])?;
    fs::create_dir(sandbox.at("disk"))?;
    let (mut complete, mut runs) = (0, 0);
    for _ in 0..setting.times(8, 200) {
        let mut child = sandbox.command(&["backup", "disk/copy.db"]).spawn()?;
        std::thread::sleep(Duration::from_micros(writer.below(90_000)));
        child.kill()?;
        child.wait()?;
        complete += u64::from(check(&sandbox, writer.complete())?);
        runs += 1;
    }
    if strace::is_there() {
        for call in CALLS {
            for when in setting.calls() {
                let faulty =
                    strace::run(&sandbox, &["backup", "disk/copy.db"], call, Fault::Kill, when)?;
                let is_complete = check(&sandbox, writer.complete())
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
    // The next backup removes all leftovers.
    sandbox.json(&["backup", "disk/copy.db"])?;
    let left: Vec<_> = fs::read_dir(sandbox.at("disk"))?.collect();
    ensure!(left.len() == 1, "left behind: {left:?}");
    sandbox.check(writer.complete())?;
    let what = format!("{runs} kills; {complete} complete backups, no partial ones");
    Ok(Outcome::Held { runs, what })
}

/// Returns whether the backup exists, after checking that it is complete.
fn check(sandbox: &Sandbox, lines: u64) -> Result<bool> {
    let copy = sandbox.at("disk/copy.db");
    if !copy.exists() {
        return Ok(false);
    }
    let status = sandbox.json(&["status", "--ledger", "disk/copy.db"])?;
    ensure!(status["ledger"]["records"] == lines, "an incomplete backup: {status}");
    sandbox.json(&["backup", "checked.db", "--ledger", "disk/copy.db"])?;
    fs::remove_file(sandbox.at("checked.db"))?;
    fs::remove_file(copy)?;
    for sidecar in ["-wal", "-shm", ".lock", ".wait"] {
        let _ = fs::remove_file(sandbox.at(&format!("disk/copy.db{sidecar}")));
    }
    Ok(true)
}
