//! Files that hold the whole output of a call, or a text that was pasted into a prompt.
//!
//! A hit in such a file is shown as the result of that call, or as that prompt. Its role, time,
//! session and failure are read from there, never from the file's own entry.

use foldhash::{HashMap, HashMapExt};
use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::ids::EntryId;
use crate::project::family::in_one_folder;

/// Expands to a query for the files with pasted texts and their prompts.
macro_rules! pasted {
    () => {
        "SELECT d.id, p.prompt FROM pasted_texts p
           JOIN documents d ON d.session IS NULL AND d.name = p.name AND d.part = 'pasted_text'"
    };
}

/// Returns the first prompt that a text was pasted into.
pub(super) fn prompt_of(conn: &Connection, file: EntryId) -> Result<Option<EntryId>> {
    Ok(conn
        .prepare_cached(concat!(pasted!(), " WHERE d.id = ?1 ORDER BY p.prompt LIMIT 1"))?
        .query_row([file], |row| row.get(1))
        .optional()?)
}

/// The results of calls and the prompts, by the entries of their files.
pub(super) struct Outputs {
    results: HashMap<EntryId, EntryId>,
}

impl Outputs {
    pub(super) fn read(conn: &Connection) -> Result<Outputs> {
        let mut results = HashMap::new();
        let mut statement = conn.prepare_cached(
            "SELECT output, result FROM tool_call_rows INDEXED BY tool_calls_by_output
              WHERE output_name IS NOT NULL AND output IS NOT NULL AND result IS NOT NULL",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            results.insert(row.get(0)?, row.get(1)?);
        }
        let mut statement = conn.prepare_cached(concat!(pasted!(), " ORDER BY p.prompt DESC"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            results.insert(row.get(0)?, row.get(1)?);
        }
        Ok(Outputs { results })
    }

    /// Returns the entry whose row describes `entry`: the result whose output it is, the prompt that
    /// it was pasted into, or itself.
    pub(super) fn described_by(&self, entry: EntryId) -> EntryId {
        self.results.get(&entry).copied().unwrap_or(entry)
    }
}

/// Returns the result for one entry that is known to be a file with a call's output.
pub(super) fn result_of(conn: &Connection, output: EntryId) -> Result<Option<EntryId>> {
    // `c.output` alone identifies the call. The condition on the session only makes use of its
    // index.
    Ok(conn
        .prepare_cached(concat!(
            "SELECT c.result
               FROM documents d
               JOIN tool_call_rows c ON c.output_name = d.name AND c.output = d.id
              WHERE d.id = ?1 AND c.result IS NOT NULL
                AND c.session IN (
                    SELECT d.session
                     UNION ALL
                    SELECT child.id FROM ",
            in_one_folder!(),
            " WHERE parent.id = d.session)
              LIMIT 1",
        ))?
        .query_row([output], |row| row.get(0))
        .optional()?)
}
