//! Versions of one entry: written again under the same id, or a note that was edited.
//!
//! Each version has words in the index. Only the newest version that matches becomes a hit.

use foldhash::{HashMap, HashMapExt, HashSet};
use quipu_fts5::{Matches, RowIdSet};
use rusqlite::Connection;

use crate::Result;
use crate::base::ids::EntryId;

/// The next version of each older version.
pub(crate) struct Versions {
    newer: HashMap<EntryId, EntryId>,
}

impl Versions {
    pub(crate) fn read(conn: &Connection) -> Result<Versions> {
        let mut newer = HashMap::new();
        let mut statement = conn.prepare_cached(
            "SELECT id, superseded_by FROM entry_rows INDEXED BY entries_superseded
              WHERE superseded_by IS NOT NULL",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            newer.insert(row.get(0)?, row.get(1)?);
        }
        // Each version of a whole file is an entry. Files of sessions have one version.
        let mut statement = conn.prepare_cached(
            "SELECT id, lead(id) OVER (PARTITION BY source ORDER BY id) FROM documents
              WHERE session IS NULL",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Some(next) = row.get::<_, Option<EntryId>>(1)? {
                newer.insert(row.get(0)?, next);
            }
        }
        Ok(Versions { newer })
    }

    /// Returns whether a newer version exists.
    pub(crate) fn is_older(&self, entry: EntryId) -> bool {
        self.newer.contains_key(&entry)
    }

    /// Removes the entries of which a newer version is also in the set.
    pub(crate) fn keep_newest_of(&self, entries: &mut RowIdSet) {
        let mut older = Vec::new();
        for old in self.newer.keys().copied().filter(|old| entries.contains((*old).into())) {
            let mut next = old;
            while let Some(newer) = self.newer.get(&next).filter(|newer| **newer > next) {
                next = *newer;
                if entries.contains(next.into()) {
                    older.push(old);
                    break;
                }
            }
        }
        older.into_iter().for_each(|old| entries.remove(old.into()));
    }

    /// Removes the entries of which a newer version also matches.
    pub(crate) fn keep_newest(&self, matches: &mut Matches) -> Result<()> {
        if self.newer.is_empty() {
            return Ok(());
        }
        let has_newer = |entry: &EntryId| {
            let mut next = *entry;
            // Each version has a greater id, so the chain ends.
            while let Some(newer) = self.newer.get(&next).filter(|newer| **newer > next) {
                next = *newer;
                if matches.find(next.into()).is_some() {
                    return true;
                }
            }
            false
        };
        let older: HashSet<EntryId> = match self.newer.len() < matches.len() {
            // Versions are fewer than matches, so versions are looked up among the matches.
            true => {
                let matching =
                    self.newer.keys().copied().filter(|old| matches.find((*old).into()).is_some());
                matching.filter(has_newer).collect()
            }
            false => matches.rowids().map(EntryId::from).filter(has_newer).collect(),
        };
        if !older.is_empty() {
            matches.retain(|rowid, _| !older.contains(&rowid.into()));
        }
        Ok(())
    }
}
