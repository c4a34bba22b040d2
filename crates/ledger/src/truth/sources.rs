//! Writes the tables `sources` and `generations`. No other module writes to them. The schema does:
//! it inserts the rows of the journal into a new ledger (`schema/journal.sql`), and its migrations
//! change rows.
//!
//! Each function stores one fact about one source. Callers decide which facts belong in one
//! transaction.

use rusqlite::{Connection, params};

use crate::Result;
use crate::base::foreign::{FileId, Meta};
use crate::base::ids::{GenerationId, SourceId};
use crate::truth::forgotten::FORGOTTEN;

/// The metadata of a file. It shows whether the file changed, so that the file need not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    pub(crate) mtime_ns: i64,
    pub(crate) ctime_ns: i64,
}

impl Stat {
    /// The stat of a source that has no file.
    const NONE: Stat = Stat { device: 0, inode: 0, size: 0, mtime_ns: 0, ctime_ns: 0 };

    pub(crate) fn of(meta: &Meta) -> Stat {
        let &Meta { device, inode, size, mtime_ns, ctime_ns, .. } = meta;
        Stat { device, inode, size, mtime_ns, ctime_ns }
    }

    /// Returns the file's identity, which does not depend on its contents.
    pub(crate) fn file(&self) -> FileId {
        (self.device, self.inode)
    }
}

/// A fingerprint of some bytes.
pub(crate) type Print = [u8; 16];

/// Fingerprints that distinguish a grown file from a rewritten one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prints {
    pub(crate) head: Print,
    pub(crate) head_length: usize,
    pub(crate) marker: Print,
}

/// The position up to which a generation was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached {
    /// The number of bytes that are stored as records.
    pub(crate) cursor: u64,
    /// The number of bytes after them, without a newline.
    pub(crate) tail_length: u64,
    /// True if the tail was seen in two syncs, or long after it was written. It will hardly grow,
    /// so it is projected like a record.
    pub(crate) tail_stands: bool,
    /// The number of records that this sync added.
    pub(crate) new_records: usize,
}

/// Inserts a source without a generation. `refused` is the reason why nothing is collected from it.
pub(crate) fn insert(
    conn: &Connection,
    kind: &str,
    format: &str,
    (root, path): (&[u8], &[u8]),
    refused: Option<&str>,
) -> Result<SourceId> {
    conn.prepare_cached(
        "INSERT INTO sources (kind, format, root, path, first_path, refused)
         VALUES (?1, ?2, ?3, ?4, ?4, ?5)",
    )?
    .execute((kind, format, root, path, refused))?;
    Ok(SourceId(conn.last_insert_rowid()))
}

/// Begins a generation of a source: a file, or a session in a database. It becomes the source's
/// newest generation.
pub(crate) fn begin_generation(
    conn: &Connection,
    source: SourceId,
    number: i64,
    began: &str,
    stat: &Stat,
    prints: &Prints,
) -> Result<GenerationId> {
    let Prints { head, head_length, marker } = prints;
    insert_generation(conn, source, number, began, stat, (head, *head_length, marker))
}

/// Begins the first generation of a source that has no file, or of a database, whose metadata
/// [`set_database`] stores afterwards.
pub(crate) fn begin_without_file(conn: &Connection, source: SourceId) -> Result<GenerationId> {
    insert_generation(conn, source, 1, "first", &Stat::NONE, (&[], 0, &[]))
}

fn insert_generation(
    conn: &Connection,
    source: SourceId,
    number: i64,
    began: &str,
    stat: &Stat,
    (head, head_length, marker): (&[u8], usize, &[u8]),
) -> Result<GenerationId> {
    conn.prepare_cached(
        "INSERT INTO generations
            (source, number, began, device, inode, size, mtime_ns, ctime_ns, cursor, tail_length,
             tail_stands, head, head_length, marker, records)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0, 0, ?9, ?10, ?11, 0)",
    )?
    .execute(params![
        source,
        number,
        began,
        stat.device.cast_signed(),
        stat.inode.cast_signed(),
        stat.size.cast_signed(),
        stat.mtime_ns,
        stat.ctime_ns,
        head,
        head_length as i64,
        marker,
    ])?;
    let generation = GenerationId(conn.last_insert_rowid());
    conn.prepare_cached("UPDATE sources SET generation = ?2 WHERE id = ?1")?
        .execute((source, generation))?;
    Ok(generation)
}

/// Stores how far a generation was read, and what its file looked like.
pub(crate) fn advance(
    conn: &Connection,
    generation: GenerationId,
    reached: &Reached,
    stat: &Stat,
    prints: &Prints,
) -> Result<()> {
    conn.prepare_cached(
        "UPDATE generations
            SET device = ?2, inode = ?3, size = ?4, mtime_ns = ?5, ctime_ns = ?6, cursor = ?7,
                tail_length = ?8, tail_stands = ?9, head = ?10, head_length = ?11, marker = ?12,
                records = records + ?13
          WHERE id = ?1",
    )?
    .execute(params![
        generation,
        stat.device.cast_signed(),
        stat.inode.cast_signed(),
        stat.size.cast_signed(),
        stat.mtime_ns,
        stat.ctime_ns,
        reached.cursor.cast_signed(),
        reached.tail_length.cast_signed(),
        reached.tail_stands,
        prints.head,
        prints.head_length as i64,
        prints.marker,
        reached.new_records as i64,
    ])?;
    Ok(())
}

