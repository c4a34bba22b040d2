//! The ledger's state of each source: its path, its newest generation, and its cursor.
//!
//! Reads rows of truth only. Never looks at the disk.

use foldhash::HashMap;
use quipu_transcript::format::{self, Framing};
use rusqlite::{Connection, Row};

use super::batch::RowCursor;
use crate::Result;
use crate::base::ids::{GenerationId, SourceId};
use crate::truth::sources::{Print, Stat};

/// The number of bytes at the start of a file that are fingerprinted.
pub(crate) const HEAD: usize = 1024;

/// The number of bytes before the cursor that are fingerprinted.
pub(crate) const MARKER: usize = 256;

/// Returns the fingerprint of `bytes`.
pub(crate) fn fingerprint(bytes: &[u8]) -> Print {
    let mut print = [0; 16];
    blake3::Hasher::new().update(bytes).finalize_xof().fill(&mut print);
    print
}

/// A collected source and its newest generation.
#[derive(Debug, Clone)]
pub(crate) struct KnownSource {
    pub(crate) source: SourceId,
    pub(crate) format: String,
    pub(crate) root: Vec<u8>,
    pub(crate) path: Vec<u8>,
    pub(crate) first_path: Vec<u8>,
    pub(crate) is_gone: bool,
    pub(crate) refused: Option<String>,
    pub(crate) generation: GenerationId,
    pub(crate) number: i64,
    pub(crate) stat: Stat,
    pub(crate) cursor: u64,
    pub(crate) tail_length: u64,
    pub(crate) tail_stands: bool,
    pub(crate) head: Print,
    pub(crate) head_length: usize,
    pub(crate) marker: Print,
    /// The row cursor of a session in a database.
    pub(crate) rows: Option<RowCursor>,
}

impl KnownSource {
    /// Returns the number of bytes read so far: records and tail.
    pub(crate) fn reached(&self) -> u64 {
        // A damaged number must not make the doctor panic.
        self.cursor.saturating_add(self.tail_length)
    }

    /// Returns whether the file on disk is compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        format::by_name(&self.format).is_some_and(|format| format.is_compressed(&self.path))
    }

    /// Returns whether it is stored as a whole, and not continued from a cursor.
    pub(crate) fn is_kept_whole(&self) -> bool {
        format::by_name(&self.format)
            .is_some_and(|format| format.origin(&self.first_path).part.framing() == Framing::Index)
    }

    /// Returns whether reading was interrupted. A compressed file is stored with size 0 until it
    /// was read to its end, because its decompressed size is not known before.
    pub(crate) fn is_unfinished(&self) -> bool {
        if self.is_compressed() { self.stat.size == 0 } else { self.stat.size > self.reached() }
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<KnownSource> {
        let number = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
        let print = |index| -> rusqlite::Result<Print> {
            Ok(row.get_ref(index)?.as_blob()?.try_into().unwrap_or_default())
        };
        Ok(KnownSource {
            source: row.get(0)?,
            format: row.get(1)?,
            root: row.get(2)?,
            path: row.get(3)?,
            first_path: row.get(4)?,
            is_gone: row.get(5)?,
            refused: row.get(6)?,
            generation: row.get(7)?,
            number: row.get(8)?,
            stat: Stat {
                device: number(9)?,
                inode: number(10)?,
                size: number(11)?,
                mtime_ns: row.get(12)?,
                ctime_ns: row.get(13)?,
            },
            cursor: number(14)?,
            tail_length: number(15)?,
            tail_stands: row.get(16)?,
            head: print(17)?,
            head_length: number(18)? as usize,
            marker: print(19)?,
            rows: match row.get::<_, Option<String>>(20)? {
                Some(rewrite) => {
                    Some(RowCursor { rewrite, last_row: row.get(21)?, rows: row.get(22)? })
                }
                None => None,
            },
        })
    }
}

/// Builds a query over sources of one kind. More conditions may be appended.
macro_rules! select {
    ($rows:literal, $condition:literal) => {
        concat!(
            "SELECT s.id, s.format, s.root, s.path, s.first_path, s.is_gone, s.refused, g.id,
                    g.number, g.device, g.inode, g.size, g.mtime_ns, g.ctime_ns, g.cursor,
                    g.tail_length, g.tail_stands, g.head, g.head_length, g.marker, ",
            $rows,
            " WHERE ",
            $condition
        )
    };
}

