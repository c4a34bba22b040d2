//! The values that a server is started with.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::tz::TimeZone;
use quipu_ledger::collect::RootPath;
use quipu_ledger::query::WindowLimits;
use quipu_ledger::store::{CompactionSettings, Digest, Summariser};
use quipu_transcript::prices::Prices;
use quipu_transcript::routing::Settings as Routing;

/// The values that a server is started with.
#[derive(Debug)]
pub struct Settings {
    /// The ledger.
    pub ledger: PathBuf,
    /// True if records that are not projected yet may be projected, so that an answer has them.
    pub may_project: bool,
    /// The folders that `status` looks at.
    pub roots: Vec<RootPath>,
    /// The prices of tokens.
    pub prices: Prices,
    /// The limits of a plan.
    pub limits: WindowLimits,
    /// True if requests with a token for writing may write.
    pub may_write: bool,
    /// The settings of compactions.
    pub compaction: CompactionSettings,
    /// The rules for messages: session keys, resets, and who may write to an agent.
    pub routing: Routing,
    /// What makes the summaries of compactions.
    pub summariser: Summarisers,
    /// The time zone of days, and of times in requests.
    pub zone: TimeZone,
}

/// Makes summarisers, one for each compaction.
#[derive(Clone)]
pub struct Summarisers(Arc<Make>);

type Make = dyn Fn() -> Result<Box<dyn Summariser>, String> + Send + Sync;

impl Summarisers {
    /// Returns what calls `make` for each compaction. The error is the reason why there is none.
    pub fn new(
        make: impl Fn() -> Result<Box<dyn Summariser>, String> + Send + Sync + 'static,
    ) -> Summarisers {
        Summarisers(Arc::new(make))
    }

    pub(crate) fn make(&self) -> Result<Box<dyn Summariser>, String> {
        (self.0)()
    }
}

impl Default for Summarisers {
    /// Returns the summariser without a model.
    fn default() -> Summarisers {
        Summarisers::new(|| Ok(Box::new(Digest)))
    }
}

impl fmt::Debug for Summarisers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Summarisers")
    }
}
