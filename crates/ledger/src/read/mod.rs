//! Queries and search, answered from the projection.
//!
//! Never reads a source file. Only `query::complete` writes: it catches the projection up.

pub mod query;
pub mod search;
