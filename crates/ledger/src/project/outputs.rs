//! Files that hold the whole output of a call.
//!
//! Sub-agents write theirs into the folder of their parent session, so a file may belong to a call
//! of either session. The order of collecting never matters: the later of file and call finds the
//! other.

use rusqlite::Connection;

use super::family::in_one_folder;
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};

/// Returns the newest collected file with that name that a call of the session may have written.
pub(super) fn newest_file(
    conn: &Connection,
    session: SessionRow,
    name: &str,
) -> Result<Option<EntryId>> {
    Ok(conn
        .prepare_cached(concat!(
            "SELECT max(id) FROM documents
              WHERE name = ?2
                AND session IN (
                    SELECT ?1
                     UNION ALL
                    SELECT parent.id FROM ",
            in_one_folder!(),
            " WHERE child.id = ?1)",
        ))?
        .query_row((session, name), |row| row.get(0))?)
}

/// Attaches a file of the session to the calls that name it.
pub(super) fn attach(
    conn: &Connection,
    session: SessionRow,
    name: &str,
    file: EntryId,
) -> Result<()> {
    conn.prepare_cached(concat!(
        "UPDATE tool_call_rows SET output = ?3
          WHERE output_name = ?2
            AND session IN (
                SELECT ?1
                 UNION ALL
                SELECT child.id FROM ",
        in_one_folder!(),
        " WHERE parent.id = ?1)",
    ))?
    .execute((session, name, file))?;
    Ok(())
}
