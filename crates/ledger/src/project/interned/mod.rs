//! Names that repeat in most rows, stored once each: types of entries, tools, targets of calls.
//!
//! Only a rebuild assigns new numbers.

pub(crate) mod kinds;
pub(crate) mod targets;
pub(crate) mod tools;
