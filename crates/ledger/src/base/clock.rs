//! The wall clock, for the few facts of truth that carry a time.
//!
//! The projection never reads it: a rebuild has to derive the same rows at any time.

use std::time::SystemTime;

/// Returns the milliseconds since 1970, UTC.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
