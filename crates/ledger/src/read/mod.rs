//! Queries and search, answered from the projection.
//!
//! Never reads a source file. Only `query::complete` writes: it brings the projection up to date.

pub mod query;
pub mod search;
