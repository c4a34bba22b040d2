//! Random actions on files, and syncs that are killed at random times, compared with a model of
//! what the ledger must contain.

mod model;

use anyhow::{Context as _, Result};

use crate::{Outcome, Scenario, Setting};
use model::Model;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "actions",
    faults: "F25 to F34",
    what: "random appends, rewrites, renames, copies and deletions; syncs killed in between",
    run,
};

/// Syncs of one ledger before an empty one replaces it, so that each check stays fast.
const SYNCS_PER_LEDGER: u64 = 100;

fn run(setting: &Setting) -> Result<Outcome> {
    let syncs = setting.times(60, 2_000);
    let (mut done, mut killed, mut actions) = (0, 0, 0);
    let mut seed = setting.seed;
    while done < syncs {
        let mut model = Model::new(setting, seed)?;
        let here = SYNCS_PER_LEDGER.min(syncs - done);
        model.run(here).with_context(|| format!("with --seed {seed}"))?;
        done += here;
        killed += model.killed;
        actions += model.actions;
        seed += 1;
    }
    let what = format!("{actions} actions, {killed} syncs killed; every content is kept");
    Ok(Outcome::Held { runs: syncs, what })
}
