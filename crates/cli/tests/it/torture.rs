//! Small versions of the scenarios of `quipu-torture`. A scenario that this machine cannot run (no
//! strace, no mounts) is skipped with a message.

use std::path::{Path, PathBuf};

use quipu_torture::{Effort, Outcome, SCENARIOS, Setting};

#[track_caller]
#[expect(clippy::print_stdout, reason = "the outcome is worth reading with --nocapture")]
fn check(name: &str) {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
    let memory = Path::new("/dev/shm");
    let setting = Setting {
        quipu: PathBuf::from(env!("CARGO_BIN_EXE_quipu")),
        work: memory.is_dir().then(|| memory.to_owned()),
        seed: 1,
        effort: Effort::Small,
    };
    match (scenario.run)(&setting) {
        Ok(Outcome::Held { what, .. }) => println!("{what}"),
        Ok(Outcome::Skipped(why)) => quipu_torture::skip(&why),
        Err(error) => panic!("{name}: {error:?}"),
    }
}

#[test]
fn f1_killed_while_collecting() {
    check("kills");
}

#[test]
fn f25_to_f34_random_actions_with_kills() {
    check("actions");
}

#[test]
fn f2_f6_killed_at_every_step() {
    check("steps");
}

#[test]
fn f4_killed_while_migrating() {
    check("migration");
}

#[test]
fn f5_killed_while_backing_up() {
    check("backups");
}

#[test]
fn f11_f12_the_disk_is_full() {
    check("full-disk");
}

#[test]
fn f13_f14_f17_calls_fail() {
    check("errors");
}

#[test]
fn f14_f15_limits_are_reached() {
    check("limits");
}

#[test]
fn f21_f36_many_collectors() {
    check("collectors");
}

#[test]
fn f44_asked_to_stop_at_any_moment() {
    check("signals");
}

#[test]
fn f23_the_disk_is_read_only() {
    check("read-only");
}

#[test]
fn a_ledger_that_is_read_only_for_a_while() {
    check("modes");
}

#[test]
fn a68_a94_sources_with_traps() {
    check("sources");
}

#[test]
fn a70_a72_a_database_of_another_program() {
    check("database");
}

#[test]
fn a80_a90_hostile_inputs() {
    check("inputs");
}

#[test]
fn inputs_for_quadratic_algorithms() {
    check("growth");
}

#[test]
fn targets_that_others_write_to() {
    check("targets");
}

#[test]
fn f46_everything_at_once() {
    check("mixed");
}
