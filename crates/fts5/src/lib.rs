//! A full-text index in SQLite's FTS5, faster than FTS5 where that pays.
//!
//! FTS5 indexes one row at a time on the thread that writes, and its `bm25()` looks up the length
//! of every matching row. This crate reads and writes FTS5's own tables instead: bulk imports are
//! tokenized and sorted on any thread and written as finished segments ([`PendingPostings`]), and
//! searches read posting lists themselves and look up a few hundred lengths ([`Index`]). Pages are
//! byte for byte those of FTS5, scores are bit for bit those of `bm25()`, and FTS5 continues to
//! work with the same table.
//!
//! SQLite does not promise this format. [`Access::detect`] checks the SQLite in the process; if its
//! format is another one, everything goes through `INSERT`, `MATCH` and `bm25()`, with the same
//! results. The README describes the format.
//!
//! The crate knows rows, columns and tokens: one table named `search` with [`COLUMNS`] columns. It
//! does not know what a row means.
//!
//! ```
//! use quipu_fts5::{Access, Index, PendingPostings, Phrase, PostingsBuilder, RowId};
//!
//! let conn = rusqlite::Connection::open_in_memory()?;
//! quipu_fts5::create(&conn, ["title", "body", "author", "tags", "notes"])?;
//!
//! // Any thread tokenizes and sorts; the writer assigns rowids and writes one segment.
//! let mut builder = PostingsBuilder::default();
//! let first = builder.add(["Knots", "Numbers in knotted strings", "", "", ""]);
//! let second = builder.add(["Strings", "More strings than numbers", "", "", ""]);
//! let mut pending = PendingPostings::default();
//! pending.begin_batch(&conn)?;
//! pending.set_rowid(first, RowId(1));
//! pending.set_rowid(second, RowId(2));
//! pending.end_batch(builder.finish());
//! let pages = pending.merge(quipu_fts5::page_size(&conn)?)?;
//! pending.write(&conn, &pages)?;
//!
//! // The best rows for `strings`, in any column.
//! let index = Index::open(&conn, Access::detect(&conn)?)?;
//! let strings = Phrase { tokens: vec!["strings".to_owned()], is_prefix: false };
//! let matches = index.find(&[strings], &[], 0b11111)?;
//! let mut best = index.best(&matches, 10)?;
//! best.sort_by(|one, other| other.score.total_cmp(&one.score));
//! assert_eq!(best.iter().map(|scored| scored.rowid.0).collect::<Vec<_>>(), [2, 1]);
//!
//! // FTS5 agrees.
//! let sql = "SELECT -bm25(search) FROM search('strings') ORDER BY rank LIMIT 1";
//! let score: f64 = conn.query_row(sql, [], |row| row.get(0))?;
//! assert_eq!(score, best[0].score);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod chars;
mod error;
mod index;
mod plain;
mod query;
mod read;
mod rowid;
mod rowid_set;
mod table;
mod tokenizer;
mod varint;
mod write;

pub use access::Access;
pub use error::{Error, Result};
pub use index::Index;
pub use query::Posting;
pub use query::bm25::Scored;
pub use query::matches::{Matches, Phrase};
pub use query::top_k::TopK;
pub use rowid::RowId;
pub use rowid_set::RowIdSet;
pub use table::{ALL_COLUMNS, COLUMNS, configure, create, page_size};
pub use write::{DocNumber, PendingPostings, PostingsBuilder, SegmentPages, SortedPostings};

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
