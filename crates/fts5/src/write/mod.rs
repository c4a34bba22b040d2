//! The search index of a bulk import, written past FTS5.
//!
//! FTS5 takes in one entry at a time, on the thread that writes, and that was half of the writer's
//! work. Here the threads that read split text into words (`tokens`) and sort them (`postings`); the
//! writer only learns which number each entry got, merges the sorted lists and writes one finished
//! segment per transaction (`segment`, `structure`) into FTS5's own tables. They are part of SQLite's
//! file format; FTS5 goes on from there, and what it finds is what it would have written: tests
//! compare every posting, and have it search, delete, merge and check its index.

mod long;
mod merge;
mod postings;
mod segment;
mod structure;
#[cfg(test)]
mod tests;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::{Result, RowId};
use merge::{Entries, merge};
pub use postings::{Gatherer, Number, Postings};
pub use segment::Pages;
use structure::Structure;
pub use structure::page_size;

/// More bytes of words do not wait.
const MOST: usize = 8 << 20;

/// So many bytes of words are merged beside other work.
const MUCH: usize = 256 << 10;

/// So many pages are merged with what is written, where the index is in very many pieces: several
/// times as many as are written.
const CROWDED_PAGES: i64 = 4096;

/// Words of entries that are not in the index yet.
#[derive(Debug, Default)]
pub struct Waiting {
    lists: Vec<Entries>,
}

impl Waiting {
    /// Entries that are named from now on are those of one [`Gatherer`], … If there are too many
    /// words of others, those are written now.
    pub fn open(&mut self, conn: &Connection) -> Result<()> {
        if self.weight() >= MOST {
            let pages = self.merge(page_size(conn)?)?;
            self.write(conn, &pages)?;
        }
        self.lists.push(Entries::default());
        Ok(())
    }

    /// … in which the entry with that number is in the ledger as `id`. What is not named is not
    /// indexed: the ledger has it already.
    pub fn name(&mut self, number: Number, id: RowId) {
        if let Some(entries) = self.lists.last_mut() {
            entries.name(number, id);
        }
    }

    /// These are their words.
    pub fn close(&mut self, postings: Postings) {
        if let Some(entries) = self.lists.last_mut() {
            entries.postings = postings;
        }
    }

    /// True if merging is worth a thread.
    pub fn is_much(&self) -> bool {
        self.weight() >= MUCH
    }

    /// Everything that waits, in pages of that size. What takes long about writing it needs no ledger.
    pub fn merge(&self, page_size: usize) -> Result<Pages> {
        merge(&self.lists, page_size)
    }

    fn weight(&self) -> usize {
        self.lists.iter().map(Entries::weight).sum()
    }

    /// Writes everything into the index, with the pages that it was merged into. Afterwards nothing
    /// waits.
    pub fn write(&mut self, conn: &Connection, pages: &Pages) -> Result<()> {
        let lists = std::mem::take(&mut self.lists);
        if lists.iter().all(|entries| entries.is_empty()) {
            return Ok(());
        }
        // FTS5 writes down what it has in memory, and knows nothing of the index afterwards: it reads
        // the list of segments and the totals again when it next needs them. (`merge` ends without
        // the list in memory, `flush` without the totals.)
        conn.prepare_cached("INSERT INTO search (search) VALUES ('flush')")?.execute([])?;
        conn.prepare_cached("INSERT INTO search (search, rank) VALUES ('merge', 0)")?.execute([])?;
        // SQLite keeps everybody but FTS5 from writing to its tables, as a guard against hostile SQL.
        // Nobody else's SQL runs on this connection, and the guard is up again before any other does.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)?;
        let written = write(conn, &lists, pages);
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        if written?.is_crowded() {
            conn.prepare_cached("INSERT INTO search (search, rank) VALUES ('merge', ?1)")?
                .execute([CROWDED_PAGES])?;
        }
        Ok(())
    }
}

fn write(conn: &Connection, lists: &[Entries], pages: &Pages) -> Result<Structure> {
    let mut structure = Structure::read(conn)?;
    let origin = structure.origin().cast_signed();
    let mut insert =
        conn.prepare_cached("INSERT INTO search_docsize (id, sz, origin) VALUES (?1, ?2, ?3)")?;
    let (mut entries, mut words, mut bytes) = (0, [0; postings::COLUMNS], Vec::new());
    for (id, sizes) in lists.iter().flat_map(Entries::sizes) {
        structure::encode_sizes(sizes, &mut bytes);
        insert.execute((id, &bytes, origin))?;
        entries += 1;
        for (sum, size) in words.iter_mut().zip(sizes) {
            *sum += u64::from(*size);
        }
    }
    if pages.words > 0 {
        let id = structure.free_id()?;
        pages.write(conn, id.cast_signed())?;
        structure.add(id, pages.words.cast_unsigned(), entries);
        structure.write(conn)?;
    }
    structure::add_totals(conn, entries, words)?;
    Ok(structure)
}
