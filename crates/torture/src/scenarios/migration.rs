//! Migrates ledgers of older versions with processes that are killed or find the disk full. Reads
//! and restores backups of older versions.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::old_ledgers::{OLD_LEDGERS, OldLedger};
use crate::prng::Prng;
use crate::sandbox::{Sandbox, files, in_namespace};
use crate::strace::{self, Fault};
use crate::{Effort, Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "migration",
    faults: "F4",
    what: "SIGKILL and full disks while ledgers of every older version are migrated",
    run,
};

/// Migrates a ledger on a disk of `SIZE` kilobytes. Leaves the exit code in `code`, the messages in
/// `err` and a copy of the ledger in `kept`.
const SCRIPT: &str = r#"
set -u
mount -t tmpfs -o size=SIZEk none data || exit 77
cp old.db data/ledger.db || exit 1
"$QUIPU" sync >out 2>err; echo $? >code
mount -o remount,size=64m data
mkdir kept && cp data/ledger.db* kept/
"#;

fn run(setting: &Setting) -> Result<Outcome> {
    let sandbox = Sandbox::new(setting)?;
    let mut prng = Prng::new(setting.seed);
    let (mut kills, mut old_ones) = (0, 0);
    let mut look = |sandbox: &Sandbox, old: &OldLedger| -> Result<()> {
        kills += 1;
        old_ones += u64::from(is_old(sandbox)?);
        check(sandbox, old)
    };
    let rounds = (0..setting.times(8, 400)).zip(OLD_LEDGERS.iter().cycle());
    for (_, old) in rounds {
        put(&sandbox, old)?;
        let mut child = sandbox.command(&["sync"]).spawn()?;
        std::thread::sleep(Duration::from_micros(prng.below(60_000)));
        child.kill()?;
        child.wait()?;
        look(&sandbox, old).with_context(|| format!("{}: killed", old.name))?;
    }
    if strace::is_there() {
        for (number, call) in ["pwrite64", "fsync", "ftruncate"].into_iter().enumerate() {
            for old in some(setting, number) {
                for when in setting.calls() {
                    put(&sandbox, old)?;
                    let faulty = strace::run(&sandbox, &["sync"], call, Fault::Kill, when)?;
                    if !faulty.was_hit {
                        break;
                    }
                    let about = || format!("{}: killed at {call} number {when}", old.name);
                    look(&sandbox, old).with_context(about)?;
                }
            }
        }
    }
    for old in OLD_LEDGERS {
        read_and_restore(setting, old).with_context(|| format!("a backup of {}", old.name))?;
    }
    let (disks, refused) = full_disks(setting)?;
    let what = format!(
        "{kills} kills (still old after {old_ones}), {disks} disks ({refused} too small), {} backups",
        OLD_LEDGERS.len()
    );
    Ok(Outcome::Held { runs: kills + disks + OLD_LEDGERS.len() as u64, what })
}

/// Returns all old ledgers; with a small effort only one, which depends on `number`.
fn some(setting: &Setting, number: usize) -> impl Iterator<Item = &'static OldLedger> {
    let max_ledgers = if setting.effort == Effort::Small { 1 } else { OLD_LEDGERS.len() };
    OLD_LEDGERS.iter().cycle().skip(number * 2).take(max_ledgers)
}

/// Replaces the ledger of the sandbox with an old one.
fn put(sandbox: &Sandbox, old: &OldLedger) -> Result<()> {
    sandbox.remove_ledger()?;
    Ok(fs::write(sandbox.ledger(), old.ledger())?)
}

/// Returns whether the ledger still has to be migrated. Fails if it is neither old nor new.
fn is_old(sandbox: &Sandbox) -> Result<bool> {
    let run = sandbox.run(&["status"])?;
    let is_old = run.code == Some(2) && run.stderr.contains("written by an older quipu");
    ensure!(is_old || run.code == Some(0), "neither old nor new: {run:?}");
    Ok(is_old)
}

/// Checks that the next sync completes the migration, and that all records and files are there.
fn check(sandbox: &Sandbox, old: &OldLedger) -> Result<()> {
    sandbox.json(&["sync"]).context("the next sync does not complete it")?;
    let status = sandbox.json(&["status"])?;
    ensure!(status["ledger"]["schema_version"].as_u64() >= Some(5), "not migrated: {status}");
    ensure!(status["ledger"]["records"] == old.records, "records: {status}");
    ensure!(status["ledger"]["unprojected_records"] == 0, "the projection is not up to date");
    sandbox.check_sound()?;
    check_files(sandbox, old, &[])
}

/// Checks that `quipu restore` writes every generation of every file. `more` are further arguments.
fn check_files(sandbox: &Sandbox, old: &OldLedger, more: &[&str]) -> Result<()> {
    let to = sandbox.at("restored");
    let restore = ["restore", "--all", "--to", "restored", "--generation", "all"];
    sandbox.json(&[&restore, more].concat())?;
    ensure!(files(&to)? == files(&old.files())?, "the restored bytes differ");
    Ok(fs::remove_dir_all(to)?)
}

/// Reads a backup of an old ledger, restores it, and checks the result.
fn read_and_restore(setting: &Setting, old: &OldLedger) -> Result<()> {
    let sandbox = Sandbox::new(setting)?;
    let backup = sandbox.at("backup.db");
    fs::write(&backup, old.backup())?;
    let list = sandbox.json(&["sessions", "--ledger", "backup.db"])?;
    ensure!(list.is_object(), "no session was listed: {list}");
    check_files(&sandbox, old, &["--ledger", "backup.db"])?;
    ensure!(fs::read(&backup)? == old.backup(), "the backup was changed");
    sandbox.json(&["backup", "--restore", "backup.db", "--yes"])?;
    check(&sandbox, old)
}

/// Migrates old ledgers on disks of growing sizes, and checks each with more space afterwards.
/// Returns the number of disks, and how many of them were too small.
fn full_disks(setting: &Setting) -> Result<(u64, u64)> {
    let (mut disks, mut refused) = (0, 0);
    let step = setting.times(700, 32).min(700);
    for (number, old) in OLD_LEDGERS.iter().enumerate() {
        if setting.effort == Effort::Small && number % 3 != 0 {
            continue;
        }
        let ledger = old.ledger();
        let mut size = ledger.len() as u64 / 1024 + 4;
        let max_size = size + 2000;
        while size < max_size {
            let sandbox = Sandbox::new(setting)?;
            fs::write(sandbox.at("old.db"), &ledger)?;
            let script = SCRIPT.replace("SIZE", &size.to_string());
            let Some(run) = in_namespace(&sandbox, &script)? else { return Ok((disks, refused)) };
            ensure!(run.code == Some(0), "the script failed: {run:?}");
            let about = || format!("{} on a disk of {size} kB", old.name);
            let read = |name: &str| fs::read_to_string(sandbox.at(name));
            let (code, stderr) = (read("code")?, read("err")?);
            let is_reported = stderr.contains("error: ") && stderr.contains("free some space");
            let is_full = code.trim() == "2" && is_reported;
            ensure!(is_full || code.trim() == "0", "{}: {code}: {stderr}", about());
            refused += u64::from(is_full);
            fs::remove_dir_all(sandbox.data())?;
            fs::rename(sandbox.at("kept"), sandbox.data())?;
            check(&sandbox, old).with_context(about)?;
            disks += 1;
            size += step;
        }
    }
    Ok((disks, refused))
}
