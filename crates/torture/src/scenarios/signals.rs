//! Commands get SIGINT, SIGTERM or SIGHUP at random times.

use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::sandbox::Sandbox;
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "signals",
    faults: "F44",
    what: "SIGINT, SIGTERM and SIGHUP at random times of every long command",
    run,
};

/// The signals, with their numbers.
const SIGNALS: [(&str, u32); 3] = [("INT", 2), ("TERM", 15), ("HUP", 1)];

/// Commands that run long enough to be stopped in the middle.
const TASKS: [&[&str]; 8] = [
    &["sync"],
    &["rebuild"],
    &["watch"],
    &["backup", "stopped.db", "--force"],
    &["doctor", "--deep"],
    &["restore", "--all", "--to", "stopped"],
    &["search", "word", "--sync"],
    &["sessions", "--sync"],
];

/// The longest delay before a signal, in microseconds: the usual running time of a command.
const MAX_DELAY_MICROS: u64 = 80_000;

/// The longest time that a command may take to stop after a signal, on a loaded machine.
const MAX_STOP_TIME: Duration = Duration::from_secs(20);

fn run(setting: &Setting) -> Result<Outcome> {
    let sandbox = Sandbox::new(setting)?;
    let mut writer = Writer::new(&sandbox, setting.seed)?;
    let (mut runs, mut stopped) = (0, 0);
    let (ignored, sent): (Vec<_>, Vec<_>) =
        SIGNALS.into_iter().partition(|(_, number)| is_ignored(*number));
    for round in 0..setting.times(2, 40) {
        for task in TASKS {
            for &(signal, _) in &sent {
                writer.piece(&sandbox)?;
                let mut child = sandbox.command(task).spawn()?;
                std::thread::sleep(Duration::from_micros(writer.below(MAX_DELAY_MICROS)));
                let about = || format!("SIG{signal} to `quipu {}`", task.join(" "));
                let was_running = send(&mut child, signal)?;
                let status = end(&mut child).with_context(about)?;
                // A signal without a handler ends the process without an exit code. A finished
                // command, and a watch, which stops by itself, have 0. A search may have no hits.
                let is_clean = matches!(status.code(), None | Some(0 | 1 | 130 | 143));
                ensure!(is_clean, "{}: {status}", about());
                stopped += u64::from(was_running);
                runs += 1;
                remove(&sandbox);
            }
            // A first sync that is stopped early leaves no ledger, which the other commands need.
            if !sandbox.ledger().exists() {
                sandbox.json(&["sync"])?;
            }
        }
        if round % 4 == 3 {
            sandbox.check(complete(&mut writer, &sandbox)?)?;
        }
    }
    sandbox.check(complete(&mut writer, &sandbox)?)?;
    ensure!(sent.is_empty() || stopped > 0, "every command was done before its signal");
    let mut what = format!(
        "{stopped} stopped, {} finished before; complete after the next sync",
        runs - stopped
    );
    for (signal, _) in ignored {
        what.push_str(&format!("; SIG{signal} not sent, because it is ignored here"));
    }
    Ok(Outcome::Held { runs, what })
}

fn complete(writer: &mut Writer, sandbox: &Sandbox) -> Result<u64> {
    writer.lines(sandbox, 1)?;
    Ok(writer.complete())
}

/// Returns whether this process ignores a signal, for example SIGHUP under `nohup`. Its children
/// inherit that.
pub(super) fn is_ignored(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (number - 1) & 1 == 1
}

/// Sends a signal. Returns false if the process had ended before.
pub(super) fn send(child: &mut Child, signal: &str) -> Result<bool> {
    if child.try_wait()?.is_some() {
        return Ok(false);
    }
    Command::new("kill").args(["-s", signal, &child.id().to_string()]).output()?;
    Ok(true)
}

/// Waits for the end of a process.
pub(super) fn end(child: &mut Child) -> Result<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < MAX_STOP_TIME {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill()?;
    child.wait()?;
    bail!("it did not stop within {} seconds", MAX_STOP_TIME.as_secs())
}

/// Removes files that commands wrote next to the ledger.
fn remove(sandbox: &Sandbox) {
    let _ = std::fs::remove_file(sandbox.at("stopped.db"));
    let _ = std::fs::remove_dir_all(sandbox.at("stopped"));
}
