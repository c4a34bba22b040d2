//! The ledger is on a read-only disk.

use std::fs;

use anyhow::{Result, ensure};

use crate::sandbox::{Sandbox, in_namespace};
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "read-only",
    faults: "F23",
    what: "a ledger on a read-only mount: reading works or fails with a hint, nothing changes",
    run,
};

/// Puts the ledger on a read-only disk, and runs every command.
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
    let sandbox = Sandbox::new(setting)?;
    let mut writer = Writer::new(&sandbox, setting.seed)?;
    writer.lines(&sandbox, 10)?;
    sandbox.json(&["sync"])?;
    writer.lines(&sandbox, 1)?;
    let Some(run) = in_namespace(&sandbox, SCRIPT)? else {
        return Ok(Outcome::Skipped("nothing can be mounted here".to_owned()));
    };
    ensure!(run.code == Some(0), "the script failed, or the ledger changed: {run:?}");
    let mut worked = Vec::new();
    for name in ["sync", "status", "cursors", "rebuild", "restore", "backup"] {
        let code = fs::read_to_string(sandbox.at(&format!("code.{name}")))?;
        let stderr = fs::read_to_string(sandbox.at(&format!("err.{name}")))?;
        let is_reported = stderr.starts_with("error: ") && stderr.contains("hint: ");
        match code.trim() {
            "0" => worked.push(name),
            "2" => ensure!(is_reported, "{name} failed without an error and a hint: {stderr}"),
            other => anyhow::bail!("{name} ended with {other}: {stderr}"),
        }
    }
    ensure!(!worked.contains(&"sync") && !worked.contains(&"rebuild"), "{worked:?} worked");
    sandbox.check(writer.complete())?;
    let what = format!("{} succeeded, the others failed with a hint", worked.join(", "));
    Ok(Outcome::Held { runs: 6, what })
}
