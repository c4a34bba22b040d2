//! What people ask for when they search ([`query`]), and what they are shown of a hit ([`snippet`]).

pub mod query;
pub mod snippet;
pub mod words;
