//! What tool calls have in common: the tool's name and how their ids begin, stored once for all
//! calls that share them.

use foldhash::HashMap;
use rusqlite::{Connection, OptionalExtension};

use crate::Result;

/// How ids of calls begin, the longest first. Others begin with nothing.
const BEGINNINGS: &[&str] = &["toolu_vrtx_01", "toolu_bdrk_01", "toolu_01", "call_"];

/// An id of a call in its two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallId<'a> {
    /// What many ids have in common; it is stored with the tool.
    pub(crate) beginning: &'static str,
    /// The rest, which is stored with the call.
    pub(crate) rest: &'a str,
}

impl<'a> CallId<'a> {
    pub(crate) fn of(id: &'a str) -> CallId<'a> {
        let parts = BEGINNINGS
            .iter()
            .find_map(|beginning| id.strip_prefix(beginning).map(|rest| (*beginning, rest)));
        let (beginning, rest) = parts.unwrap_or(("", id));
        CallId { beginning, rest }
    }
}

/// What a call shares with others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool<'a> {
    pub(crate) name: &'a str,
    pub(crate) call_begins: &'static str,
    pub(crate) is_partial: bool,
}

/// A tool's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ToolId(i64);

impl rusqlite::ToSql for ToolId {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}

/// So many tools are kept in memory: their names are whatever a transcript says.
const MOST_REMEMBERED: usize = 1024;

/// The tools that were called since the fold began.
#[derive(Debug, Default)]
pub(crate) struct Toolbox {
    /// By name; most tools have one number, for one agent gives them their ids.
    known: HashMap<Box<str>, Vec<(&'static str, bool, ToolId)>>,
}

impl Toolbox {
    /// The number of a tool. Numbered when it is first called, so that a rebuild numbers it alike.
    pub(crate) fn number(&mut self, conn: &Connection, tool: Tool<'_>) -> Result<ToolId> {
        let known = self.known.get(tool.name).map_or(&[][..], Vec::as_slice);
        let is_it = |known: &&(&str, bool, ToolId)| {
            (known.0, known.1) == (tool.call_begins, tool.is_partial)
        };
        if let Some((_, _, id)) = known.iter().find(is_it) {
            return Ok(*id);
        }
        let row = (tool.name, tool.call_begins, tool.is_partial);
        let known = conn
            .prepare_cached(
                "SELECT id FROM tools WHERE name = ?1 AND call_begins = ?2 AND is_partial = ?3",
            )?
            .query_row(row, |row| row.get(0))
            .optional()?;
        let id = match known {
            Some(id) => id,
            None => {
                conn.prepare_cached(
                    "INSERT INTO tools (name, call_begins, is_partial) VALUES (?1, ?2, ?3)",
                )?
                .execute(row)?;
                conn.last_insert_rowid()
            }
        };
        if self.known.len() >= MOST_REMEMBERED {
            self.known.clear();
        }
        let numbers = self.known.entry(tool.name.into()).or_default();
        numbers.push((tool.call_begins, tool.is_partial, ToolId(id)));
        Ok(ToolId(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_calls_come_together_again() {
        for (id, beginning) in [
            ("toolu_01AbC", "toolu_01"),
            ("toolu_bdrk_01AbC", "toolu_bdrk_01"),
            ("toolu_1", ""),
            ("call_7|fc_8", "call_"),
            ("call_", "call_"),
            ("", ""),
            ("ünique", ""),
        ] {
            let parts = CallId::of(id);
            assert_eq!(parts.beginning, beginning, "{id}");
            assert_eq!(format!("{}{}", parts.beginning, parts.rest), id);
        }
    }
}
