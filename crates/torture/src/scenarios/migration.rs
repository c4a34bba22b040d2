//! A ledger of an older version is opened by processes that are killed while they migrate it.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::place::{Place, copy, files};
use crate::prng::Prng;
use crate::strace::{self, Fault};
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "migration",
    faults: "F4",
    what: "SIGKILL while a ledger of truth version 1 is migrated and projected again",
    run,
};

/// A ledger that version 1 wrote, and how many records are in it.
const OLD: &[u8] = include_bytes!("../../../ledger/tests/fixtures/v1/ledger.db.zst");
const RECORDS: u64 = 78;

/// What it gives back.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ledger/tests/fixtures/v1/files");

fn run(setting: &Setting) -> Result<Outcome> {
    let place = Place::new(setting)?;
    let old = place.at("old");
    fs::create_dir(&old)?;
    fs::write(old.join("ledger.db"), zstd::decode_all(OLD)?)?;
    let mut prng = Prng::new(setting.seed);
    let (mut runs, mut old_ones) = (0, 0);
    let mut look = |place: &Place| -> Result<()> {
        old_ones += u64::from(is_old(place)?);
        check(place)
    };
    for _ in 0..setting.times(10, 300) {
        copy(&old, &place.data())?;
        let mut child = place.command(&["sync"]).spawn()?;
        std::thread::sleep(Duration::from_micros(prng.below(60_000)));
        child.kill()?;
        child.wait()?;
        look(&place)?;
        runs += 1;
    }
    if strace::is_there() {
        for call in ["pwrite64", "fsync", "ftruncate"] {
            for when in setting.calls() {
                copy(&old, &place.data())?;
                let faulty = strace::run(&place, &["sync"], call, Fault::Kill, when)?;
                if !faulty.was_hit {
                    break;
                }
                look(&place).with_context(|| format!("killed at {call} number {when}"))?;
                runs += 1;
            }
        }
    }
    let what = format!("{runs} kills; still old after {old_ones}, new after {}", runs - old_ones);
    Ok(Outcome::Held { runs, what })
}

/// Whether it has to be brought up to date. Anything between old and new could not be read.
fn is_old(place: &Place) -> Result<bool> {
    let run = place.run(&["status"])?;
    let is_old = run.code == Some(2) && run.stderr.contains("written by an older quipu");
    ensure!(is_old || run.code == Some(0), "neither old nor new: {run:?}");
    Ok(is_old)
}

/// The next sync completes it, and all of it is there.
fn check(place: &Place) -> Result<()> {
    place.json(&["sync"]).context("the next sync does not complete it")?;
    let status = place.json(&["status"])?;
    ensure!(status["ledger"]["schema"].as_u64() >= Some(2), "not migrated: {status}");
    ensure!(status["ledger"]["records"] == RECORDS, "records: {status}");
    ensure!(status["ledger"]["unprojected"] == 0, "the projection is behind");
    place.check_sound()?;
    let to = place.at("restored");
    place.json(&["restore", "--all", "--to", "restored", "--generation", "all"])?;
    ensure!(files(&to)? == files(FILES.as_ref())?, "other bytes came back");
    fs::remove_dir_all(to)?;
    Ok(())
}
