//! The search index of a bulk import, written past FTS5.
//!
//! FTS5 takes in one entry at a time, on the thread that writes, and that was half of the writer's
//! work. Here the threads that read split text into words (`tokens`) and sort them (`postings`); the
//! writer only learns which number each entry got, merges the sorted lists and writes one finished
//! segment per transaction (`segment`, `structure`) into FTS5's own tables. They are part of SQLite's
//! file format; FTS5 goes on from there, and what it finds is what it would have written: tests
//! compare every posting, and have it search, delete, merge and check its index.

mod chars;
mod long;
mod merge;
mod postings;
mod segment;
mod structure;
#[cfg(test)]
mod tests;
mod tokens;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::Result;
use crate::ids::EntryId;
use merge::{Entries, merge};
pub(crate) use postings::{Gatherer, Number, Postings};
use segment::{Output, Segment};
use structure::Structure;

/// More bytes of words do not wait.
const MOST: usize = 8 << 20;

/// So many pages are merged with what is written, where the index is in very many pieces: several
/// times as many as are written.
const CROWDED_PAGES: i64 = 4096;

/// Words of entries that are not in the index yet.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    lists: Vec<Entries>,
}

impl Waiting {
    /// Entries that are named from now on are those of one [`Gatherer`], … If there are too many
    /// words of others, those are written now.
    pub(crate) fn open(&mut self, conn: &Connection) -> Result<()> {
        if self.lists.iter().map(Entries::weight).sum::<usize>() >= MOST {
            self.write(conn)?;
        }
        self.lists.push(Entries::default());
        Ok(())
    }

    /// … in which the entry with that number is in the ledger as `id`. What is not named is not
    /// indexed: the ledger has it already.
    pub(crate) fn name(&mut self, number: Number, id: EntryId) {
        if let Some(entries) = self.lists.last_mut() {
            entries.name(number, id);
        }
    }

    /// These are their words.
    pub(crate) fn close(&mut self, postings: Postings) {
        if let Some(entries) = self.lists.last_mut() {
            entries.postings = postings;
        }
    }

    /// Writes everything into the index. Afterwards nothing waits.
    pub(crate) fn write(&mut self, conn: &Connection) -> Result<()> {
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
        let written = write(conn, &lists);
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        if written?.is_crowded() {
            conn.prepare_cached("INSERT INTO search (search, rank) VALUES ('merge', ?1)")?
                .execute([CROWDED_PAGES])?;
        }
        Ok(())
    }
}

fn write(conn: &Connection, lists: &[Entries]) -> Result<Structure> {
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
    let id = structure.free_id()?;
    let mut output = Output {
        data: conn.prepare_cached("INSERT INTO search_data (id, block) VALUES (?1, ?2)")?,
        index: conn
            .prepare_cached("INSERT INTO search_idx (segid, term, pgno) VALUES (?1, ?2, ?3)")?,
    };
    let mut segment = Segment::new(&mut output, id.cast_signed(), structure::page_size(conn)?);
    merge(lists, &mut segment)?;
    let pages = segment.finish()?;
    if pages > 0 {
        structure.add(id, pages.cast_unsigned(), entries);
        structure.write(conn)?;
    }
    structure::add_totals(conn, entries, words)?;
    Ok(structure)
}
