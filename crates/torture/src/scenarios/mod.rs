//! The kinds of faults: one file each, and one list of them.

mod backups;
mod collectors;
mod errors;
mod full_disk;
mod kills;
mod limits;
mod migration;
mod mixed;
mod read_only;
mod steps;

use crate::Scenario;

/// All of them.
pub const SCENARIOS: &[Scenario] = &[
    kills::SCENARIO,
    steps::SCENARIO,
    migration::SCENARIO,
    backups::SCENARIO,
    errors::SCENARIO,
    full_disk::SCENARIO,
    limits::SCENARIO,
    read_only::SCENARIO,
    collectors::SCENARIO,
    mixed::SCENARIO,
];
