//! The sessions and archives of a database that are not read: they cannot be, or a setting leaves
//! them out. Stored with the database, because it is not opened again before it changes.

use std::collections::BTreeMap;

use rusqlite::{Connection, Transaction};

use crate::Result;
use crate::base::ids::SourceId;
use crate::collect::discover::{FoundFile, MAX_LISTED_PATHS, Reason, Skipped};
use crate::wire::UNREADABLE;

/// The unread sessions and archives by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unread(pub(crate) BTreeMap<String, Named>);

/// The number of sessions and archives, and the first paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) count: u64,
    pub(crate) paths: Vec<String>,
}

impl Unread {
    /// Adds a session or archive.
    pub(super) fn add(&mut self, path: &[u8], reason: &Reason) {
        let named = self.0.entry(reason.text()).or_default();
        named.count += 1;
        let path = String::from_utf8_lossy(path).into_owned();
        // Several may have the same path, such as archives of a session whose id cannot name a
        // file.
        if named.paths.len() < MAX_LISTED_PATHS && !named.paths.contains(&path) {
            named.paths.push(path);
        }
    }

    /// Loads the unread sessions and archives of a database.
    pub(crate) fn load(conn: &Connection, source: SourceId) -> Result<Unread> {
        let mut statement =
            conn.prepare_cached("SELECT reason, count, paths FROM unread WHERE source = ?1")?;
        let named = statement.query_map([source], |row| {
            let paths: String = row.get(2)?;
            let paths = serde_json::from_str(&paths).unwrap_or_default();
            Ok((row.get(0)?, Named { count: row.get::<_, i64>(1)?.cast_unsigned(), paths }))
        })?;
        Ok(Unread(named.collect::<Result<_, _>>()?))
    }

    /// Replaces the stored ones.
    pub(super) fn store(&self, tx: &Transaction<'_>, source: SourceId) -> Result<()> {
        tx.prepare_cached("DELETE FROM unread WHERE source = ?1")?.execute([source])?;
        for (reason, named) in &self.0 {
            let paths = serde_json::Value::from(named.paths.clone()).to_string();
            tx.prepare_cached(
                "INSERT INTO unread (source, reason, count, paths) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute((source, reason, named.count.cast_signed(), paths))?;
        }
        Ok(())
    }

    /// Returns one entry for each that cannot be read. Those beyond the stored paths get the path
    /// of the database.
    pub(super) fn skipped(&self, found: &FoundFile) -> Vec<Skipped> {
        let mut skipped = Vec::new();
        for (reason, named) in &self.0 {
            let Some(why) = reason.strip_prefix(UNREADABLE) else { continue };
            let unnamed = named.count.saturating_sub(named.paths.len() as u64);
            let paths = named.paths.iter().map(|path| path.clone().into_bytes());
            let unnamed = (0..unnamed).map(|_| found.path.clone());
            skipped.extend(paths.chain(unnamed).map(|path| Skipped {
                root: found.root,
                path,
                reason: Reason::Unreadable(why.to_owned()),
            }));
        }
        skipped
    }
}
