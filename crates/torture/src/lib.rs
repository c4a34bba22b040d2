//! Injects the faults that disks, kernels and people cause, and checks that quipu loses, doubles or
//! half-stores nothing.
//!
//! Drives the real binary from outside and links none of its crates. A scenario is one kind of
//! fault; [`SCENARIOS`] lists them. `quipu-torture` runs them for minutes, and quipu's own tests
//! run small versions of them. A scenario that a machine cannot run (no strace, no mounts) is
//! skipped with a message.

mod half_collected;
mod old_ledgers;
mod prng;
mod sandbox;
mod scenarios;
mod strace;
mod writer;

use std::path::PathBuf;

pub use old_ledgers::{OLD_LEDGERS, OldLedger};
pub use prng::Prng;
pub use scenarios::SCENARIOS;

/// One kind of fault.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// The name on the command line.
    pub name: &'static str,
    /// The rows of the fault table in docs/reliability.md.
    pub faults: &'static str,
    /// A description.
    pub what: &'static str,
    /// Runs it. An error is a broken promise.
    pub run: fn(&Setting) -> anyhow::Result<Outcome>,
}

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The binary.
    pub quipu: PathBuf,
    /// The folder for homes and ledgers; the system's temporary folder if `None`.
    pub work: Option<PathBuf>,
    /// The seed of everything random.
    pub seed: u64,
    /// The amount of work.
    pub effort: Effort,
}

/// The amount of work of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// A second or two, as a test.
    Small,
    /// Minutes, multiplied by this number.
    Full(u64),
}

impl Setting {
    /// Returns how often something is repeated.
    pub(crate) fn times(&self, small: u64, full: u64) -> u64 {
        match self.effort {
            Effort::Small => small,
            Effort::Full(factor) => full * factor,
        }
    }

    /// Returns the numbers of the calls that fail, one per run: the first 600 calls, or a few that
    /// are closer together at the beginning.
    pub(crate) fn calls(&self) -> Vec<u64> {
        match self.effort {
            Effort::Small => vec![1, 2, 4, 9, 30],
            Effort::Full(_) => (1..=600).collect(),
        }
    }
}

/// The result of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every promise held.
    Held {
        /// The number of faults.
        runs: u64,
        /// A summary.
        what: String,
    },
    /// This machine cannot run it.
    Skipped(String),
}

/// Reports that this machine cannot run a test. In CI, where everything is installed, that is a
/// failure.
///
/// # Panics
///
/// If the environment has `CI=true`.
#[expect(clippy::print_stdout, reason = "called by tests alone")]
pub fn skip(why: &str) {
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!is_ci, "skipped in CI: {why}");
    println!("skipped: {why}");
}