const FILES: &str = select!(
    "NULL, NULL, NULL FROM sources s JOIN generations g ON g.id = s.generation",
    "s.kind = 'file'"
);

const DATABASES: &str = select!(
    "r.rewrite, r.last_row, r.rows
       FROM sources s JOIN generations g ON g.id = s.generation
       JOIN row_cursors r ON r.generation = g.id",
    "s.kind = 'rows' AND g.cursor = 0
        AND NOT EXISTS (SELECT 1 FROM damaged d WHERE d.generation = g.id)"
);

const IN_DATABASE: &str = select!(
    "r.rewrite, r.last_row, r.rows
       FROM sources s JOIN generations g ON g.id = s.generation
       JOIN row_cursors r ON r.generation = g.id",
    "s.kind = 'rows' AND s.format = ?1 AND s.root = ?2 AND s.path >= ?3 AND s.path < ?4"
);

/// Returns all collected files.
pub(crate) fn all(conn: &Connection) -> Result<Vec<KnownSource>> {
    let mut statement = conn.prepare(FILES)?;
    let known = statement.query_map([], KnownSource::from_row)?.collect::<Result<_, _>>()?;
    Ok(known)
}

/// Returns all databases. They have no bytes themselves.
pub(crate) fn databases(conn: &Connection) -> Result<Vec<KnownSource>> {
    let mut statement = conn.prepare(DATABASES)?;
    let known = statement.query_map([], KnownSource::from_row)?.collect::<Result<_, _>>()?;
    Ok(known)
}

/// Returns the range of paths in a database.
fn inside(database: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut from, mut to) = (database.to_vec(), database.to_vec());
    from.push(b'/');
    to.push(b'/' + 1);
    (from, to)
}

/// Counts the sessions and archives in a database that are not gone.
pub(crate) fn count_in_database(conn: &Connection, database: &KnownSource) -> Result<u64> {
    let (from, to) = inside(&database.path);
    let mut statement = conn.prepare_cached(
        "SELECT count(*) FROM sources
          WHERE kind = 'rows' AND format = ?1 AND root = ?2 AND path >= ?3 AND path < ?4
            AND is_gone = 0 AND refused IS NULL",
    )?;
    let count: i64 =
        statement.query_row((&database.format, &database.root, from, to), |row| row.get(0))?;
    Ok(count.cast_unsigned())
}

/// Returns the sessions and archives in a database.
pub(crate) fn in_database(
    conn: &Connection,
    format: &str,
    root: &[u8],
    database: &[u8],
) -> Result<Vec<KnownSource>> {
    let (from, to) = inside(database);
    let mut statement = conn.prepare_cached(IN_DATABASE)?;
    let known = statement
        .query_map((format, root, from, to), KnownSource::from_row)?
        .collect::<Result<_, _>>()?;
    Ok(known)
}

/// Returns the collected file with that path.
pub(crate) fn at(
    conn: &Connection,
    format: &str,
    root: &[u8],
    path: &[u8],
) -> Result<Option<KnownSource>> {
    let query = format!("{FILES} AND s.format = ?1 AND s.root = ?2 AND s.path = ?3");
    let mut statement = conn.prepare_cached(&query)?;
    let mut known = statement.query_map((format, root, path), KnownSource::from_row)?;
    Ok(known.next().transpose()?)
}

/// Returns whether a source is that file, under any name.
pub(crate) fn is_known_file(conn: &Connection, stat: &Stat) -> Result<bool> {
    let (device, inode) = stat.file();
    // Not indexed: only new files need it, and there is one row per generation.
    let mut statement = conn.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM generations g JOIN sources s ON s.generation = g.id
                         WHERE g.device = ?1 AND g.inode = ?2 AND NOT s.is_gone)",
    )?;
    Ok(statement.query_row((device.cast_signed(), inode.cast_signed()), |row| row.get(0))?)
}

/// Returns the sources by path. The keys are borrowed, so that looking up thousands allocates
/// nothing.
pub(crate) fn by_path(known: &[KnownSource]) -> HashMap<(&str, &[u8], &[u8]), usize> {
    known
        .iter()
        .enumerate()
        .map(|(index, known)| ((&*known.format, &*known.root, &*known.path), index))
        .collect()
}
