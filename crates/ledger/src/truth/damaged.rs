//! Compressed files that cannot be decompressed to their end, with their bytes as they are on disk.
//! The lines before the damage are ordinary records; the bytes are kept for a later repair.

use rusqlite::{Connection, OptionalExtension, Transaction};

use crate::Result;
use crate::base::ids::GenerationId;
use crate::truth::sums;

/// The largest compressed file, in bytes, that is kept. Of a larger one only its lines are.
pub(crate) const MAX_KEPT_BYTES: u64 = 256 << 20;

/// The number of bytes of a file in one row.
pub(crate) const PIECE_BYTES: usize = 4 << 20;

/// A compressed file that cannot be decompressed to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) why: String,
    /// The length of the compressed file.
    pub(crate) length: u64,
}

impl Damage {
    /// Returns whether its bytes are kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.length <= MAX_KEPT_BYTES
    }

    /// Describes the damage, and the part of the file that is kept.
    pub(crate) fn text(&self) -> String {
        describe(&self.why, self.is_kept())
    }
}

/// Describes damage with the reason `why`, and the part of the file that is kept.
pub(crate) fn describe(why: &str, is_kept: bool) -> String {
    let kept = if is_kept {
        "stored unchanged, and its readable lines are collected"
    } else {
        "above 256 MiB, so only its readable lines are stored"
    };
    format!("{why}; {kept}")
}

/// A change of the stored compressed bytes of a file.
#[derive(Debug)]
pub(crate) enum Compressed {
    /// A piece of the file, from this byte on.
    Piece(u64, Vec<u8>),
    /// The stored bytes are no longer needed: the file grew and is complete now.
    Obsolete,
}

/// Stores a piece. The first one replaces all earlier ones.
pub(crate) fn store(
    tx: &Transaction<'_>,
    generation: GenerationId,
    compressed: &Compressed,
) -> Result<()> {
    match compressed {
        Compressed::Obsolete => forget(tx, generation),
        Compressed::Piece(start, bytes) => {
            if *start == 0 {
                forget(tx, generation)?;
            }
            tx.prepare_cached(
                "INSERT INTO damaged_bytes (generation, start, bytes, sum) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute((generation, *start as i64, bytes, sums::of(bytes)))?;
            Ok(())
        }
    }
}

/// Records that a generation is damaged, once all pieces are stored.
pub(crate) fn note(tx: &Transaction<'_>, generation: GenerationId, damage: &Damage) -> Result<()> {
    if !damage.is_kept() {
        forget(tx, generation)?;
    }
    tx.prepare_cached(
        "INSERT OR REPLACE INTO damaged (generation, why, length, is_kept) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute((generation, &damage.why, damage.length as i64, damage.is_kept()))?;
    Ok(())
}

/// Removes the damage of a generation.
pub(crate) fn forget(tx: &Connection, generation: GenerationId) -> Result<()> {
    for table in ["damaged", "damaged_bytes"] {
        tx.prepare_cached(&format!("DELETE FROM {table} WHERE generation = ?1"))?
            .execute([generation])?;
    }
    Ok(())
}

/// Returns the damage of a generation, if it has any.
pub(crate) fn of(conn: &Connection, generation: GenerationId) -> Result<Option<Damage>> {
    Ok(conn
        .prepare_cached("SELECT why, length FROM damaged WHERE generation = ?1")?
        .query_row([generation], |row| {
            Ok(Damage { why: row.get(0)?, length: row.get::<_, i64>(1)?.cast_unsigned() })
        })
        .optional()?)
}

/// Calls `each` with the compressed bytes of a generation, in order.
pub(crate) fn stream(
    conn: &Connection,
    generation: GenerationId,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut statement = conn.prepare_cached(
        "SELECT bytes, sum FROM damaged_bytes WHERE generation = ?1 ORDER BY start",
    )?;
    let mut rows = statement.query([generation])?;
    while let Some(row) = rows.next()? {
        let bytes = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        let what = || format!("the compressed file of generation {}", generation.0);
        sums::check(bytes, row.get(1)?, what)?;
        each(bytes)?;
    }
    Ok(())
}
