//! The disk of the ledger fills up during a sync, and gets free space again.

use std::fs;

use anyhow::{Context as _, Result, ensure};

use crate::sandbox::{Sandbox, in_namespace};
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "full-disk",
    faults: "F11 F12",
    what: "a disk of a few megabytes fills up during sync and backup, then has space again; \
           reading on a full disk",
    run,
};

/// Syncs three times and makes a backup on a disk of `SIZE` kilobytes, then syncs on a large one.
/// Leaves the exit codes, the output and the ledger.
const SCRIPT: &str = r#"
set -u
mount -t tmpfs -o size=SIZEk none data || exit 77
for round in 1 2 3; do
    "$QUIPU" sync >out.$round 2>err.$round; echo $? >code.$round
done
"$QUIPU" backup data/copy.db >out.4 2>err.4; echo $? >code.4
ls -A data >left
mount -o remount,size=64m data
"$QUIPU" sync >out.5 2>err.5; echo $? >code.5
mkdir kept
cp data/ledger.db* kept/
"#;

/// Reads a ledger with different amounts of free space. `FREE` are kilobytes, `DISK` mounts `data`.
/// Each line of `codes` has the kilobytes, the exit code and the command.
const READING_SCRIPT: &str = r#"
set -u
mkdir seed && cp data/ledger.db* seed/
DISK || exit 77
cp seed/ledger.db data/ && : >data/ledger.db.lock && : >data/ledger.db.wait
for free in FREE; do
    dd if=/dev/zero of=data/fill bs=1k 2>/dev/null
    truncate -s -${free}K data/fill
    for command in "status" "sessions" "sessions --no-sync" "usage" "search word" "doctor" "cursors" \
        "restore --all --to given.$free" "backup copy.$free.db" "sync"; do
        "$QUIPU" $command >out 2>err
        echo $free $? $command >>codes
        { echo "$free $command"; cat out err; } >>output
        rm -f data/ledger.db-shm
    done
    cmp seed/ledger.db data/ledger.db && [ ! -s data/ledger.db-wal ] || cp seed/ledger.db data/
    rm -f data/fill data/ledger.db-*
done
"#;

/// Disks with different block sizes.
const DISKS: [(&str, &str); 2] = [
    ("tmpfs", "mount -t tmpfs -o size=4m none data"),
    // Blocks smaller than SQLite's shared-memory pages, which may not be allocated completely.
    (
        "blocks of 1 KiB",
        "truncate -s 6M image && mkfs.ext4 -q -b 1024 -m 0 image && mount -o loop image data",
    ),
];

/// Reads on full disks. Returns the number of commands, and the disks that cannot be mounted.
fn read_all(setting: &Setting) -> Result<(u64, Vec<&'static str>)> {
    let (mut runs, mut absent) = (0, Vec::new());
    let free: Vec<String> = match setting.effort {
        crate::Effort::Small => [0, 8, 36].iter().map(ToString::to_string).collect(),
        crate::Effort::Full(_) => (0..=64).map(|n| n.to_string()).collect(),
    };
    for (name, disk) in DISKS {
        let sandbox = Sandbox::new(setting)?;
        let mut writer = Writer::new(&sandbox, setting.seed)?;
        writer.lines(&sandbox, 20)?;
        sandbox.json(&["sync"])?;
        writer.lines(&sandbox, 2)?;
        let script = READING_SCRIPT.replace("DISK", disk).replace("FREE", &free.join(" "));
        match in_namespace(&sandbox, &script)? {
            Some(run) if run.code == Some(0) => {}
            Some(run) if run.code != Some(77) => anyhow::bail!("the script failed: {run:?}"),
            _ => {
                absent.push(name);
                continue;
            }
        }
        let output = fs::read_to_string(sandbox.at("output"))?;
        for line in fs::read_to_string(sandbox.at("codes"))?.lines() {
            let mut words = line.split(' ').skip(1);
            let (code, command) = (words.next(), words.next());
            // These write to the ledger: a backup is recorded in its journal.
            let is_writing = matches!(command, Some("sync" | "backup"));
            let is_fine = code == Some("0") || (is_writing && code == Some("2"));
            ensure!(is_fine, "{name}: {line}\n{output}");
            runs += 1;
        }
        // The ledger is not damaged.
        ensure!(
            !output.contains("keep a copy of the file"),
            "{name}: reported as damaged:\n{output}"
        );
        ensure!(!output.contains("the disk failed"), "{name}: {output}");
        sandbox.check(writer.complete())?;
    }
    Ok((runs, absent))
}

fn run(setting: &Setting) -> Result<Outcome> {
    let (mut runs, mut refused) = (0, 0);
    let mut size = 300;
    let step = setting.times(900, 60).min(900);
    while size < 3000 {
        let sandbox = Sandbox::new(setting)?;
        let mut writer = Writer::new(&sandbox, setting.seed + size)?;
        writer.lines(&sandbox, 2000)?;
        let script = SCRIPT.replace("SIZE", &size.to_string());
        let Some(run) = in_namespace(&sandbox, &script)? else {
            return Ok(Outcome::Skipped("nothing can be mounted here".to_owned()));
        };
        ensure!(run.code == Some(0), "the script failed: {run:?}");
        let about = || format!("a disk of {size} kB");
        for round in ["1", "2", "3", "4"] {
            refused += u64::from(check(&sandbox, round).with_context(about)? != 0);
        }
        ensure!(
            check(&sandbox, "5").with_context(about)? == 0,
            "{}: the sync does not complete",
            about()
        );
        let left = fs::read_to_string(sandbox.at("left"))?;
        ensure!(
            left.lines().all(|name| name.starts_with("ledger.db") || name == "copy.db"),
            "left behind: {left}"
        );
        fs::remove_dir_all(sandbox.data())?;
        fs::rename(sandbox.at("kept"), sandbox.data())?;
        sandbox.check_without_sync(writer.complete()).with_context(about)?;
        runs += 1;
        size += step;
    }
    let (read, absent) = read_all(setting)?;
    let mut what = format!(
        "{runs} disks; {refused} commands refused, complete once there was space; {read} read \
         without space"
    );
    if !absent.is_empty() {
        what.push_str(&format!("; cannot be mounted here: {}", absent.join(", ")));
    }
    Ok(Outcome::Held { runs: runs + read, what })
}

/// Returns the exit code of a run, after checking that it succeeded or reported a full disk.
fn check(sandbox: &Sandbox, round: &str) -> Result<i32> {
    let read = |name: &str| fs::read_to_string(sandbox.at(&format!("{name}.{round}")));
    let code: i32 = read("code")?.trim().parse()?;
    let output = read("err")?;
    // A disk too small for an empty ledger has nothing to back up.
    let is_reported = output.contains("error: ")
        && (output.contains("free some space") || output.contains("there is no ledger"));
    ensure!(code == 0 || (code == 2 && is_reported), "run {round} ended with {code}: {output}");
    Ok(code)
}
