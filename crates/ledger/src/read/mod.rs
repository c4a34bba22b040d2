//! Queries, search and events, answered from the projection.
//!
//! Never reads a source file. Only `query::complete` writes to the ledger: it makes the projection
//! catch up.

pub mod events;
pub mod query;
pub mod search;
