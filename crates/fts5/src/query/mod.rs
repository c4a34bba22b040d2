//! Which rows match, and which of them match best.

pub(crate) mod highest;
pub(crate) mod leading;
pub(crate) mod matching;
pub mod rank;
