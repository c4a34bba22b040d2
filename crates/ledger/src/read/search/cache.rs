//! Limits SQLite's page cache during a search.
//!
//! A search reads most pages of the index once. A large cache would put them into newly allocated
//! memory, which costs more than reading them. A small cache reuses the same memory. It never
//! changes a setting of the ledger file.

use rusqlite::Connection;

use crate::Result;

/// The size of the cache during a search: 1024 KiB. A negative `cache_size` counts KiB.
const SMALL_CACHE_SIZE: i64 = -1024;

/// Keeps the cache small until it is dropped.
pub(super) struct SmallCache<'c> {
    conn: &'c Connection,
    before: i64,
}

impl<'c> SmallCache<'c> {
    pub(super) fn of(conn: &'c Connection) -> Result<SmallCache<'c>> {
        let before = conn.pragma_query_value(None, "cache_size", |row| row.get(0))?;
        conn.pragma_update(None, "cache_size", SMALL_CACHE_SIZE)?;
        Ok(SmallCache { conn, before })
    }
}

impl Drop for SmallCache<'_> {
    fn drop(&mut self) {
        // A failure leaves the cache small: later reads are slower and still correct.
        let _ = self.conn.pragma_update(None, "cache_size", self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_size_is_restored() {
        let conn = Connection::open_in_memory().unwrap();
        let size = || conn.pragma_query_value(None, "cache_size", |row| row.get::<_, i64>(0));
        conn.pragma_update(None, "cache_size", -40_960).unwrap();
        let small = SmallCache::of(&conn).unwrap();
        assert_eq!(size().unwrap(), SMALL_CACHE_SIZE);
        drop(small);
        assert_eq!(size().unwrap(), -40_960);
    }
}
