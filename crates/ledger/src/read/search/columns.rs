//! The columns of the search index, one bit each.
//!
//! The order is that of the table. A set of columns is a bit mask and is never stored.

pub(crate) const TOOL_RESULT: u8 = 1;
pub(crate) const TOOL_INPUT: u8 = 2;
pub(crate) const PROSE: u8 = 4;
pub(crate) const THINKING: u8 = 8;
pub(crate) const ATTACHED: u8 = 16;
