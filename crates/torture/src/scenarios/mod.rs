//! The scenarios: one file each, and one list of them.

mod actions;
mod backups;
mod collectors;
mod errors;
mod full_disk;
mod kills;
mod limits;
mod migration;
mod mixed;
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
    steps::SCENARIO,
    signals::SCENARIO,
    migration::SCENARIO,
    backups::SCENARIO,
    errors::SCENARIO,
    full_disk::SCENARIO,
    limits::SCENARIO,
    read_only::SCENARIO,
    collectors::SCENARIO,
    sources::SCENARIO,
    targets::SCENARIO,
    mixed::SCENARIO,
];
