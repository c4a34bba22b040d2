//! The normal form of a session: the entries in agents' records, and the formats that read them.
//!
//! This crate never touches files, the clock, the environment, the network or SQL.
//! Decoding never fails and never panics: it returns what it understood and a list of problems.
//!
//! Read in this order: [`entry`] (the normal form), [`mod@format`] (the questions that each agent's
//! format answers), [`record`] (bytes to entries, damaged ones included), then one format.
//! [`story`] is what a person reads of a session.

pub mod context;
pub mod entry;
pub mod format;
pub mod formats;
pub mod index;
mod json;
pub mod key;
mod message;
pub mod names;
pub mod native;
pub mod prices;
pub mod problem;
pub mod project;
pub mod record;
mod recover;
pub mod redact;
pub mod render;
pub mod routing;
pub mod rows;
pub mod search;
pub mod shorten;
pub mod story;
pub mod time;
pub mod when;
