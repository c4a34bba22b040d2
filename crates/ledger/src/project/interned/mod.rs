//! Names that repeat in most rows, stored once each: types of entries, tools, targets of calls.
//!
//! A number never changes after its first use.

pub(crate) mod kinds;
pub(crate) mod targets;
pub(crate) mod tools;
