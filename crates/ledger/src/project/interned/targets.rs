//! The targets of tool calls: paths, addresses and commands.
//!
//! Calls often name the same files, so a path is stored once. Short texts, and texts with spaces
//! such as commands, are stored with their calls.

use foldhash::HashMap;
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, OptionalExtension, ToSql};

use crate::Result;

/// The target of a call, as its row holds it.
#[derive(Debug)]
pub(crate) enum Target {
    /// A path or an address, by its number.
    Numbered(i64),
    Text(Box<str>),
}

impl ToSql for Target {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Target::Numbered(id) => Ok((*id).into()),
            Target::Text(text) => text.to_sql(),
        }
    }
}

/// The smallest length of an interned target, in bytes. A shorter one takes less space than a row
/// of its own.
const MIN_INTERNED_BYTES: usize = 16;

/// The largest number of targets in memory, to bound it for any transcript.
const MAX_IN_MEMORY: usize = 4096;

/// The targets that were used since the fold began.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    known: HashMap<Box<str>, i64>,
}

impl Targets {
    /// Returns the stored form of a target. A target gets its number at its first use, so a rebuild
    /// assigns the same numbers.
    pub(crate) fn store(&mut self, conn: &Connection, text: &str) -> Result<Target> {
        if text.len() < MIN_INTERNED_BYTES || text.contains(char::is_whitespace) {
            return Ok(Target::Text(text.into()));
        }
        if let Some(id) = self.known.get(text) {
            return Ok(Target::Numbered(*id));
        }
        let known = conn
            .prepare_cached("SELECT id FROM targets WHERE text = ?1")?
            .query_row([text], |row| row.get(0))
            .optional()?;
        let id = match known {
            Some(id) => id,
            None => {
                conn.prepare_cached("INSERT INTO targets (text) VALUES (?1)")?.execute([text])?;
                conn.last_insert_rowid()
            }
        };
        if self.known.len() >= MAX_IN_MEMORY {
            self.known.clear();
        }
        self.known.insert(text.into(), id);
        Ok(Target::Numbered(id))
    }
}
