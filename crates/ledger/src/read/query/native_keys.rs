//! Keys of native sessions: their spellings, and the sessions that they lead to.
//!
//! Reads only; `store` writes keys.

use quipu_transcript::formats::native;
use quipu_transcript::key::{Kind, SessionKey};
use rusqlite::{Connection, OptionalExtension};

use crate::Result;
use crate::base::ids::{SessionRow, SourceId};

/// Returns the native session that a key leads to. A key leads to sessions of its own agent only.
pub(crate) fn led_to(conn: &Connection, key: &SessionKey) -> Result<Option<SessionRow>> {
    let (Some(agent), Some((_, id))) = (key.agent(), stored_key_and_session(conn, key)?) else {
        return Ok(None);
    };
    let Some(path) = native::transcript_path(agent, &id) else { return Ok(None) };
    Ok(conn
        .prepare_cached(
            "SELECT s.id FROM sources f
               JOIN sessions s ON s.format = f.format AND s.agent = ?3 AND s.session_id = ?4
              WHERE f.format = ?1 AND f.root = x'' AND f.path = ?2 AND f.refused IS NULL
                AND f.generation IS NOT NULL",
        )?
        .query_row((native::NAME, path.as_bytes(), agent, &id), |row| row.get(0))
        .optional()?)
}

/// Returns the source of a native session or of an agent's keys.
pub(crate) fn source_of(conn: &Connection, path: &[u8]) -> Result<Option<SourceId>> {
    Ok(conn
        .prepare_cached("SELECT id FROM sources WHERE format = ?1 AND root = x'' AND path = ?2")?
        .query_row((native::NAME, path), |row| row.get(0))
        .optional()?)
}

/// Returns the source to which the keys of an agent belong.
pub(crate) fn index_of(conn: &Connection, agent: &str) -> Result<Option<SourceId>> {
    match native::index_path(agent) {
        Some(path) => source_of(conn, path.as_bytes()),
        None => Ok(None),
    }
}

/// Returns the stored spelling of a key and the id that it leads to. `dm` and `direct` are the
/// same.
pub(crate) fn stored_key_and_session(
    conn: &Connection,
    key: &SessionKey,
) -> Result<Option<(String, String)>> {
    let Some(agent) = key.agent() else { return Ok(None) };
    let Some(index) = index_of(conn, agent)? else { return Ok(None) };
    let mut statement = conn.prepare_cached(
        "SELECT key, session_id FROM session_keys
          WHERE source = ?1 AND key = ?2 AND session_id IS NOT NULL",
    )?;
    for spelling in spellings(key) {
        let found = statement
            .query_row((index, spelling), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Returns a key as it is written, and as other releases would write it.
fn spellings(key: &SessionKey) -> Vec<String> {
    let mut all = vec![key.as_str().to_owned(), key.canonical()];
    if let (Kind::Direct { channel: Some(channel), account: None, peer }, Some(agent)) =
        (key.kind(), key.agent())
    {
        let rest = key.rest().split_once(peer).map(|(_, rest)| rest).unwrap_or_default();
        all.push(format!("agent:{agent}:{channel}:dm:{peer}{rest}"));
    }
    all.dedup();
    all
}
