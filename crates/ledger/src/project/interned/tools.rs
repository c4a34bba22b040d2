//! The tools of calls: their names, stored once for all calls that share them.
//!
//! The order of records alone decides the numbers, so a rebuild of the same records assigns the
//! same ones.

use foldhash::HashMap;
use rusqlite::{Connection, OptionalExtension};

use crate::Result;

/// The data that calls of one tool share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_partial: bool,
}

/// The number of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ToolId(i64);

impl rusqlite::ToSql for ToolId {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}

/// The largest number of tools in memory. A transcript can contain any names, so memory must be
/// bounded.
const MAX_IN_MEMORY: usize = 1024;

/// The tools that were called since the fold began.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    /// The numbers by name: for whole calls, and for calls that were cut off.
    known: HashMap<Box<str>, [Option<ToolId>; 2]>,
}

impl Tools {
    /// Returns the number of a tool. A tool gets its number at its first call, so a rebuild assigns
    /// the same numbers.
    pub(crate) fn number(&mut self, conn: &Connection, tool: Tool<'_>) -> Result<ToolId> {
        let is_partial = usize::from(tool.is_partial);
        let known = self.known.get(tool.name).and_then(|numbers| *numbers.get(is_partial)?);
        if let Some(id) = known {
            return Ok(id);
        }
        let row = (tool.name, tool.is_partial);
        let known = conn
            .prepare_cached("SELECT id FROM tools WHERE name = ?1 AND is_partial = ?2")?
            .query_row(row, |row| row.get(0))
            .optional()?;
        let id = match known {
            Some(id) => id,
            None => {
                conn.prepare_cached("INSERT INTO tools (name, is_partial) VALUES (?1, ?2)")?
                    .execute(row)?;
                conn.last_insert_rowid()
            }
        };
        if self.known.len() >= MAX_IN_MEMORY {
            self.known.clear();
        }
        let numbers = self.known.entry(tool.name.into()).or_default();
        if let Some(number) = numbers.get_mut(is_partial) {
            *number = Some(ToolId(id));
        }
        Ok(ToolId(id))
    }
}
