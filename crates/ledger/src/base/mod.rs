//! What everything else uses: ids, errors, the clock, names of sidecar files, and the doors to
//! files of other programs (`foreign` reads them, `target` writes beneath a folder).

pub(crate) mod clock;
pub(crate) mod error;
pub(crate) mod foreign;
pub(crate) mod ids;
pub(crate) mod paths;
pub(crate) mod sidecar;
pub(crate) mod target;
