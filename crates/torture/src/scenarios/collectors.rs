//! Runs several collectors at once: many that create one ledger, then some that collect one home
//! into two ledgers while lines are written to it.

use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::sandbox::Sandbox;
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "collectors",
    faults: "F21 F36",
    what: "64 processes create one ledger; concurrent collectors; one home in two ledgers",
    run,
};

fn run(setting: &Setting) -> Result<Outcome> {
    let mut runs = 0;
    for round in 0..setting.times(1, 8) {
        let sandbox = Sandbox::new(setting)?;
        let mut writer = Writer::new(&sandbox, setting.seed + round)?;
        writer.lines(&sandbox, 20)?;
        let number = setting.times(16, 64).min(64);
        finish(start(number, || sandbox.command(&["sync"]))?).context("creating a ledger")?;
        sandbox.check(writer.complete())?;
        runs += number;
    }
    let sandbox = Sandbox::new(setting)?;
    let mut writer = Writer::new(&sandbox, setting.seed)?;
    let other = sandbox.at("other.db");
    for _ in 0..setting.times(3, 60) {
        let mut children = start(3, || sandbox.command(&["sync"]))?;
        children.extend(start(2, || {
            let mut command = sandbox.command(&["sync", "--ledger"]);
            command.arg(&other);
            command
        })?);
        while children.iter_mut().any(|child| matches!(child.try_wait(), Ok(None))) {
            writer.piece(&sandbox)?;
            std::thread::sleep(Duration::from_micros(300));
        }
        runs += children.len() as u64;
        finish(children).context("concurrent collectors")?;
    }
    sandbox.check(writer.complete())?;
    sandbox.json(&["sync", "--ledger", "other.db"])?;
    let status = sandbox.json(&["status", "--ledger", "other.db"])?;
    ensure!(status["ledger"]["records"] == writer.complete(), "the other ledger: {status}");
    let what = format!(
        "{runs} collectors; each of {} lines stored once in each ledger",
        writer.complete()
    );
    Ok(Outcome::Held { runs, what })
}

/// Starts a number of collectors.
fn start(number: u64, command: impl Fn() -> Command) -> Result<Vec<Child>> {
    (0..number).map(|_| Ok(command().spawn()?)).collect()
}

/// Waits for the collectors. Fails if the exit code of one is not 0.
fn finish(children: Vec<Child>) -> Result<()> {
    for child in children {
        let output = child.wait_with_output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "a collector failed: {stderr}");
    }
    Ok(())
}
