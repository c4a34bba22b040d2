//! Sessions whose file was renamed.
//!
//! A session keeps the name that its file had when it was first collected, so that its rows never
//! move. Later names also lead to it.

use quipu_transcript::format;
use rusqlite::Connection;

use super::headers;
use crate::Result;
use crate::base::ids::SessionRow;
use crate::project::session_sources::holds_transcript;

/// Returns the sessions whose files got this name, or one that begins with it.
pub(super) fn named(conn: &Connection, name: &str) -> Result<Vec<SessionRow>> {
    Ok(headers::best(all(conn)?, name))
}

/// Returns all sessions whose files got another name, with that name.
pub(super) fn all(conn: &Connection) -> Result<Vec<(String, SessionRow)>> {
    let mut statement = conn.prepare(concat!(
        "SELECT ss.session, s.format, p.path
           FROM (SELECT source, path FROM source_paths UNION SELECT id, path FROM sources) p
           JOIN sources s ON s.id = p.source AND s.kind = 'file' AND p.path <> s.first_path
           JOIN session_sources ss ON ss.source = s.id
          WHERE ",
        holds_transcript!("ss.part"),
    ))?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let format = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        let path = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        let id = format::by_name(format).and_then(|format| format.origin(path).session);
        if let Some(id) = id {
            found.push((id.to_string(), row.get(0)?));
        }
    }
    Ok(found)
}
