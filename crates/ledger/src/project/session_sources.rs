//! Finds the sources that hold a session's lines. Collecting uses this to avoid storing lines that
//! another file of the session already has.
//!
//! Only the projection has the answer, because a path need not name its session. A second index of
//! the records would take space in every ledger. If an answer is missing, as during a rebuild, a
//! line may be stored twice, and nothing is lost.

use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::ids::{SessionRow, SourceId};

/// Expands to an SQL condition: a part holds a conversation. The same rule as
/// `Part::is_transcript`.
macro_rules! holds_transcript {
    ($part:literal) => {
        concat!($part, " IN ('transcript', 'agent', 'subagent')")
    };
}
pub(crate) use holds_transcript;

/// The condition for a source with lines of the conversation itself, unlike other parts of a
/// session.
const IS_TRANSCRIPT: &str =
    concat!("f.kind IN ('file', 'rows') AND ", holds_transcript!("ss.part"));

/// Returns a session by its name. `agent` is empty for a format without agents.
pub(crate) fn find(
    conn: &Connection,
    format: &str,
    agent: &str,
    session_id: &str,
) -> Result<Option<SessionRow>> {
    Ok(conn
        .prepare_cached(
            "SELECT id FROM sessions WHERE format = ?1 AND agent = ?2 AND session_id = ?3",
        )?
        .query_row((format, agent, session_id), |row| row.get(0))
        .optional()?)
}

/// Returns the transcripts of a session, the oldest first.
pub(crate) fn transcripts(conn: &Connection, session: SessionRow) -> Result<Vec<SourceId>> {
    let sql = format!(
        "SELECT ss.source
           FROM session_sources ss CROSS JOIN sources f ON f.id = ss.source
          WHERE ss.session = ?1 AND {IS_TRANSCRIPT}
          ORDER BY ss.source"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let sources = statement.query_map([session], |row| row.get(0))?;
    Ok(sources.collect::<Result<_, _>>()?)
}

/// Returns whether a source is a transcript of a session.
pub(crate) fn is_transcript(
    conn: &Connection,
    session: SessionRow,
    source: SourceId,
) -> Result<bool> {
    let sql = format!(
        "SELECT 1 FROM session_sources ss JOIN sources f ON f.id = ss.source
          WHERE ss.source = ?1 AND ss.session = ?2 AND {IS_TRANSCRIPT}"
    );
    Ok(conn.prepare_cached(&sql)?.exists((source, session))?)
}

/// Returns the sources of a session that belong to this part, the oldest first.
pub(crate) fn of_part(conn: &Connection, session: SessionRow, part: &str) -> Result<Vec<SourceId>> {
    let mut statement = conn.prepare_cached(
        "SELECT source FROM session_sources WHERE session = ?1 AND part = ?2 ORDER BY source",
    )?;
    let sources = statement.query_map((session, part), |row| row.get(0))?;
    Ok(sources.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use quipu_transcript::format::Part;

    #[test]
    fn the_sql_fragment_agrees_with_is_transcript() {
        let conn = rusqlite::Connection::open_in_memory().unwrap();
        for part in Part::ALL {
            let is_transcript: bool = conn
                .query_row(concat!("SELECT ", holds_transcript!("?1")), [part.as_str()], |row| {
                    row.get(0)
                })
                .unwrap();
            assert_eq!(is_transcript, part.is_transcript(), "{part:?}");
        }
    }
}
