//! The ledger is on a disk that cannot be written to.

use std::fs;

use anyhow::{Result, ensure};

use crate::place::{Place, in_namespace};
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "read-only",
    faults: "F23",
    what: "a ledger on a read-only mount: reading works or says why not, nothing changes",
    run,
};

/// Puts the ledger on a disk of its own that may not be written to, and runs every command.
const SCRIPT: &str = r#"
set -u
mkdir seed && cp data/ledger.db* seed/
mount -t tmpfs none data || exit 77
cp seed/* data/ && mount -o remount,ro data
run() { name=$1; shift; "$QUIPU" "$@" >out.$name 2>err.$name; echo $? >code.$name; }
run sync sync
run status status --json
run cursors cursors --json
run rebuild rebuild
run restore restore --all --to given
run backup backup copy.db
cmp seed/ledger.db data/ledger.db || exit 1
"#;

fn run(setting: &Setting) -> Result<Outcome> {
    let place = Place::new(setting)?;
    let mut writer = Writer::new(&place, setting.seed)?;
    writer.lines(&place, 10)?;
    place.json(&["sync"])?;
    writer.lines(&place, 1)?;
    let Some(run) = in_namespace(&place, SCRIPT)? else {
        return Ok(Outcome::Skipped("nothing can be mounted here".to_owned()));
    };
    ensure!(run.code == Some(0), "the script failed, or the ledger changed: {run:?}");
    let mut worked = Vec::new();
    for name in ["sync", "status", "cursors", "rebuild", "restore", "backup"] {
        let code = fs::read_to_string(place.at(&format!("code.{name}")))?;
        let told = fs::read_to_string(place.at(&format!("err.{name}")))?;
        let is_told = told.starts_with("error: ") && told.contains("hint: ");
        match code.trim() {
            "0" => worked.push(name),
            "2" => ensure!(is_told, "{name} did not say why not: {told}"),
            other => anyhow::bail!("{name} ended with {other}: {told}"),
        }
    }
    ensure!(!worked.contains(&"sync") && !worked.contains(&"rebuild"), "{worked:?} worked");
    place.check(writer.complete())?;
    let what = format!("{} worked, the others said why not", worked.join(", "));
    Ok(Outcome::Held { runs: 6, what })
}
