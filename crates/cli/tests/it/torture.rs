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
fn f1_a_kill_while_collecting_loses_nothing() {
    check("kills");
}

#[test]
fn f25_to_f34_random_actions_with_kills_lose_nothing() {
    check("actions");
}

#[test]
fn f2_f6_a_kill_at_every_step_loses_nothing() {
    check("steps");
}

#[test]
fn f6_a_kill_while_compacting_or_repairing_changes_nothing_or_all() {
    check("compactions");
}

#[test]
fn f4_a_kill_while_migrating_loses_nothing() {
    check("migration");
}

#[test]
fn f5_a_kill_while_backing_up_leaves_no_partial_backup() {
    check("backups");
}

#[test]
fn f11_f12_a_full_disk_loses_nothing() {
    check("full-disk");
}

#[test]
fn f13_f14_f17_failing_calls_lose_nothing() {
    check("errors");
}

#[test]
fn f14_f15_reached_limits_are_errors() {
    check("limits");
}

#[test]
fn f21_f36_many_collectors_store_every_line_once() {
    check("collectors");
}

#[test]
fn f44_a_signal_at_any_moment_loses_nothing() {
    check("signals");
}

#[test]
fn f23_a_read_only_disk_is_read() {
    check("read-only");
}

#[test]
fn a_ledger_that_was_read_only_is_written_to_again() {
    check("modes");
}

#[test]
fn a68_a94_traps_in_sources_do_no_harm() {
    check("sources");
}

#[test]
fn a70_a72_a_database_of_another_program_is_only_read() {
    check("database");
}

#[test]
fn a80_a90_hostile_inputs_do_no_harm() {
    check("inputs");
}

#[test]
fn inputs_for_quadratic_algorithms_do_no_harm() {
    check("growth");
}

#[test]
fn targets_that_other_programs_change_do_no_harm() {
    check("targets");
}

#[test]
fn f46_everything_at_once_loses_nothing() {
    check("mixed");
}
