//! Names that repeat in most rows, stored once each: types of entries, tools, targets of calls.
//!
//! Each name gets its number at its first use, so a rebuild assigns the same numbers.

pub(crate) mod kinds;
pub(crate) mod targets;
pub(crate) mod tools;
