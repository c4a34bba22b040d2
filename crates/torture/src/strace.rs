//! Faults at one exact system call, by `strace`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::place::{Place, Run};

/// What happens at a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// It fails with this error.
    Error(&'static str),
    /// The process is killed.
    Kill,
}

/// Whether programs can be traced here.
pub(crate) fn is_there() -> bool {
    Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "-e", "trace=none", "true"])
        .output()
        .is_ok_and(|output| output.status.success())
}

/// What the run did, and whether the fault fell into it: a program that makes fewer calls ends
/// before.
pub(crate) struct Faulty {
    pub(crate) run: Run,
    pub(crate) was_hit: bool,
}

/// Runs quipu; the `when`-th call of this name in each of its threads has a fault.
pub(crate) fn run(
    place: &Place,
    arguments: &[&str],
    call: &str,
    fault: Fault,
    when: u64,
) -> Result<Faulty> {
    run_at(place, arguments, call, fault, when, None)
}

/// The same; only calls that concern this file count.
pub(crate) fn run_at(
    place: &Place,
    arguments: &[&str],
    call: &str,
    fault: Fault,
    when: u64,
    file: Option<&Path>,
) -> Result<Faulty> {
    let log = place.at("strace.log");
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
    let mut command = place.command_under("strace", &options, Some(&log), arguments);
    let run = Run::of(&mut command)?;
    let log = fs::read_to_string(&log).unwrap_or_default();
    let was_hit = log.contains("(INJECTED)") || log.contains("+++ killed by SIGKILL");
    Ok(Faulty { run, was_hit })
}
