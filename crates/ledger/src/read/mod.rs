//! Answers out of the projection: queries and search.

pub(crate) mod query;
pub(crate) mod search;
