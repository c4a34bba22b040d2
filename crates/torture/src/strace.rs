//! Faults at one system call, injected by `strace`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::sandbox::{Run, Sandbox};

/// A fault at a system call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The call fails with this error.
    Error(&'static str),
    /// The process is killed.
    Kill,
}

/// Returns whether programs can be traced on this machine.
pub(crate) fn is_there() -> bool {
    Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "-e", "trace=none", "true"])
        .output()
        .is_ok_and(|output| output.status.success())
}

/// The output of a run, and whether it reached the fault: a program with fewer calls ends before
/// it.
pub(crate) struct Faulty {
    pub(crate) run: Run,
    pub(crate) was_hit: bool,
}

/// Runs quipu with a fault at the `when`-th call of this name in each of its threads.
pub(crate) fn run(
    sandbox: &Sandbox,
    arguments: &[&str],
    call: &str,
    fault: Fault,
    when: u64,
) -> Result<Faulty> {
    run_at(sandbox, arguments, call, fault, when, None)
}

/// Runs quipu like [`run`], but counts only calls on this file.
pub(crate) fn run_at(
    sandbox: &Sandbox,
    arguments: &[&str],
    call: &str,
    fault: Fault,
    when: u64,
    file: Option<&Path>,
) -> Result<Faulty> {
    let log = sandbox.at("strace.log");
    let what = match fault {
        Fault::Error(error) => format!("error={error}"),
        Fault::Kill => "signal=KILL".to_owned(),
    };
    let trace = format!("trace={call}");
    let inject = format!("inject={call}:{what}:when={when}");
    let file = file.map(|file| file.display().to_string());
    let mut options = vec!["-f", "-qq", "-e", &trace, "-e", &inject];
    if let Some(file) = &file {
        options.extend(["-P", file]);
    }
    options.push("-o");
    let mut command = sandbox.command_under("strace", &options, Some(&log), arguments);
    let run = Run::of(&mut command)?;
    let log = fs::read_to_string(&log).unwrap_or_default();
    let was_hit = log.contains("(INJECTED)") || log.contains("+++ killed by SIGKILL");
    Ok(Faulty { run, was_hit })
}
