//! Files that hold the whole output of a call. Sub-agents put theirs beside those of the session they
//! work for, so such a file may belong to a call of either. Which of the two is collected first does
//! not matter: the later one finds the other.

use rusqlite::Connection;

use super::family::in_one_folder;
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};

/// The newest collected file of that name that a call of the session can have written.
pub(super) fn file(conn: &Connection, session: SessionRow, name: &str) -> Result<Option<EntryId>> {
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

/// Gives a file of the session to the calls that name it.
pub(super) fn give(
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
