//! A ledger of an older version is opened by processes that are killed, or find the disk full, while
//! they migrate it; and backups of old versions are read and restored.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::old::{OLD, Old};
use crate::place::{Place, files, in_namespace};
use crate::prng::Prng;
use crate::strace::{self, Fault};
use crate::{Effort, Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "migration",
    faults: "F4",
    what: "SIGKILL and full disks while ledgers of every older version are brought up to date",
    run,
};

/// Migrates on a disk with `SIZE` kilobytes; then on a large one. Leaves how each run ended.
const SCRIPT: &str = r#"
set -u
mount -t tmpfs -o size=SIZEk none data || exit 77
cp old.db data/ledger.db || exit 1
"$QUIPU" sync >out 2>err; echo $? >code
mount -o remount,size=64m data
mkdir kept && cp data/ledger.db* kept/
"#;

fn run(setting: &Setting) -> Result<Outcome> {
    let place = Place::new(setting)?;
    let mut prng = Prng::new(setting.seed);
    let (mut kills, mut old_ones) = (0, 0);
    let mut look = |place: &Place, old: &Old| -> Result<()> {
        kills += 1;
        old_ones += u64::from(is_old(place)?);
        check(place, old)
    };
    let rounds = (0..setting.times(8, 400)).zip(OLD.iter().cycle());
    for (_, old) in rounds {
        put(&place, old)?;
        let mut child = place.command(&["sync"]).spawn()?;
        std::thread::sleep(Duration::from_micros(prng.below(60_000)));
        child.kill()?;
        child.wait()?;
        look(&place, old).with_context(|| format!("{}: killed", old.name))?;
    }
    if strace::is_there() {
        for (number, call) in ["pwrite64", "fsync", "ftruncate"].into_iter().enumerate() {
            for old in some(setting, number) {
                for when in setting.calls() {
                    put(&place, old)?;
                    let faulty = strace::run(&place, &["sync"], call, Fault::Kill, when)?;
                    if !faulty.was_hit {
                        break;
                    }
                    let about = || format!("{}: killed at {call} number {when}", old.name);
                    look(&place, old).with_context(about)?;
                }
            }
        }
    }
    for old in OLD {
        read_and_restore(setting, old).with_context(|| format!("a backup of {}", old.name))?;
    }
    let (disks, refused) = full_disks(setting)?;
    let what = format!(
        "{kills} kills (still old after {old_ones}), {disks} disks ({refused} too small), {} backups",
        OLD.len()
    );
    Ok(Outcome::Held { runs: kills + disks + OLD.len() as u64, what })
}

/// All old ledgers, or one of them.
fn some(setting: &Setting, number: usize) -> impl Iterator<Item = &'static Old> {
    let most = if setting.effort == Effort::Small { 1 } else { OLD.len() };
    OLD.iter().cycle().skip(number * 2).take(most)
}

fn put(place: &Place, old: &Old) -> Result<()> {
    place.remove_ledger()?;
    Ok(fs::write(place.ledger(), old.ledger())?)
}

/// Whether it has to be brought up to date. Anything between old and new could not be read.
fn is_old(place: &Place) -> Result<bool> {
    let run = place.run(&["status"])?;
    let is_old = run.code == Some(2) && run.stderr.contains("written by an older quipu");
    ensure!(is_old || run.code == Some(0), "neither old nor new: {run:?}");
    Ok(is_old)
}

/// The next sync completes it, and all of it is there.
fn check(place: &Place, old: &Old) -> Result<()> {
    place.json(&["sync"]).context("the next sync does not complete it")?;
    let status = place.json(&["status"])?;
    ensure!(status["ledger"]["schema"].as_u64() >= Some(5), "not migrated: {status}");
    ensure!(status["ledger"]["records"] == old.records, "records: {status}");
    ensure!(status["ledger"]["unprojected"] == 0, "the projection is behind");
    place.check_sound()?;
    check_files(place, old, &[])
}

/// Every generation of every file comes back.
fn check_files(place: &Place, old: &Old, more: &[&str]) -> Result<()> {
    let to = place.at("restored");
    let restore = ["restore", "--all", "--to", "restored", "--generation", "all"];
    place.json(&[&restore, more].concat())?;
    ensure!(files(&to)? == files(&old.files())?, "other bytes came back");
    Ok(fs::remove_dir_all(to)?)
}

/// A backup is read as it is, and put in a ledger's place.
fn read_and_restore(setting: &Setting, old: &Old) -> Result<()> {
    let place = Place::new(setting)?;
    let backup = place.at("backup.db");
    fs::write(&backup, old.backup())?;
    let list = place.json(&["sessions", "--ledger", "backup.db"])?;
    ensure!(list.is_object(), "no session is listed: {list}");
    check_files(&place, old, &["--ledger", "backup.db"])?;
    ensure!(fs::read(&backup)? == old.backup(), "it was written to");
    place.json(&["backup", "--restore", "backup.db", "--yes"])?;
    check(&place, old)
}

/// How many disks there were, and how many were too small.
fn full_disks(setting: &Setting) -> Result<(u64, u64)> {
    let (mut disks, mut refused) = (0, 0);
    let step = setting.times(700, 32).min(700);
    for (number, old) in OLD.iter().enumerate() {
        if setting.effort == Effort::Small && number % 3 != 0 {
            continue;
        }
        let ledger = old.ledger();
        let mut size = ledger.len() as u64 / 1024 + 4;
        let most = size + 2000;
        while size < most {
            let place = Place::new(setting)?;
            fs::write(place.at("old.db"), &ledger)?;
            let script = SCRIPT.replace("SIZE", &size.to_string());
            let Some(run) = in_namespace(&place, &script)? else { return Ok((disks, refused)) };
            ensure!(run.code == Some(0), "the script failed: {run:?}");
            let about = || format!("{} on a disk of {size} kB", old.name);
            let read = |name: &str| fs::read_to_string(place.at(name));
            let (code, told) = (read("code")?, read("err")?);
            let is_told = told.contains("error: ") && told.contains("make room");
            let is_full = code.trim() == "2" && is_told;
            ensure!(is_full || code.trim() == "0", "{}: {code}: {told}", about());
            refused += u64::from(is_full);
            fs::remove_dir_all(place.data())?;
            fs::rename(place.at("kept"), place.data())?;
            check(&place, old).with_context(about)?;
            disks += 1;
            size += step;
        }
    }
    Ok((disks, refused))
}
