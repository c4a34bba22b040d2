//! The query language ([`query`]), and the text shown for a hit ([`snippet`]).

pub mod query;
pub mod snippet;
pub mod words;
