//! Columns of the search index, one bit each, in the order of the table.

pub(crate) const TOOL_RESULT: u8 = 1;
pub(crate) const TOOL_INPUT: u8 = 2;
pub(crate) const PROSE: u8 = 4;
pub(crate) const THINKING: u8 = 8;
