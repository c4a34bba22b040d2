//! Native sessions: made, found by id, found by key.

use quipu_transcript::format::Origin;
use quipu_transcript::formats::native;
use quipu_transcript::key::SessionKey;
use quipu_transcript::native::header;
use quipu_transcript::routing::AgentId;
use quipu_transcript::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Map, Value};

use super::work::{FORMAT, Work};
use super::{Fields, Store, meta};
use crate::base::clock;
use crate::base::ids::{GenerationId, SessionRow, SourceId};
use crate::read::query::complete::complete;
use crate::read::query::find::LAST;
use crate::read::query::native_keys::{index_of, noted_as, source_of};
use crate::truth::journal::Event;
use crate::truth::native_lines;
use crate::{Error, Result};

/// The agent that there is without any configuration.
pub(crate) const MAIN: &str = "main";

/// What kind of source a session of ours is, and what stands for an agent's keys.
const KIND: &str = "native";

/// A session that a runtime keeps in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeSession {
    /// Its row.
    pub row: SessionRow,
    /// Whose it is.
    pub agent: String,
    /// Its id.
    pub id: String,
    pub(super) source: SourceId,
    pub(super) generation: GenerationId,
    pub(super) origin: Origin,
}

/// What a new session is made of.
#[derive(Debug, Clone, Default)]
pub struct NewSession<'a> {
    /// Whose it is; the key's agent, or `main`, if nothing is said.
    pub agent: Option<&'a str>,
    /// Its id; a new UUID if nothing is said.
    pub id: Option<&'a str>,
    /// The key that leads to it from now on; `agent:<agent>:explicit:<id>` if nothing is said.
    pub key: Option<&'a str>,
    /// Where its agent works.
    pub cwd: Option<&'a str>,
    /// The id of the session that it goes on from.
    pub parent: Option<&'a str>,
    /// The key may lead to another session, which then has none of its own any more.
    pub takes_key: bool,
    /// What else is noted about it, under the names of OpenClaw's index.
    pub fields: Map<String, Value>,
}

impl Store {
    /// Makes a session: its header, and the key that leads to it from now on.
    pub fn create(&mut self, new: &NewSession<'_>) -> Result<NativeSession> {
        self.write(&mut |work| create(work, new))
    }

    /// The session of that row, to write to it.
    pub fn session(&self, row: SessionRow) -> Result<NativeSession> {
        complete(&self.ledger, &mut |conn| by_row(conn, row))
    }

    /// The session that a key leads to now. A key leads to sessions of its own agent only.
    pub fn by_key(&self, key: &SessionKey) -> Result<Option<NativeSession>> {
        complete(&self.ledger, &mut |conn| by_key(conn, key))
    }

    /// The key that leads to a session now; `None` if another session has taken its place.
    pub fn key_of(&self, session: &NativeSession) -> Result<Option<String>> {
        complete(&self.ledger, &mut |conn| key_of(conn, session))
    }
}

pub(super) fn create(work: &mut Work<'_, '_>, new: &NewSession<'_>) -> Result<NativeSession> {
    let key = new.key.map(SessionKey::parse);
    let keys_agent = key.as_ref().and_then(SessionKey::agent);
    let agent = new.agent.or(keys_agent).unwrap_or(MAIN);
    if let Some(key) = &key
        && keys_agent != Some(agent)
    {
        return Err(Error::refused(format!(
            "the key {} is not one of agent {agent}, whose keys begin with agent:{agent}:",
            key.as_str().escape_debug()
        )));
    }
    if AgentId::parse(agent).ok().as_ref().map(AgentId::as_str) != Some(agent) {
        return Err(Error::refused("an agent's name is small letters, digits, - and _"));
    }
    let is_printable = |text: &str| !text.chars().any(char::is_control);
    if let Some(key) = &key
        && !is_printable(key.as_str())
    {
        return Err(Error::refused("a key has no control characters"));
    }
    if let (Some(key), false) = (&key, new.takes_key)
        && by_key(work.tx, key)?.is_some()
    {
        return Err(Error::Exists { what: "session of the key", name: key.as_str().to_owned() });
    }
    let mut fields = Fields::from(new.fields.clone());
    meta::check(&fields)?;
    if let Some(key) = key.as_ref().filter(|_| new.takes_key) {
        meta::start_anew(work.tx, key, &mut fields)?;
    }
    let id = match new.id {
        Some(id) => id.to_owned(),
        None => uuid::Uuid::new_v4().to_string(),
    };
    let path = native::transcript_path(agent, &id)
        // What looks like a key is looked for as one, and the last one is called so already.
        .filter(|_| is_printable(&id) && !id.starts_with("agent:") && id != LAST)
        .ok_or_else(|| {
            Error::refused(format!(
                "a session's id is 1 to 180 printable characters, no key, and not `{LAST}`"
            ))
        })?;
    let key = match &key {
        Some(key) => key.as_str().to_owned(),
        None => format!("agent:{agent}:explicit:{id}"),
    };
    let mut session = begin(work, agent, id, &path)?;
    let now = Timestamp(clock::now_ms());
    let line = header(&session.id, new.cwd, new.parent, now);
    let seq = work.record(&session, line.as_bytes(), None, None)?;
    session.row = SessionRow(seq.0);
    bind(work, &session, &key, fields)?;
    Ok(session)
}

