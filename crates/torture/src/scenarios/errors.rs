//! Each system call of `quipu sync` fails once: the command reports it or continues, the ledger is
//! intact, and the next sync completes it.

use anyhow::{Context as _, Result, ensure};

use crate::half_collected::HalfCollected;
use crate::sandbox::Sandbox;
use crate::strace::{self, Fault};
use crate::writer::FILES;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "errors",
    faults: "F13 F14 F17",
    what: "an error from every system call in turn: writes, reads, syncs, opens, locks",
    run,
};

/// System calls, and their errors.
const FAULTS: [(&str, &str); 16] = [
    ("pwrite64", "ENOSPC"),
    ("pwrite64", "EIO"),
    ("fsync", "EIO"),
    ("ftruncate", "EIO"),
    ("pread64", "EIO"),
    ("openat", "EMFILE"),
    ("openat", "EACCES"),
    ("fcntl", "ENOLCK"),
    ("fcntl", "EINTR"),
    ("flock", "ENOLCK"),
    ("flock", "EINTR"),
    ("mmap", "ENOMEM"),
    ("statx", "EACCES"),
    ("rename", "EIO"),
    ("unlink", "EACCES"),
    ("getdents64", "EIO"),
];

fn run(setting: &Setting) -> Result<Outcome> {
    if !strace::is_there() {
        return Ok(Outcome::Skipped("strace is not installed, or may not trace here".to_owned()));
    }
    let half = HalfCollected::new(setting, 5)?;
    let HalfCollected { sandbox, writer, .. } = &half;
    let (mut runs, mut reported) = (0, 0);
    for is_new in [false, true] {
        for (call, error) in FAULTS {
            // quipu waits for a lock that it failed to release as long as for one of another
            // process, so fewer of these calls fail.
            let is_slow = call == "fcntl" || call == "flock";
            for when in setting.calls().into_iter().filter(|when| !is_slow || when % 9 == 4) {
                half.reset(is_new)?;
                let faulty = strace::run(sandbox, &["sync"], call, Fault::Error(error), when)?;
                let about = || format!("{call} number {when}: {error}");
                if !faulty.was_hit {
                    faulty.run.check_reported().with_context(about)?;
                    break;
                }
                // The system could not start the program, or the program got no memory at all.
                let is_none_of_ours = faulty.run.is_not_started() || call == "mmap";
                if !is_none_of_ours {
                    faulty.run.check_reported().with_context(about)?;
                }
                reported += u64::from(faulty.run.code != Some(0));
                runs += 1;
                sandbox.check(writer.complete()).with_context(about)?;
                let cursors = sandbox.run(&["cursors", "--json"])?;
                ensure!(
                    !cursors.stdout.contains("\"generation\":2"),
                    "{}: an error was mistaken for a rewrite",
                    about()
                );
            }
        }
    }
    for is_new in [false, true] {
        for file in FILES {
            for when in setting.calls() {
                half.reset(is_new)?;
                if !source(sandbox, file, when)? {
                    break;
                }
                runs += 1;
                reported += 1;
                sandbox.check(writer.complete()).with_context(|| format!("{file}, read {when}"))?;
            }
        }
    }
    let what = format!(
        "{runs} errors: {reported} reported, the others harmless; complete after the next sync"
    );
    Ok(Outcome::Held { runs, what })
}

/// Fails a read of a source. It must be reported, the other files collected, and the file not
/// mistaken for rewritten. Returns whether there was such a read.
fn source(sandbox: &Sandbox, file: &str, when: u64) -> Result<bool> {
    let path = sandbox.home().join(file);
    let faulty = strace::run_at(
        sandbox,
        &["sync", "--json"],
        "pread64",
        Fault::Error("EIO"),
        when,
        Some(&path),
    )?;
    let run = faulty.run;
    let about = || format!("{file}, read {when}: {run:?}");
    ensure!(run.code == Some(0), "{}", about());
    if !faulty.was_hit {
        return Ok(false);
    }
    // A read that only compares the file with another one may fail without a report.
    let is_named = run.stdout.contains("unreadable: Input/output error");
    ensure!(is_named || run.stdout.contains("\"skipped\":[]"), "{}", about());
    ensure!(run.stdout.contains("\"rewritten_sources\":0"), "mistaken for a rewrite: {}", about());
    Ok(true)
}
