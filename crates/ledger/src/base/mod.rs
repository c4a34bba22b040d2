//! The lowest layer: ids, errors, the clock, names of sidecar files, and access to files of other
//! programs (`foreign` reads them, `target` writes beneath a folder).
//!
//! Holds no SQL statement and knows nothing of sessions.

pub(crate) mod clock;
pub(crate) mod error;
pub mod files;
pub(crate) mod foreign;
pub mod ids;
pub(crate) mod paths;
pub(crate) mod sidecar;
pub(crate) mod target;
