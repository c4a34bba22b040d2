//! The query language ([`query`]), other forms of its words ([`endings`], [`signs`]), and the text
//! shown for a hit ([`snippet`]).

pub mod endings;
pub mod query;
pub mod signs;
pub mod snippet;
pub mod words;