/// Adds a record of `length` bytes to a generation that has no file.
pub(crate) fn advance_without_file(
    conn: &Connection,
    generation: GenerationId,
    length: u64,
    mtime_ns: i64,
) -> Result<()> {
    conn.prepare_cached(
        "UPDATE generations
            SET cursor = cursor + ?2, size = size + ?2, records = records + 1, mtime_ns = ?3
          WHERE id = ?1",
    )?
    .execute((generation, length.cast_signed(), mtime_ns))?;
    Ok(())
}

/// Moves the cursor to the end of the tail, which has become a record.
pub(crate) fn end_tail(conn: &Connection, generation: GenerationId, cursor: u64) -> Result<()> {
    conn.prepare_cached(
        "UPDATE generations
            SET cursor = ?2, tail_length = 0, tail_stands = 0, records = records + 1
          WHERE id = ?1",
    )?
    .execute((generation, cursor.cast_signed()))?;
    Ok(())
}

/// Drops the tail. It does not become a record.
pub(crate) fn drop_tail(conn: &Connection, generation: GenerationId) -> Result<()> {
    conn.prepare_cached("UPDATE generations SET tail_length = 0, tail_stands = 0 WHERE id = ?1")?
        .execute([generation])?;
    Ok(())
}

/// Stores that the tail was seen in two syncs.
pub(crate) fn set_tail_stands(conn: &Connection, generation: GenerationId) -> Result<()> {
    conn.prepare_cached("UPDATE generations SET tail_stands = 1 WHERE id = ?1")?
        .execute([generation])?;
    Ok(())
}

/// Stores the metadata of a database's file and the fingerprint of its log. The database itself has
/// no records; its sessions have.
pub(crate) fn set_database(
    conn: &Connection,
    generation: GenerationId,
    stat: &Stat,
    log_print: Print,
) -> Result<()> {
    conn.prepare_cached(
        "UPDATE generations
            SET device = ?2, inode = ?3, size = ?4, mtime_ns = ?5, ctime_ns = ?6, marker = ?7
          WHERE id = ?1",
    )?
    .execute((
        generation,
        stat.device.cast_signed(),
        stat.inode.cast_signed(),
        stat.size.cast_signed(),
        stat.mtime_ns,
        stat.ctime_ns,
        log_print,
    ))?;
    Ok(())
}

/// Stores the fingerprints of a generation whose stored bytes were changed.
pub(crate) fn set_prints(
    conn: &Connection,
    generation: GenerationId,
    prints: &Prints,
) -> Result<()> {
    conn.prepare_cached(
        "UPDATE generations SET head = ?2, head_length = ?3, marker = ?4 WHERE id = ?1",
    )?
    .execute((generation, prints.head, prints.head_length as i64, prints.marker))?;
    Ok(())
}

/// Stores why nothing is collected from a source; `None` if it is collected.
pub(crate) fn set_refused(conn: &Connection, source: SourceId, why: Option<&str>) -> Result<()> {
    conn.prepare_cached("UPDATE sources SET refused = ?2 WHERE id = ?1 AND refused IS NOT ?2")?
        .execute((source, why))?;
    Ok(())
}

/// Marks a source as gone or back. Returns false if it already was.
pub(crate) fn set_gone(conn: &Connection, source: SourceId, is_gone: bool) -> Result<bool> {
    let changed = conn
        .prepare_cached("UPDATE sources SET is_gone = ?2 WHERE id = ?1 AND is_gone <> ?2")?
        .execute((source, is_gone))?;
    Ok(changed > 0)
}

/// Renames a source within its root from the path `from` to the path `aside`, so that another
/// source can take `from`. Does nothing if its path is no longer `from`.
pub(crate) fn put_aside(
    conn: &Connection,
    source: SourceId,
    from: &[u8],
    aside: &[u8],
) -> Result<()> {
    conn.prepare_cached("UPDATE sources SET path = ?2 WHERE id = ?1 AND path = ?3")?
        .execute((source, aside, from))?;
    Ok(())
}

/// Stores a new root and path of a source.
pub(crate) fn set_path(
    conn: &Connection,
    source: SourceId,
    root: &[u8],
    path: &[u8],
) -> Result<()> {
    conn.prepare_cached("UPDATE sources SET root = ?2, path = ?3 WHERE id = ?1")?
        .execute((source, root, path))?;
    Ok(())
}

/// Empties a source whose session is forgotten. It stays known, with one empty generation, and is
/// never read again.
pub(crate) fn forget(conn: &Connection, source: SourceId) -> Result<()> {
    set_refused(conn, source, Some(FORGOTTEN))?;
    conn.prepare_cached(
        "DELETE FROM generations
          WHERE source = ?1
            AND id <> (SELECT generation FROM sources WHERE id = ?1)",
    )?
    .execute([source])?;
    conn.prepare_cached(
        "UPDATE generations
            SET cursor = 0, tail_length = 0, tail_stands = 0, head = x'', head_length = 0,
                marker = x'', records = 0
          WHERE source = ?1",
    )?
    .execute([source])?;
    Ok(())
}
