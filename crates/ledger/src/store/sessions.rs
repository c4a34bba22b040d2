//! Creates native sessions, and finds them by id or key.
//!
//! Never creates a session under the id of a forgotten one.

use quipu_transcript::format::Origin;
use quipu_transcript::formats::native;
use quipu_transcript::key::SessionKey;
use quipu_transcript::native::header;
use quipu_transcript::routing::AgentId;
use quipu_transcript::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Map, Value};

use super::session::Session;
use super::work::{FORMAT, Work};
use super::{Fields, Store, meta};
use crate::base::clock;
use crate::base::ids::{GenerationId, SessionRow, SourceId};
use crate::read::query::complete::complete;
use crate::read::query::find::LAST;
use crate::read::query::native_keys::{index_of, source_of, stored_key_and_session};
use crate::read::query::{find_session, find_session_of_agent};
use crate::truth::journal::Event;
use crate::truth::{native_lines, sources};
use crate::{Error, Result};

/// The name of the default agent, which needs no configuration.
pub(crate) const MAIN: &str = "main";

/// The kind of the sources that hold native sessions and the keys of their agents.
const KIND: &str = "native";

/// A session that a runtime keeps in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NativeSession {
    pub(crate) row: SessionRow,
    pub(crate) agent: String,
    pub(crate) id: String,
    pub(super) source: SourceId,
    pub(super) generation: GenerationId,
    pub(super) origin: Origin,
}

/// The options of a new session.
#[derive(Debug, Clone, Default)]
pub struct NewSession<'a> {
    /// The agent of the session; by default the key's agent, or `main`.
    pub agent: Option<&'a str>,
    /// The session's id; a new UUID by default.
    pub id: Option<&'a str>,
    /// The key that leads to the session; `agent:<agent>:explicit:<id>` by default.
    pub key: Option<&'a str>,
    /// The working directory of the session's agent.
    pub cwd: Option<&'a str>,
    /// The id of the session that this one continues.
    pub parent: Option<&'a str>,
    /// True if the key may be taken from another session, which then has no key.
    pub takes_key: bool,
    /// Further metadata, under the field names of OpenClaw's index.
    pub fields: Map<String, Value>,
}

impl Store {
    /// Opens a session by its key, its id, or a prefix of its id.
    ///
    /// Finding a key or an id takes the same time for any number of sessions. During a rebuild, the
    /// call waits until all sessions are projected. Fails with [`Error::NoMatch`] if no session
    /// matches, and with [`Error::Collected`] if another program writes the session.
    ///
    /// ```
    /// use quipu_ledger::{Error, Store};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let store = Store::open(folder.path().join("ledger.db"))?;
    /// assert!(matches!(store.session("agent:main:main"), Err(Error::NoMatch { .. })));
    /// let made = store.session_or_new("agent:main:main")?;
    /// assert_eq!(store.session("agent:main:main")?.id(), made.id());
    /// assert_eq!(store.session(made.id())?.row(), made.row());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn session(&self, name: &str) -> Result<Session> {
        self.session_at(self.find(name, None)?)
    }

    /// Returns the session with this name, also a collected one. With an agent, a session of another
    /// agent is no match.
    pub fn find(&self, name: &str, agent: Option<&str>) -> Result<SessionRow> {
        let core = self.core();
        match agent {
            Some(agent) => find_session_of_agent(&core.ledger, name, agent),
            None => find_session(&core.ledger, name),
        }
    }

    /// Opens a session that was found.
    pub fn session_at(&self, row: SessionRow) -> Result<Session> {
        let native = complete(&self.core().ledger, &mut |conn| by_row(conn, row))?;
        Ok(self.open_session(native))
    }

    /// Opens the session that a key leads to, and creates one if there is none.
    pub fn session_or_new(&self, key: &str) -> Result<Session> {
        loop {
            if let Some(session) = self.session_of_key(key)? {
                return Ok(session);
            }
            match self.create(&NewSession { key: Some(key), ..NewSession::default() }) {
                // Another process has created the session in the meantime.
                Err(Error::Exists { .. }) => {}
                made => return made,
            }
        }
    }

    /// Opens the session that a key leads to; `None` if there is none.
    pub fn session_of_key(&self, key: &str) -> Result<Option<Session>> {
        let key = SessionKey::parse(key);
        let found = complete(&self.core().ledger, &mut |conn| by_key(conn, &key))?;
        Ok(found.map(|native| self.open_session(native)))
    }

    /// Creates a session with its header, and makes its key lead to it.
    ///
    /// ```
    /// use quipu_ledger::store::NewSession;
    /// use quipu_ledger::Store;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let store = Store::open(folder.path().join("ledger.db"))?;
    /// let new = NewSession { id: Some("nightly"), cwd: Some("/work"), ..NewSession::default() };
    /// let session = store.create(&new)?;
    /// assert_eq!(session.key()?.as_deref(), Some("agent:main:explicit:nightly"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(&self, new: &NewSession<'_>) -> Result<Session> {
        let native = self.write(&mut |work| create(work, new))?;
        Ok(self.open_session(native))
    }

    pub(super) fn open_session(&self, native: NativeSession) -> Session {
        Session { store: self.clone(), native }
    }
}

