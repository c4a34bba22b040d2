//! Compaction: when a context has to shrink, what is summarised and what stays.
//!
//! ```text
//! context   PathEntries   the entries of a context, with their messages
//! tokens    estimate      how large the context is
//! budget    Budget        how large it may become
//! cut       Cutter        where it is cut
//! plan      Plan          what is summarised, what stays, the files; and the entry to append
//! digest    digest        a summary without a model
//! growth    growth        how an appended line changes the size
//! fit       fit           a context shortened for one request
//! prompt    prompt        the question to a model
//! flush     notes         notes of a model, before older messages leave the context
//! safeguard chunks, audit a long history in pieces, and what a summary has to have
//! ```
//!
//! Pure, like everything in this crate: summaries are made elsewhere. Numbers and cuts are those of
//! pi 0.87.1; docs/compaction.md names the differences.

mod budget;
mod cut;
mod digest;
mod files;
mod fit;
mod flush;
mod growth;
mod plan;
mod prompt;
mod safeguard;
mod tokens;
mod view;
mod windows;

pub use budget::Budget;
pub use digest::digest;
pub use files::Files;
pub use fit::{Fitted, fit};
pub use flush::{Notes, Question, flush_limit, flush_prompt, flushes, messages, notes};
pub use growth::{Growth, growth};
pub use plan::{NoPlan, Part, Plan, Request, estimate};
pub use prompt::{notes_prompt, prompt};
pub use safeguard::{Fault, audit, chunk_tokens, chunks, names};
pub use tokens::{Estimate, of_message, of_text};
pub use windows::{AS_OF, window_of};
