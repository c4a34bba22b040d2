//! The values that a server is started with.

use std::path::PathBuf;

use jiff::tz::TimeZone;
use quipu_ledger::collect::RootPath;
use quipu_ledger::query::WindowLimits;
use quipu_ledger::store::CompactionSettings;
use quipu_transcript::prices::Prices;

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
    /// The settings of compactions, for `headroom`.
    pub compaction: CompactionSettings,
    /// The time zone of days, and of times in requests.
    pub zone: TimeZone,
}
