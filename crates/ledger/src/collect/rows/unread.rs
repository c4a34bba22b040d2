//! What of a database is not read, and why: sessions and archives that cannot be, or that a setting
//! leaves out. Remembered with the database, since nobody opens it again before it changes.

use std::collections::BTreeMap;

use rusqlite::{Connection, Transaction};

use crate::Result;
use crate::base::ids::SourceId;
use crate::collect::discover::{Found, MOST_NAMED, Reason, Skipped};
use crate::wire::UNREADABLE;

/// What is not read, by the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unread(pub(crate) BTreeMap<String, Named>);

/// How many, and the first of them by their path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) count: u64,
    pub(crate) paths: Vec<String>,
}

impl Unread {
    /// One more.
    pub(super) fn add(&mut self, path: &[u8], reason: &Reason) {
        let named = self.0.entry(reason.text()).or_default();
        named.count += 1;
        let path = String::from_utf8_lossy(path).into_owned();
        // Those that have no name have that of the database.
        if named.paths.len() < MOST_NAMED && !named.paths.contains(&path) {
            named.paths.push(path);
        }
    }

    /// What is remembered of a database.
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

    /// Remembers it, in the place of what was remembered before.
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

    /// What cannot be read, one by one; those that are not named have the name of the database.
    pub(super) fn skipped(&self, found: &Found) -> Vec<Skipped> {
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
