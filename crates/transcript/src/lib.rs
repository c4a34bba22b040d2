//! The normal form of a session: the entries in agents' records, and the formats that read them.
//!
//! ```
//! use quipu_transcript::format::{self, Origin, Part};
//! use quipu_transcript::record;
//! use quipu_transcript::render::{Header, Markdown, Rendering};
//! use quipu_transcript::story::{StoryDetail, story_item};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let format = format::by_name("claude-code").ok_or("unknown format")?;
//!     let origin = Origin::of(Part::Transcript, "640ab4c7.jsonl");
//!     let lines = [
//!         r#"{"type":"user","uuid":"u1","message":{"role":"user","content":"What is a quipu?"}}"#,
//!         r#"{"type":"assistant","uuid":"a1","parentUuid":"u1","message":{"role":"assistant",
//!             "content":[{"type":"text","text":"Knots that keep numbers."}]}}"#,
//!     ];
//!
//!     // Decode each record, and write its story as Markdown.
//!     let mut page = Vec::new();
//!     let mut markdown = Markdown::new(StoryDetail::DEFAULT);
//!     markdown.begin(&Header::default(), &mut page)?;
//!     for line in lines {
//!         let mut written = Ok(());
//!         let problems = record::read(format, &origin, line.as_bytes(), &mut |entry| {
//!             written = markdown.item(&story_item(format, entry), &mut page);
//!         });
//!         written?;
//!         assert!(problems.is_empty());
//!     }
//!     markdown.end(&mut page)?;
//!     assert!(String::from_utf8(page)?.contains("Knots that keep numbers."));
//!     Ok(())
//! }
//! ```
//!
//! This crate never touches files, the clock, the environment, the network or SQL.
//! Decoding never fails and never panics: it returns what it understood and a list of problems.
//!
//! Read in this order: [`entry`] (the normal form), [`mod@format`] (the questions that each agent's
//! format answers), [`record`] (bytes to entries, damaged ones included), then one format.
//! [`story`] is what a person reads of a session.

pub mod compaction;
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
pub mod repair;
pub mod routing;
pub mod rows;
pub mod search;
pub mod shorten;
pub mod story;
pub mod time;
pub mod when;

pub use json::{is_stringified, stringify};

/// Returns the configuration of a property test: `cases` cases that are the same in every run or,
/// if `PROPTEST_CASES` is set, that number of random ones.
#[cfg(test)]
pub(crate) fn few_cases(cases: u32) -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config { failure_persistence: None, ..Config::default() },
        None => {
            let rng_seed = RngSeed::Fixed(1);
            Config { cases, rng_seed, failure_persistence: None, ..Config::default() }
        }
    }
}
