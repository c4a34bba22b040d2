//! What tool calls are about. The same few files are read and edited again and again, so a path is
//! stored once; a command is stored with its call.

use foldhash::HashMap;
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, OptionalExtension, ToSql};

use crate::Result;

/// What a call is about, as its row holds it.
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

/// Shorter ones are not worth a row of their own.
const SHORTEST: usize = 16;

/// So many are kept in memory.
const MOST_REMEMBERED: usize = 4096;

/// The targets that were met since the fold began.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    known: HashMap<Box<str>, i64>,
}

impl Targets {
    /// How a target is stored. Numbered when it is first met, so that a rebuild numbers it alike.
    pub(crate) fn store(&mut self, conn: &Connection, text: &str) -> Result<Target> {
        if text.len() < SHORTEST || text.contains(char::is_whitespace) {
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
        if self.known.len() >= MOST_REMEMBERED {
            self.known.clear();
        }
        self.known.insert(text.into(), id);
        Ok(Target::Numbered(id))
    }
}
