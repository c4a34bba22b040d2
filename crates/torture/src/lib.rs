//! Does to quipu what disks, kernels and people do to it, and checks that nothing is lost, doubled
//! or half-stored.
//!
//! Drives the real binary from outside and links none of its crates. A scenario is one kind of
//! fault; [`SCENARIOS`] lists them. `quipu-torture` runs them for minutes, and quipu's own tests run
//! small versions of the same ones. What a machine cannot do (no strace, no mounts) is skipped and
//! said.

mod half;
mod old;
mod place;
mod prng;
mod scenarios;
mod strace;
mod writer;

use std::path::PathBuf;

pub use old::{OLD, Old};
pub use prng::Prng;
pub use scenarios::SCENARIOS;

/// One kind of fault.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Which rows of the fault table it shows.
    pub faults: &'static str,
    /// What it does.
    pub what: &'static str,
    /// Does it. An error is a promise that was broken.
    pub run: fn(&Setting) -> anyhow::Result<Outcome>,
}

/// What a scenario is run with.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The binary.
    pub quipu: PathBuf,
    /// Where homes and ledgers are put; the system's temporary folder if `None`.
    pub work: Option<PathBuf>,
    /// Seed of everything random.
    pub seed: u64,
    /// How much.
    pub effort: Effort,
}

/// How much a scenario does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// A second or two, as a test.
    Small,
    /// Minutes: so many times what is usual.
    Full(u64),
}

impl Setting {
    /// How often something is done.
    pub(crate) fn times(&self, small: u64, full: u64) -> u64 {
        match self.effort {
            Effort::Small => small,
            Effort::Full(factor) => full * factor,
        }
    }

    /// Which of the calls of a program fail, one per run. All of them, or few that lie closer
    /// together at the beginning.
    pub(crate) fn calls(&self) -> Vec<u64> {
        match self.effort {
            Effort::Small => vec![1, 2, 4, 9, 30],
            Effort::Full(_) => (1..=600).collect(),
        }
    }
}

/// What a scenario did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every promise held.
    Held {
        /// How often it was tried.
        runs: u64,
        /// What happened.
        what: String,
    },
    /// This machine cannot do it.
    Skipped(String),
}

/// Reports that this machine cannot run a test. In CI, where everything has to be there, that is a
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
