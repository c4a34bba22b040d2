//! Raw bytes and their positions: records, chunks, spans, checksums, the journal, indexes, damaged
//! files, and the marks of forgotten sessions.
//!
//! Never reads a table of the projection.

pub(crate) mod chunks;
pub(crate) mod damaged;
pub(crate) mod fields;
pub(crate) mod forgotten;
pub(crate) mod indexes;
pub(crate) mod journal;
pub(crate) mod native_lines;
pub(crate) mod records;
pub(crate) mod sources;
pub(crate) mod spans;
pub(crate) mod sums;
pub(crate) mod tails;
