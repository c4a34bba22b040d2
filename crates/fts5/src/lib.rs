//! Reads and writes the tables of SQLite's FTS5 directly.

#![expect(missing_docs, reason = "comes with the names, in the change after the move")]

mod chars;
mod error;
mod query;
mod read;
mod rowid;
mod set;
mod tokens;
mod varint;
mod write;

pub use error::{Error, Result};
pub use query::leading::Leading;
pub use query::matching::{Matches, Phrase, find};
pub use query::rank;
pub use query::rank::Scored;
pub use read::{Index, Occurrences, Positions, Posting, Totals, filled_columns};
pub use rowid::RowId;
pub use set::EntrySet;
pub use write::{Gatherer, Number, Pages, Postings, Waiting, page_size};
