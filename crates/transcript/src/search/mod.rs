//! The query language ([`query`]), the text shown for a hit ([`snippet`]), and how a text is split
//! into words ([`words`]).

pub mod query;
pub mod snippet;
pub mod words;
