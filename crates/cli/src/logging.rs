//! Log lines on stderr: ids, paths and lengths, never transcript text.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;

use crate::output::LogLines;

/// Starts logging. Warnings by default, errors only when quiet, more with each `-v`.
pub(crate) fn start(is_quiet: bool, verbose: u8) {
    let level = match (is_quiet, verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, 2) => LevelFilter::DEBUG,
        (false, _) => LevelFilter::TRACE,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .with_writer(|| LogLines)
        .finish()
        // Other crates log what they were given.
        .with(Targets::new().with_target("quipu", level));
    // Fails only if logging has started already.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
