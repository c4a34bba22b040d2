//! Reads and writes the tables of SQLite's FTS5 directly.

mod chars;
mod error;
mod index;
mod query;
mod read;
mod rowid;
mod rowid_set;
mod table;
mod tokenizer;
mod varint;
mod write;

pub use error::{Error, Result};
pub use index::Index;
pub use query::Posting;
pub use query::bm25::Scored;
pub use query::matches::{Matches, Phrase};
pub use query::top_k::TopK;
pub use rowid::RowId;
pub use rowid_set::RowIdSet;
pub use table::{COLUMNS, configure, create, page_size};
pub use write::{DocNumber, PendingPostings, PostingsBuilder, SegmentPages, SortedPostings};
