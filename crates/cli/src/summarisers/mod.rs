//! The summarisers that a configuration can choose: one file each, and one list of them.

mod command;

use quipu_ledger::store::{Digest, Summariser};

use crate::config::SummariserConfig;
use crate::error::Result;

/// The kinds of summarisers, by the name in the configuration.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "digest", make: |_| Ok(Box::new(Digest)) },
    Kind { name: "command", make: command::make },
];

/// One kind of summariser.
pub(crate) struct Kind {
    /// The name.
    pub(crate) name: &'static str,
    make: fn(&SummariserConfig) -> Result<Box<dyn Summariser>>,
}

/// Returns the configured summariser; the digest by default.
pub(crate) fn configured(config: &SummariserConfig) -> Result<Box<dyn Summariser>> {
    let name = config.kind.unwrap_or("digest");
    match KINDS.iter().find(|kind| kind.name == name) {
        Some(kind) => (kind.make)(config),
        None => Ok(Box::new(Digest)),
    }
}
