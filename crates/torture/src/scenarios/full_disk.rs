//! The disk of the ledger fills up while it is collected into, and is freed again.

use std::fs;

use anyhow::{Context as _, Result, ensure};

use crate::place::{Place, in_namespace};
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "full-disk",
    faults: "F11 F12",
    what: "a disk of a few megabytes fills up during sync and backup, and is freed again",
    run,
};

/// Collects on a disk of `$1` kilobytes, as often as there is something new; then on a large one.
/// Leaves how each run ended, and the ledger.
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

fn run(setting: &Setting) -> Result<Outcome> {
    let (mut runs, mut refused) = (0, 0);
    let mut size = 300;
    let step = setting.times(900, 60).min(900);
    while size < 3000 {
        let place = Place::new(setting)?;
        let mut writer = Writer::new(&place, setting.seed + size)?;
        writer.lines(&place, 2000)?;
        let script = SCRIPT.replace("SIZE", &size.to_string());
        let Some(run) = in_namespace(&place, &script)? else {
            return Ok(Outcome::Skipped("nothing can be mounted here".to_owned()));
        };
        ensure!(run.code == Some(0), "the script failed: {run:?}");
        let about = || format!("a disk of {size} kB");
        for round in ["1", "2", "3", "4"] {
            refused += u64::from(check(&place, round).with_context(about)? != 0);
        }
        ensure!(check(&place, "5").with_context(about)? == 0, "{}: it does not go on", about());
        let left = fs::read_to_string(place.at("left"))?;
        ensure!(
            left.lines().all(|name| name.starts_with("ledger.db") || name == "copy.db"),
            "left behind: {left}"
        );
        fs::remove_dir_all(place.data())?;
        fs::rename(place.at("kept"), place.data())?;
        place.check_without_sync(writer.complete()).with_context(about)?;
        runs += 1;
        size += step;
    }
    let what = format!("{runs} disks; {refused} commands refused, complete once there was room");
    Ok(Outcome::Held { runs, what })
}

/// How a run ended: it worked, or said that the disk is full.
fn check(place: &Place, round: &str) -> Result<i32> {
    let read = |name: &str| fs::read_to_string(place.at(&format!("{name}.{round}")));
    let code: i32 = read("code")?.trim().parse()?;
    let told = read("err")?;
    // A disk that cannot hold even an empty ledger has nothing to back up.
    let is_told = told.contains("error: ")
        && (told.contains("make room") || told.contains("there is no ledger"));
    ensure!(code == 0 || (code == 2 && is_told), "run {round} ended with {code}: {told}");
    Ok(code)
}
