//! The query language ([`query`]), other forms of its words ([`endings`], [`signs`]), the text shown
//! for a hit ([`snippet`]), and how a text is split into words ([`words`]).

pub mod endings;
pub mod query;
pub mod signs;
pub mod snippet;
pub mod words;