/// Creates a session with its header within an open transaction, and makes its key lead to it.
pub(super) fn create(work: &mut Work<'_, '_>, new: &NewSession<'_>) -> Result<NativeSession> {
    let key = new.key.map(SessionKey::parse);
    let keys_agent = key.as_ref().and_then(SessionKey::agent);
    let agent = new.agent.or(keys_agent).unwrap_or(MAIN);
    if let Some(key) = &key
        && keys_agent != Some(agent)
    {
        return Err(Error::refused(format!(
            "the key {} does not belong to agent {agent}, whose keys begin with agent:{agent}:",
            key.as_str().escape_debug()
        )));
    }
    if AgentId::parse(agent).ok().as_ref().map(AgentId::as_str) != Some(agent) {
        return Err(Error::refused("an agent's name has only lower-case letters, digits, - and _"));
    }
    let is_printable = |text: &str| !text.chars().any(char::is_control);
    if let Some(key) = &key
        && !is_printable(key.as_str())
    {
        return Err(Error::refused("a session key must not have control characters"));
    }
    if let (Some(key), false) = (&key, new.takes_key)
        && by_key(work.tx, key)?.is_some()
    {
        return Err(Error::Exists { what: "session of the key", name: key.as_str().to_owned() });
    }
    let mut fields = Fields::from(new.fields.clone());
    meta::check(&fields)?;
    if let Some(key) = key.as_ref().filter(|_| new.takes_key) {
        meta::remove_counts(work.tx, key, &mut fields)?;
    }
    let id = match new.id {
        Some(id) => id.to_owned(),
        None => uuid::Uuid::new_v4().to_string(),
    };
    let path = native::transcript_path(agent, &id)
        // An id in the form of a key would be looked up as a key, and `LAST` already names the
        // latest session.
        .filter(|_| is_printable(&id) && !id.starts_with("agent:") && id != LAST)
        .ok_or_else(|| {
            Error::refused(format!(
                "a session id must have 1 to 180 bytes without control characters, and must not be a session key or `{LAST}`"
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

/// Returns a new session without lines. Its row exists once its first line is projected.
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
            // Forgetting a session promises that its id is never stored again.
            true => Error::refused(format!(
                "session {} was forgotten, and its id cannot be used again",
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

/// Makes `key` lead to `session`, and patches the metadata of the key. A session with a key is not
/// deleted.
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
    set_deleted(work, session, false)
}

/// Marks a session whose agent deleted it before it was imported, or removes the mark.
pub(super) fn set_deleted(
    work: &mut Work<'_, '_>,
    session: &NativeSession,
    is_deleted: bool,
) -> Result<()> {
    // A native session has no file, so the mark for a file that is gone has this meaning instead.
    if sources::set_gone(work.tx, session.source, is_deleted)? {
        let (at, source) = (clock::now_ms(), session.source.0);
        work.event(&match is_deleted {
            true => Event::Gone { at, source },
            false => Event::Back { at, source },
        })?;
    }
    Ok(())
}

/// Returns the error for a session that was forgotten after it was found.
pub(super) fn no_row(row: SessionRow) -> Error {
    Error::NoMatch { what: "session", name: format!("#{}", row.0) }
}

/// Returns the session with that row. Fails with [`Error::Collected`] if it is not native.
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

/// Returns the session with that agent and that id.
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

/// Returns the session that a key leads to.
pub(crate) fn by_key(conn: &Connection, key: &SessionKey) -> Result<Option<NativeSession>> {
    let Some(agent) = key.agent() else { return Ok(None) };
    match stored_key_and_session(conn, key)? {
        Some((_, session)) => by_id(conn, agent, &session),
        None => Ok(None),
    }
}

/// Returns the key that leads to a session. If several do, returns the one that led to it first.
pub(crate) fn key_of(conn: &Connection, session: &NativeSession) -> Result<Option<String>> {
    let Some(index) = index_of(conn, &session.agent)? else { return Ok(None) };
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
