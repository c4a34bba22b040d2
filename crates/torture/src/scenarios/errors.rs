//! Each call of `quipu sync` to the system fails once: the command says so or goes on, the ledger is
//! sound, and the next sync completes it.

use anyhow::{Context as _, Result, ensure};

use crate::half::HalfCollected;
use crate::place::Place;
use crate::strace::{self, Fault};
use crate::writer::FILES;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "errors",
    faults: "F13 F14 F17",
    what: "an error from every call in turn: writes, reads, syncs, opens, locks",
    run,
};

/// Calls, and what goes wrong with them.
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
    let HalfCollected { place, writer, .. } = &half;
    let (mut runs, mut told) = (0, 0);
    for is_new in [false, true] {
        for (call, error) in FAULTS {
            // A lock that cannot be given back is waited for as long as one of another process.
            let is_slow = call == "fcntl" || call == "flock";
            for when in setting.calls().into_iter().filter(|when| !is_slow || when % 9 == 4) {
                half.reset(is_new)?;
                let faulty = strace::run(place, &["sync"], call, Fault::Error(error), when)?;
                let about = || format!("{call} number {when}: {error}");
                if !faulty.was_hit {
                    faulty.run.check_told().with_context(about)?;
                    break;
                }
                // The system could not start the program, or the program could not even have memory.
                let is_none_of_ours = faulty.run.is_not_started() || call == "mmap";
                if !is_none_of_ours {
                    faulty.run.check_told().with_context(about)?;
                }
                told += u64::from(faulty.run.code != Some(0));
                runs += 1;
                place.check(writer.complete()).with_context(about)?;
                let cursors = place.run(&["cursors", "--json"])?;
                ensure!(
                    !cursors.stdout.contains("\"generation\":2"),
                    "{}: an error was taken for a rewrite",
                    about()
                );
            }
        }
    }
    for is_new in [false, true] {
        for file in FILES {
            for when in setting.calls() {
                half.reset(is_new)?;
                if !source(place, file, when)? {
                    break;
                }
                runs += 1;
                told += 1;
                place.check(writer.complete()).with_context(|| format!("{file}, read {when}"))?;
            }
        }
    }
    let what =
        format!("{runs} errors: {told} told, the others harmless; complete after the next sync");
    Ok(Outcome::Held { runs, what })
}

/// A read of a source fails. It is named, its neighbours are collected, and it is not taken for
/// rewritten. Returns whether there was such a read.
fn source(place: &Place, file: &str, when: u64) -> Result<bool> {
    let path = place.home().join(file);
    let faulty = strace::run_at(
        place,
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
    // Whether it begins like another file is only a question of order.
    let is_named = run.stdout.contains("unreadable: Input/output error");
    ensure!(is_named || run.stdout.contains("\"skipped\":[]"), "{}", about());
    ensure!(run.stdout.contains("\"rewritten\":0"), "taken for a rewrite: {}", about());
    Ok(true)
}