/// A session without lines. Its row is there once one of them was folded in.
pub(super) fn begin(
    work: &mut Work<'_, '_>,
    agent: &str,
    id: String,
    path: &str,
) -> Result<NativeSession> {
    let tx = work.tx;
    if let Some(source) = source_of(tx, path.as_bytes())? {
        let is_forgotten: bool = tx
            .prepare_cached("SELECT refused IS NOT NULL FROM sources WHERE id = ?1")?
            .query_row([source], |row| row.get(0))?;
        return Err(match is_forgotten {
            // Its mark promises that nothing of that name is kept again.
            true => Error::refused(format!(
                "session {} was forgotten here, and no other gets its id",
                id.escape_debug()
            )),
            false => Error::Exists { what: "session", name: id },
        });
    }
    let (source, generation) = native_lines::begin(tx, KIND, native::NAME, b"", path.as_bytes())?;
    let origin = FORMAT.origin(path.as_bytes());
    let row = SessionRow(0);
    Ok(NativeSession { row, agent: agent.to_owned(), id, source, generation, origin })
}

/// From now on `key` leads to `session`, and has these fields besides what is noted about it.
pub(super) fn bind(
    work: &mut Work<'_, '_>,
    session: &NativeSession,
    key: &str,
    patch: Fields,
) -> Result<()> {
    let source = match index_of(work.tx, &session.agent)? {
        Some(source) => source,
        None => {
            let path = native::index_path(&session.agent).unwrap_or_default();
            native_lines::source(work.tx, KIND, native::NAME, b"", path.as_bytes())?
        }
    };
    work.event(&Event::Native {
        at: clock::now_ms(),
        source: source.0,
        key: key.to_owned(),
        session: session.id.clone(),
        patch,
    })?;
    Ok(())
}

/// A session that was forgotten since it was found.
pub(super) fn no_row(row: SessionRow) -> Error {
    Error::NoMatch { what: "session", name: format!("#{}", row.0) }
}

pub(crate) fn by_row(conn: &Connection, row: SessionRow) -> Result<NativeSession> {
    let found: Option<(String, String, String)> = conn
        .prepare_cached("SELECT format, agent, session_id FROM sessions WHERE id = ?1")?
        .query_row([row], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let (format, agent, id) = found.ok_or_else(|| no_row(row))?;
    if format != native::NAME {
        return Err(Error::Collected { id, format });
    }
    by_id(conn, &agent, &id)?.ok_or_else(|| Error::NoMatch { what: "session", name: id })
}

/// The session of that agent with that id.
pub(super) fn by_id(conn: &Connection, agent: &str, id: &str) -> Result<Option<NativeSession>> {
    let Some(path) = native::transcript_path(agent, id) else { return Ok(None) };
    let found: Option<(SourceId, Option<GenerationId>, SessionRow)> = conn
        .prepare_cached(
            "SELECT f.id, f.generation, s.id FROM sources f
               JOIN sessions s ON s.format = f.format AND s.agent = ?3 AND s.session_id = ?4
              WHERE f.format = ?1 AND f.root = x'' AND f.path = ?2 AND f.refused IS NULL",
        )?
        .query_row((native::NAME, path.as_bytes(), agent, id), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    let Some((source, Some(generation), row)) = found else { return Ok(None) };
    let origin = FORMAT.origin(path.as_bytes());
    let (agent, id) = (agent.to_owned(), id.to_owned());
    Ok(Some(NativeSession { row, agent, id, source, generation, origin }))
}

pub(crate) fn by_key(conn: &Connection, key: &SessionKey) -> Result<Option<NativeSession>> {
    let Some(agent) = key.agent() else { return Ok(None) };
    match noted_as(conn, key)? {
        Some((_, session)) => by_id(conn, agent, &session),
        None => Ok(None),
    }
}

pub(crate) fn key_of(conn: &Connection, session: &NativeSession) -> Result<Option<String>> {
    let Some(index) = index_of(conn, &session.agent)? else { return Ok(None) };
    // Several keys may have been switched to it; the first one is its own.
    Ok(conn
        .prepare_cached(
            "SELECT k.key FROM session_keys k
               JOIN key_history h
                 ON h.session_id = k.session_id AND h.source = k.source AND h.key = k.key
              WHERE k.session_id = ?2 AND k.source = ?1
              ORDER BY h.seq LIMIT 1",
        )?
        .query_row((index, &session.id), |row| row.get(0))
        .optional()?)
}
