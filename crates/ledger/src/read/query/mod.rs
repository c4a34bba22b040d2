//! Queries of the ledger: sessions, stories, trees, usage, notes, jobs and SQL.
//!
//! Queries never change records. Only `complete` writes: it catches the projection up.

mod ambiguous_prefixes;
pub(crate) mod complete;
pub(crate) mod context;
mod cron;
pub(crate) mod empty;
mod files;
pub(crate) mod find;
pub(crate) mod forks;
mod headers;
pub(crate) mod listed;
pub(crate) mod lost;
mod names;
pub(crate) mod native_keys;
mod notes;
pub(crate) mod of_agent;
pub(crate) mod originals;
mod parents;
mod problems;
mod prompts;
mod renamed;
pub(crate) mod sessions;
mod sql;
pub(crate) mod story;
mod tree;
mod turn_counts;
mod usage;
mod waiting;

use rusqlite::Connection;

use crate::Result;
use crate::base::ids::SessionRow;
use crate::file::ledger::Ledger;
use crate::wire::Cursor;

pub use ambiguous_prefixes::ids_with_ambiguous_prefix;
pub use context::{ContextSize, SessionContext, context_of};
pub(crate) use context::{TranscriptGeneration, transcript_generations};
pub use cron::{cron_jobs, cron_runs, matching_jobs};
pub use files::{FileFilter, file_uses, files};
pub use listed::Filter;
pub(crate) use listed::project_name;
pub use names::{Names, names};
pub use notes::{matching_notes, note_versions, notes, notes_in_folder};
pub use problems::problems;
pub use sessions::{Sessions, projects, session_rows, sessions, summary_of};
pub use sql::{SqlAnswer, SqlLimits, sql};
pub use story::{Choice, Story};
pub use tree::{tree, tree_of};
pub use turn_counts::{TurnCounts, session_of_call, turn_counts};
pub use usage::{
    Costs, RecentRequest, UsageBy, UsageRequest, WindowLimits, cost_of, costs, mark_windows,
    recent, usage,
};
pub use waiting::{Waiting, waiting};

/// Returns the session with this name: its id or an unambiguous prefix of it, `AGENT/ID`, a key
/// that leads to it, or `last`. During a rebuild by another process, the projection catches
/// up first, or [`crate::Error::Behind`] is returned.
pub fn find_session(ledger: &Ledger, name: &str) -> Result<SessionRow> {
    complete::complete(ledger, &mut |conn| find::session(conn, name))
}

/// Returns the session with this name among those of an agent, like [`find_session`]. A session of
/// another agent is no match.
pub fn find_session_of_agent(ledger: &Ledger, name: &str, agent: &str) -> Result<SessionRow> {
    complete::complete(ledger, &mut |conn| of_agent::session(conn, name, agent))
}

/// Returns the other sessions that `name` leads to in older indexes, if `name` is a key.
pub fn other_sessions_of_key(ledger: &Ledger, name: &str, row: SessionRow) -> Result<Vec<String>> {
    find::other_sessions_of_key(ledger.conn(), name, row)
}

/// Returns the read position of each followed file, by format and path.
pub fn cursors(ledger: &Ledger) -> Result<Vec<Cursor>> {
    let conn: &Connection = ledger.conn();
    let mut statement = conn.prepare(
        "SELECT s.format, s.root, s.path,
                coalesce((SELECT length FROM indexes i WHERE i.source = s.id), g.cursor), g.tail_length, g.size, g.mtime_ns, g.number,
                g.began, s.is_gone, s.refused,
                (SELECT min(t.session_id)
                   FROM session_sources ss JOIN sessions t ON t.id = ss.session
                  WHERE ss.source = s.id AND ss.part <> 'prompt_history'),
                CASE WHEN s.kind = 'rows' AND g.cursor = 0 AND d.why IS NULL
                     THEN 'database' ELSE s.kind END,
                r.last_row, r.rows
           FROM sources s JOIN generations g ON g.id = s.generation
           LEFT JOIN row_cursors r ON r.generation = g.id
           LEFT JOIN damaged d ON d.generation = g.id
          WHERE s.kind IN ('file', 'rows')
          ORDER BY s.format, s.root, s.path",
    )?;
    let cursors = statement
        .query_map([], |row| {
            let text = |index| -> rusqlite::Result<String> {
                Ok(String::from_utf8_lossy(row.get_ref(index)?.as_blob()?).into_owned())
            };
            let number = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
            let kind: String = row.get(12)?;
            let is_database = kind == "database";
            Ok(Cursor {
                format: row.get(0)?,
                root: text(1)?,
                path: text(2)?,
                // A database is read as a whole or not at all.
                offset: number(if is_database { 5 } else { 3 })?,
                tail_bytes: number(4)?,
                bytes: number(5)?,
                modified_at: row.get::<_, i64>(6)? / 1_000_000,
                generation: row.get(7)?,
                began: row.get(8)?,
                is_gone: row.get(9)?,
                refused: row.get(10)?,
                session_id: row.get(11)?,
                last_row: row.get::<_, Option<i64>>(13)?.filter(|_| !is_database),
                rows: row.get::<_, Option<i64>>(14)?.map(i64::cast_unsigned),
                kind,
            })
        })?
        .collect::<Result<_, _>>()?;
    Ok(cursors)
}
