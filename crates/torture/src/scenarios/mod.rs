//! The scenarios: one file each, and one list of them.

mod actions;
mod backups;
mod collectors;
mod compactions;
mod database;
mod errors;
mod full_disk;
mod growth;
mod inputs;
mod kills;
mod limits;
mod migration;
mod mixed;
mod modes;
mod read_only;
mod signals;
mod sources;
mod steps;
mod targets;

use crate::Scenario;

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    kills::SCENARIO,
    actions::SCENARIO,
    compactions::SCENARIO,
    steps::SCENARIO,
    signals::SCENARIO,
    migration::SCENARIO,
    backups::SCENARIO,
    errors::SCENARIO,
    full_disk::SCENARIO,
    limits::SCENARIO,
    read_only::SCENARIO,
    modes::SCENARIO,
    collectors::SCENARIO,
    sources::SCENARIO,
    database::SCENARIO,
    targets::SCENARIO,
    inputs::SCENARIO,
    growth::SCENARIO,
    mixed::SCENARIO,
];
