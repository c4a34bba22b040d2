//! Queries and search, answered from the projection.
//!
//! Never reads a source file. Only `query::complete` writes: it brings the projection up to date.

pub(crate) mod query;
pub(crate) mod search;
