//! Writes the index of many rows at once, without FTS5.
//!
//! FTS5 indexes one row at a time, on the thread that writes. Here any thread tokenizes and sorts
//! (`postings`); the writer only assigns rowids, merges the sorted postings and writes one finished
//! segment per transaction (`segment`, `structure`) into FTS5's own tables. FTS5 continues from
//! there: tests compare every posting with what FTS5 writes, and run its searches, deletions,
//! merges and integrity checks on the result.

mod doclist_index;
mod merge;
mod postings;
mod segment;
mod structure;
#[cfg(test)]
mod tests;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::table::{COLUMNS, page_size};
use crate::{Result, RowId};
use merge::{Batch, merge};
pub use postings::{DocNumber, PostingsBuilder, SortedPostings};
pub use segment::SegmentPages;
use structure::Structure;

/// Size of pending postings, in bytes, at which they are written to the table.
const MAX_PENDING_BYTES: usize = 8 << 20;

/// The smallest size of pending postings, in bytes, for which merging is worth a separate thread.
const MIN_BYTES_FOR_THREAD: usize = 256 << 10;

/// Number of pages that each write merges while there are very many segments: several times as many
/// as a write adds.
const CROWDED_MERGE_PAGES: i64 = 4096;

/// Postings that are not in the table yet.
///
/// For each batch: [`begin_batch`](Self::begin_batch), [`set_rowid`](Self::set_rowid) for the
/// documents that are to be indexed, [`end_batch`](Self::end_batch). Rowids are positive and ascend
/// within a batch and from batch to batch.
#[derive(Debug, Default)]
pub struct PendingPostings {
    batches: Vec<Batch>,
}

impl PendingPostings {
    /// Begins a batch: the documents of one [`PostingsBuilder`]. Writes earlier batches to the
    /// table first if they use too much memory.
    pub fn begin_batch(&mut self, conn: &Connection) -> Result<()> {
        if self.weight() >= MAX_PENDING_BYTES {
            let pages = self.merge(page_size(conn)?)?;
            self.write(conn, &pages)?;
        }
        self.batches.push(Batch::default());
        Ok(())
    }

    /// Sets the rowid of a document of the batch. A document without a rowid is not indexed.
    pub fn set_rowid(&mut self, number: DocNumber, rowid: RowId) {
        if let Some(batch) = self.batches.last_mut() {
            batch.set_rowid(number, rowid);
        }
    }

    /// Ends the batch with what its builder returned.
    pub fn end_batch(&mut self, postings: SortedPostings) {
        if let Some(batch) = self.batches.last_mut() {
            batch.postings = postings;
        }
    }

    /// Returns whether no row is pending.
    pub fn is_empty(&self) -> bool {
        self.batches.iter().all(Batch::is_empty)
    }

    /// Returns whether merging is worth a separate thread.
    pub fn is_worth_a_thread(&self) -> bool {
        self.weight() >= MIN_BYTES_FOR_THREAD
    }

    /// Merges all batches into leaf pages of `page_size` bytes, without using the database.
    pub fn merge(&self, page_size: usize) -> Result<SegmentPages> {
        merge(&self.batches, page_size)
    }

    fn weight(&self) -> usize {
        self.batches.iter().map(Batch::weight).sum()
    }

    /// Writes all batches to the table as one segment. `pages` is what [`merge`](Self::merge)
    /// returned for them.
    pub fn write(&mut self, conn: &Connection, pages: &SegmentPages) -> Result<()> {
        let batches = std::mem::take(&mut self.batches);
        if batches.iter().all(Batch::is_empty) {
            return Ok(());
        }
        // Makes FTS5 write what it holds in memory and drop its copies of both records, so that it
        // reads them again later: `flush` drops the averages, `merge` the structure.
        conn.prepare_cached("INSERT INTO search (search) VALUES ('flush')")?.execute([])?;
        conn.prepare_cached("INSERT INTO search (search, rank) VALUES ('merge', 0)")?.execute([])?;
        // As a guard against hostile SQL, SQLite lets FTS5 alone write to its tables. Between these
        // two calls the connection runs only SQL of this crate.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)?;
        let written = write(conn, &batches, pages);
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        if written?.is_crowded() {
            conn.prepare_cached("INSERT INTO search (search, rank) VALUES ('merge', ?1)")?
                .execute([CROWDED_MERGE_PAGES])?;
        }
        Ok(())
    }
}

fn write(conn: &Connection, batches: &[Batch], pages: &SegmentPages) -> Result<Structure> {
    let mut structure = Structure::read(conn)?;
    let origin = structure.origin().cast_signed();
    let mut insert =
        conn.prepare_cached("INSERT INTO search_docsize (id, sz, origin) VALUES (?1, ?2, ?3)")?;
    let (mut rows, mut tokens, mut bytes) = (0, [0; COLUMNS], Vec::new());
    for (rowid, sizes) in batches.iter().flat_map(Batch::sizes) {
        structure::encode_sizes(sizes, &mut bytes);
        insert.execute((rowid, &bytes, origin))?;
        rows += 1;
        for (sum, size) in tokens.iter_mut().zip(sizes) {
            *sum += u64::from(*size);
        }
    }
    if pages.leaves > 0 {
        let id = structure.free_id()?;
        pages.write(conn, id.cast_signed())?;
        structure.add(id, pages.leaves.cast_unsigned(), rows);
        structure.write(conn)?;
    }
    structure::add_to_averages(conn, rows, tokens)?;
    Ok(structure)
}
